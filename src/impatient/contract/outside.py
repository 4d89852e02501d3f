"""What a plug-in must not look at: generators that all share, and the clock. A resumed run would meet others."""

import contextlib
import datetime
import gc
import random
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import torch

from impatient.contract.failing import BrokenError

CLOCKS = {
    id(getattr(time, name))
    for name in (
        *("time", "monotonic", "perf_counter", "process_time", "thread_time"),
        *("time_ns", "monotonic_ns", "perf_counter_ns", "process_time_ns", "thread_time_ns"),
        *("localtime", "gmtime", "ctime", "asctime", "strftime"),
    )
}


@contextlib.contextmanager
def nothing_from_outside() -> Iterator[None]:
    """Raise BrokenError where a global generator moves inside the block or the clock is read; leave both as they were.

    The generators start from a seed of their own, so that seeding one with a constant shows, too.
    """
    read: list[str] = []
    before, profiler = _generators(), sys.getprofile()
    torch.default_generator.manual_seed(271828)
    np.random.seed(271828)
    random.seed(271828)
    fresh = _generators()
    collects = gc.isenabled()
    gc.disable()  # what others hooked to it may time it
    sys.setprofile(lambda frame, event, called: _watch(frame, event, called, read))
    try:
        yield
    finally:
        sys.setprofile(profiler)
        if collects:
            gc.enable()
        after = _generators()
        torch.default_generator.set_state(before["torch"])
        np.random.set_state(before["numpy"])
        random.setstate(before["random"])
    for name in fresh:
        if repr(_plain(fresh[name])) != repr(_plain(after[name])):
            raise BrokenError(f"draws from the global generator of {name}; use impatient.rng.stream(seed, …, round)")
    if read:
        raise BrokenError(f"reads the clock: {read[0]}; a resumed run reads another time")


def _generators() -> dict[str, Any]:
    return {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "random": random.getstate()}


def _plain(state: Any) -> Any:
    """A state that `repr` shows in full."""
    if isinstance(state, torch.Tensor):
        return state.tolist()
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in state]


def _watch(frame: FrameType, event: str, called: Any, read: list[str]) -> None:
    if event != "c_call" or frame.f_globals.get("__name__") == "logging":  # a line of a log bears its time
        return
    owner = getattr(called, "__self__", None)
    is_date = isinstance(owner, type) and issubclass(owner, datetime.date)
    if id(called) in CLOCKS or (is_date and called.__name__ in ("now", "utcnow", "today")):
        read.append(f"{called.__name__}, at {frame.f_code.co_filename}:{frame.f_lineno}")
