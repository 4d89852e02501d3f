"""One federated round as a LightningModule with manual optimization."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import lightning as L
import torch
from torch import Tensor, nn

from impatient.aggregators.base import Aggregator
from impatient.engine.auto import EngineChoice, refuse_batch_norm
from impatient.engine.local import LocalSGD, Task
from impatient.evaluation import Evaluator
from impatient.flat import FlatModel
from impatient.lit.checkpoint import check_same_run
from impatient.lit.datamodule import FederatedDataModule
from impatient.lit.ledger import Ledger
from impatient.memory import DTYPES, ClientMemory, MemorySettings
from impatient.messages import Flat, State
from impatient.ranks import Ranks
from impatient.round import Federation, Round, ServerState


class FederatedRound(L.LightningModule):
    """select → plan → local steps → collect → step, then one step of one wrapped server optimizer, every round.

    trainer.global_step is the number of rounds done; in a held round every gradient is None, which moves nothing.
    Evaluates inside the round every `eval_every` rounds and in the last one, and hands each round's row of metrics to
    all loggers in one call.
    """

    def __init__(
        self,
        model: nn.Module,
        aggregator: Aggregator,
        client: LocalSGD,
        server: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
        engine: EngineChoice | None = None,
        memory: MemorySettings | None = None,
        eval_every: int = 1,
        on_bad_update: str = "fail",
        identity: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        refuse_batch_norm(model)
        self.automatic_optimization = False
        self.model, self.aggregator, self.client, self.server = model, aggregator, client, server
        self.engine_choice, self.memory_settings = engine or EngineChoice(), memory or MemorySettings()
        self.eval_every, self.skip_bad = eval_every, on_bad_update == "skip"
        self.identity = dict(identity or {})
        self.row: dict[str, float] = {}
        self.reported = torch.empty(0, dtype=torch.int64)
        self.evaluated: dict[str, float] = {}
        self._restored: dict[str, Any] | None = None
        self._restored_weights: dict[str, Tensor] | None = None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The server optimizer over the model's trainable parameters."""
        return self.server([p for p in self.model.parameters() if p.requires_grad])

    @property
    def data(self) -> FederatedDataModule:
        """The trainer's data module."""
        return cast(FederatedDataModule, cast(Any, self.trainer).datamodule)

    # set-up ----------------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Put the data beside the model."""
        if self._restored_weights is not None:
            # Lightning restores before it makes the module double, which rounds the weights to float32.
            self.load_state_dict(self._restored_weights)
            self._restored_weights = None
        collective = self.device if self.device.type == "cuda" else torch.device("cpu")
        self.ranks = Ranks(self.trainer.global_rank, self.trainer.world_size, collective)
        dm, dtype = self.data, next(self.model.parameters()).dtype
        self.flat = FlatModel(self.model, dm.data.loss)
        self.evaluator = Evaluator(
            self.flat, dm.data, dm.clients, dm.weight, self.client.weight_decay, self.device, dtype, self.ranks
        )
        self.task = Task(self.flat, self.evaluator.x, self.evaluator.y, self.evaluator.normalise)

    def on_fit_start(self) -> None:
        """Make the engine, the rule's state and the per-client memory, or take them from the checkpoint."""
        self._place()
        dm, engine, params = self.data, self.engine_choice.pick(self.task, self.device), self.flat.get()
        self.federation = Federation(
            self.aggregator, engine, self.task, self.client, dm.weight, dm.batches, dm.seeds.batches, engine.chunk,
            self.skip_bad, self.ranks,
        )  # fmt: skip
        device = self.device if self.memory_settings.device == "auto" else torch.device(self.memory_settings.device)
        dtype = DTYPES[self.memory_settings.dtype]
        memory = ClientMemory(self.aggregator.slots, dm.num_clients, params, device, dtype, self.ranks)
        self.kept = ServerState(self._state(params), memory)
        self.ledger = Ledger(self.aggregator, self.flat.num_params, dm.num_clients)
        if self._restored is not None:
            self.row, self.evaluated = self._restored["row"], self._restored["evaluated"]
            self.kept.update = self._restored["update"]
            self.kept.memory.load_state_dict(self._restored["memory"])
            self.ledger.load_state_dict(self._restored)
            self._restored = None

    def _state(self, params: Flat) -> State:
        """The rule's state, from the checkpoint where there is one."""
        state = self.aggregator.init(params, self.data.num_clients)
        if self._restored is None:
            return state
        return {name: value.to(state[name].device) for name, value in self._restored["state"].items()}

    def on_train_start(self) -> None:
        """Tell the loggers which columns there will be and at which round the run stands."""
        for logger in self.trainer.loggers:
            if begin := getattr(logger, "begin", None):
                begin(self.columns, self.trainer.global_step)

    @property
    def columns(self) -> list[str]:
        """Every metric a row may have."""
        before, after = self.ledger.columns
        return [*before, *self.evaluator.names, *after]

    # the round -------------------------------------------------------------------------------------------------------

    def training_step(self, batch: Round, batch_idx: int) -> None:
        """Round t of the algorithm."""
        started = time.perf_counter()
        self.model.train()
        played = self.federation.play(self.kept, batch, self.flat.get(), self._move)
        self.reported = played.answers.reported
        self.row = self.ledger.record(played, self.kept.update, time.perf_counter() - started)
        last = batch.round + 1 == self.trainer.max_steps
        self.ledger.warn_if_stuck(played, self.kept.state, unmoved=last and self.kept.update == 0)
        if last or (batch.round + 1) % self.eval_every == 0:
            self.evaluated = self.evaluator(self.aggregator.model(self.kept.state, self.flat.get()))
            self.row |= self.evaluated
        for logger in self.trainer.loggers:
            logger.log_metrics(self.row, step=batch.round)
        self.trainer.callback_metrics.update({k: torch.tensor(v) for k, v in self.row.items()})

    def _move(self, direction: Flat | None) -> Flat:
        """One step of the server optimizer, which Lightning counts as a round; without gradients the model holds."""
        pieces = self.flat.views(direction) if direction is not None else {}
        for name, p in zip(self.flat.names, self.flat.params, strict=True):
            p.grad = pieces[name].to(p.dtype) if pieces else None
        cast(Any, self.optimizers()).step()
        return self.flat.get()

    def summary(self) -> dict[str, Any]:
        """What a finished run reports: the last evaluation, and what its rounds left behind."""
        done: dict[str, Any] = {k: self.row[k] for k in ("round", "update", "lr") if k in self.row}
        hashes = {**self.data.hashes(), "hash/masks": self.ledger.participation.mask_hash}
        return {**done, **self.evaluated, **self.ledger.summary(), **hashes}

    # evaluation by itself, and checkpoints ---------------------------------------------------------------------------

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """The same metrics as inside the round, for eval.py."""
        self._place()
        params = self.flat.get()
        self.evaluated = self.evaluator(self.aggregator.model(self._state(params), params))
        self.log_dict(self.evaluated, batch_size=1)

    validation_step = test_step

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the clocks, the rule's state, the memory and the statistics: tensors and plain Python only."""
        checkpoint["impatient"] = {
            "identity": dict(self.identity),
            "update": self.kept.update,
            "row": dict(self.row),
            "evaluated": dict(self.evaluated),
            "state": dict(self.kept.state),
            "memory": self.kept.memory.state_dict(),
            **self.ledger.state_dict(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep them until the memory is made."""
        check_same_run(checkpoint["impatient"]["identity"], self.identity)
        self._restored, self._restored_weights = checkpoint["impatient"], checkpoint["state_dict"]
