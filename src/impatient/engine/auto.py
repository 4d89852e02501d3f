"""Which engine fits a model and a device."""

import copy
import logging
from dataclasses import replace

import torch
from torch import nn

from impatient.checks import ConfigError, check, integer, one_of
from impatient.engine.linear import Linear, closed_form
from impatient.engine.local import Engine, LocalSGD, Task, Work
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap
from impatient.flat import FlatModel
from impatient.messages import ClientPlan

log = logging.getLogger(__name__)


class EngineChoice:
    """Engine settings: name (auto, loop, vmap, linear) and chunk, the number of clients at hand at once (None: the
    engine's own).

    auto takes the first that fits:
        linear   softmax regression and model=quadratic, in closed form
        loop     tied weights (vmap loses them), dropout (under vmap its masks would depend on the chunk), recurrent
                 layers (no batching rule), convolutions on a CPU (the grouped kernel is slower than clients in turn)
        vmap     all else, if one step of it runs: data-dependent control flow does not, and goes to the loop
    """

    def __init__(self, name: str = "auto", chunk: int | None = None) -> None:
        check(one_of("name", name, ("auto", *ENGINES)), None if chunk is None else integer("chunk", chunk, 1))
        self.name, self.chunk = name, chunk

    def pick(self, task: Task, device: torch.device) -> Engine:
        """The engine for this model and device; the log says which and why. Raises ConfigError if it cannot be."""
        name, why = (self.name, "as asked") if self.name != "auto" else _auto(task, device)
        if name == "linear" and closed_form(task.model) is None:
            raise ConfigError(
                "engine=linear: takes softmax regression (model=logistic) and model=quadratic only; use engine=auto"
            )
        if name == "vmap" and _tied(task.model.module):
            raise ConfigError("engine=vmap: loses tied weights; use engine=auto or loop")
        engine = ENGINES[name]()
        engine.chunk = self.chunk or engine.chunk
        log.info("engine: %s (%s), %d clients at a time", name, why, engine.chunk)
        return engine


ENGINES: dict[str, type[Engine]] = {"loop": Loop, "vmap": Vmap, "linear": Linear}


def _tied(module: nn.Module) -> bool:
    """Whether one parameter has two names."""
    return len(list(module.named_parameters(remove_duplicate=False))) > len(list(module.parameters()))


def _auto(task: Task, device: torch.device) -> tuple[str, str]:
    if form := closed_form(task.model):
        return "linear", form.__name__.replace("_", " ")
    modules = list(task.model.module.modules())
    if _tied(task.model.module):
        return "loop", "the model has tied weights"
    if any(isinstance(m, nn.modules.dropout._DropoutNd) for m in modules):
        return "loop", "the model has dropout"
    if any(isinstance(m, nn.RNNBase) for m in modules):
        return "loop", "the model is recurrent"
    if device.type == "cpu" and any(isinstance(m, nn.modules.conv._ConvNd) for m in modules):
        return "loop", "convolutions on a CPU"
    try:
        first = torch.zeros(1, 1, 1, dtype=torch.int64)
        once, ids = first[0] + 1, first[0, 0]
        spare = replace(task, model=FlatModel(copy.deepcopy(task.model.module), task.model.loss))  # a failure ruins it
        Vmap().run(spare, task.model.get(), ClientPlan(), Work(ids, first, once, 1.0, LocalSGD(1.0), 0, 0))
    except (RuntimeError, ValueError) as error:
        return "loop", f"vmap cannot run this model: {str(error).splitlines()[0][:80]}"
    return "vmap", "clients batched together"


def check_model(net: nn.Module, input_shape: tuple[int, ...], num_classes: int) -> None:
    """Raise ValueError where a network cannot be trained on this data; one sample goes through it.

    It must give logits [B, num_classes], or without classes (num_classes = 0) outputs of the samples' shape.
    """
    refuse_batch_norm(net)
    if not sum(p.numel() for p in net.parameters() if p.requires_grad):
        raise ValueError("has no trainable parameter")
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad():
            out = net(torch.zeros(1, *input_shape))
    except Exception as error:
        raise ValueError(f"does not take samples of shape {input_shape}: {error}") from error
    finally:
        net.train(was_training)
    if tuple(out.shape[1:]) != ((num_classes,) if num_classes else input_shape):
        wanted = f"the data has {num_classes} classes" if num_classes else "w - x is wanted; use model=quadratic"
        raise ValueError(f"gives outputs {tuple(out.shape[1:])} where {wanted}")


def refuse_batch_norm(model: nn.Module) -> None:
    """Raise ValueError for batch statistics: no rule here knows how to average their running buffers."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and (
            module.track_running_stats or isinstance(module, nn.modules.batchnorm._BatchNorm)
        ):
            raise ValueError(
                f"the model's layer {name!r} is {type(module).__name__}: its batch statistics mix the clients' label "
                "skew into the model and its running buffers have no defined average; use GroupNorm or LayerNorm"
            )
