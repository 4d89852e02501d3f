"""What is said of a plug-in that fails: by breaking a law, by an answer no round can go on with, or by raising."""

import sys
import traceback
from dataclasses import dataclass

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.availability.base import Availability


class BrokenError(AssertionError):
    """A law is broken; the message says how."""


class UnplayableError(RuntimeError):
    """A round cannot go on with what the rule answered; the message says why. A run would stop here, too."""


class NotFiniteError(UnplayableError):
    """The direction is not finite."""


def require(holds: object, why: str) -> None:
    """Raise BrokenError(why) unless it holds."""
    if not holds:
        raise BrokenError(why)


def close(ours: Tensor, theirs: Tensor, why: str, rtol: float = 1e-12, atol: float = 1e-12) -> None:
    """Raise BrokenError(why) where the two differ in shape, or by more than rounding."""
    require(ours.shape == theirs.shape, f"{why}: shapes {list(ours.shape)} and {list(theirs.shape)}")
    ours, theirs = ours.double(), theirs.double()
    if not torch.allclose(ours, theirs, rtol, atol):
        raise BrokenError(f"{why}: off by {float((ours - theirs).abs().max()):.2g}")


@dataclass(frozen=True)
class Raised:
    """An error that came out of a plug-in: of which method of the API, at which line of the plug-in's file."""

    method: str
    error: str
    where: str

    def __str__(self) -> str:
        """In one line, however many the error's own message has."""
        return f"{self.method} raises {self.error}, at {self.where}"

    @staticmethod
    def of(error: Exception) -> "Raised | None":
        """None where no method of a plug-in was being called."""
        frames = list(traceback.walk_tb(error.__traceback__))
        codes = [frame.f_code for frame, _ in frames]
        firsts = [frame.f_locals.get((*frame.f_code.co_varnames, "")[0]) for frame, _ in frames]
        plugs = [isinstance(first, Aggregator | Availability) for first in firsts]
        methods = [
            plug and hasattr(type(self), code.co_name) for plug, self, code in zip(plugs, firsts, codes, strict=True)
        ]
        if not any(methods):
            return None
        called = methods.index(True)
        # The last line of the plug-in's own file: what lies deeper is torch, which its writer does not know.
        own = getattr(sys.modules.get(type(firsts[called]).__module__), "__file__", None)
        lines = {code.co_filename: line for (_, line), code in zip(frames, codes, strict=True)}
        file = own if own in lines else codes[called].co_filename
        return Raised(codes[called].co_name, one_line(error), f"{file}:{lines[file]}")


def one_line(error: Exception) -> str:
    """The type, and the first line of the message where there is one: a bare assert has none."""
    message = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
