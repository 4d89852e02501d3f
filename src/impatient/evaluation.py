"""How good a model is: over all clients' training data, and over the whole test set."""

import math

import torch
from torch import Tensor
from torchmetrics.functional.classification import multiclass_stat_scores

from impatient.data.dataset import Clients, Dataset, Normalise
from impatient.engine.local import gather
from impatient.flat import FlatModel
from impatient.messages import Flat
from impatient.ranks import Ranks

BATCH_ELEMENTS = 2**20  # input numbers in one evaluation batch: 1,337 MNIST images


class Evaluator:
    """Resident data and the fixed list of what is evaluated.

    train/loss               mean loss over all clients' samples, without the L2 term
    train/objective          what is minimised: Σ a_i·F_i(w), F_i the mean loss of client i plus weight_decay/2·‖w‖²
    train/loss_worst_decile  mean over the tenth of the clients with the largest loss
    test/loss, test/acc      over the whole test set; test/acc/<class> for each class
    """

    def __init__(
        self,
        model: FlatModel,
        dataset: Dataset,
        clients: Clients,
        weight: Tensor,
        weight_decay: float,
        device: torch.device,
        dtype: torch.dtype,
        ranks: Ranks | None = None,
    ) -> None:
        self.ranks = ranks or Ranks()
        self.model, self.weight, self.weight_decay = model, weight, weight_decay
        self.classes = [name.replace("/", "-") for name in dataset.classes]  # a slash would open a new group
        self.normalise = Normalise(dataset, device, dtype)
        self.x, self.y = _placed(dataset.x, device), dataset.y.to(device)
        self.num_test = len(dataset.y_test)
        share = slice(self.ranks.rank, None, self.ranks.world)
        self.x_test, self.y_test = _placed(dataset.x_test[share], device), dataset.y_test[share].to(device)
        sizes = torch.from_numpy(clients.sizes)
        self.sizes = sizes.to(torch.float64)
        own = self.ranks.own(torch.arange(len(clients)))
        self.owner = torch.repeat_interleave(own, sizes[own])
        none = [torch.empty(0, dtype=torch.int64)]
        self.index = torch.cat([torch.from_numpy(clients.indices[i]) for i in own.tolist()] or none).to(device)

    @property
    def names(self) -> list[str]:
        """The metrics, in the order of the columns."""
        train = ["train/loss", "train/objective", "train/loss_worst_decile"]
        test = ["test/loss", "test/acc", *(f"test/acc/{c}" for c in self.classes)] if self.classes else ["test/loss"]
        return train + test

    @torch.inference_mode()
    def __call__(self, params: Flat | None = None) -> dict[str, float]:
        """Evaluate in eval mode, the model as it is or at params [P]; parameters and mode are left as they were."""
        module = self.model.module
        was_training, was = module.training, self.model.get()
        module.eval()
        try:
            if params is not None:
                self.model.set(params)
            return {**self._train(), **self._test()}
        finally:
            self.model.set(was)
            module.train(was_training)

    def _train(self) -> dict[str, float]:
        losses = [self._losses(gather(self.x, some), self.y[some])[0] for some in self.index.split(self._batch(self.x))]
        per_sample = torch.cat(losses).to("cpu", torch.float64)
        sums = self.ranks.sum(torch.zeros_like(self.sizes).index_add_(0, self.owner, per_sample))
        per_client = sums / self.sizes
        squares = sum(float(p.detach().to(torch.float64).square().sum()) for p in self.model.params)
        worst = per_client.topk(math.ceil(len(per_client) / 10)).values
        return {
            "train/loss": float(sums.sum() / self.sizes.sum()),
            "train/objective": float((self.weight * per_client).sum()) + self.weight_decay / 2 * squares,
            "train/loss_worst_decile": float(worst.mean()),
        }

    def _test(self) -> dict[str, float]:
        total, scores = torch.zeros(1, dtype=torch.float64), torch.zeros(len(self.classes), 5, dtype=torch.int64)
        size = self._batch(self.x_test)
        for x, y in zip(self.x_test.split(size), self.y_test.split(size), strict=True):
            losses, out = self._losses(x, y)
            total += losses.to(torch.float64).sum().cpu()
            if self.classes:
                scores += multiclass_stat_scores(out, y, len(self.classes), average=None, validate_args=False).cpu()
        metrics = {"test/loss": float(self.ranks.sum(total)) / self.num_test}
        if self.classes:
            scores = self.ranks.sum(scores)
            right, support = scores[:, 0].tolist(), scores[:, 4].tolist()  # torchmetrics: tp, fp, tn, fn, support
            metrics["test/acc"] = sum(right) / sum(support)
            for name, r, s in zip(self.classes, right, support, strict=True):
                metrics[f"test/acc/{name}"] = r / s if s else math.nan
        return metrics

    def _losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        out = self.model.module(self.normalise(x))
        return self.model.loss(out, y), out

    def _batch(self, x: Tensor) -> int:
        return max(1, BATCH_ELEMENTS // max(1, x[0].numel()))


def _placed(x: Tensor, device: torch.device) -> Tensor:
    """On a CPU images lie channels last: max-pooling and convolutions are faster so."""
    if x.ndim == 4 and device.type == "cpu":
        x = x.contiguous(memory_format=torch.channels_last)
    return x.to(device)
