"""Which engine fits a model and a device."""

import logging

import torch
from torch import nn

from impatient.checks import check, integer, one_of
from impatient.engine.local import Engine
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap

log = logging.getLogger(__name__)


class EngineChoice:
    """Engine settings: name (auto, loop, vmap) and chunk, the number of clients at hand at once.

    auto takes vmap, except where it loses or changes the draws: convolutions on a CPU (the grouped kernel is slower
    than one client after the other), recurrent layers (no batching rule), dropout (masks would depend on the chunk).
    """

    def __init__(self, name: str = "auto", chunk: int = 16) -> None:
        check(one_of("name", name, ("auto", "loop", "vmap")), integer("chunk", chunk, 1))
        self.name, self.chunk = name, chunk

    def pick(self, model: nn.Module, device: torch.device) -> Engine:
        """The engine for this model on this device; says in the log which and why."""
        name, why = self.name, "as asked"
        if name == "auto":
            name, why = _auto(model, device)
        log.info("engine: %s (%s), %d clients at a time", name, why, self.chunk)
        return Loop() if name == "loop" else Vmap()


def _auto(model: nn.Module, device: torch.device) -> tuple[str, str]:
    modules = list(model.modules())
    if any(isinstance(m, nn.modules.dropout._DropoutNd) for m in modules):
        return "loop", "the model has dropout"
    if any(isinstance(m, nn.RNNBase) for m in modules):
        return "loop", "the model is recurrent"
    if device.type == "cpu" and any(isinstance(m, nn.modules.conv._ConvNd) for m in modules):
        return "loop", "convolutions on a CPU"
    return "vmap", "clients batched together"


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
