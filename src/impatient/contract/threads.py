"""Ranks that are threads of one process: clients shared and sums taken by the code of `Ranks`, without processes."""

import operator
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from threading import Barrier, BrokenBarrierError
from typing import TypeVar

from torch import Tensor

from impatient.ranks import Ranks

T = TypeVar("T")


class OutOfStepError(RuntimeError):
    """The ranks do not bring the same sums; processes would hang, or add what does not belong together."""


class Meeting:
    """Where every rank brings something and all leave with everything."""

    def __init__(self, world: int) -> None:
        self.barrier = Barrier(world)
        self.brought: list[Tensor | None] = [None] * world

    def exchange(self, rank: int, mine: Tensor | None) -> list[Tensor | None]:
        """What all brought, in the order of ranks."""
        self.brought[rank] = mine
        self.barrier.wait()
        everything = list(self.brought)
        self.barrier.wait()  # nobody brings the next before all have taken this
        return everything


@dataclass(frozen=True)
class ThreadRanks(Ranks):
    """A rank whose collectives are meetings of threads."""

    meeting: Meeting = field(default_factory=lambda: Meeting(1))

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, added in their order. Raises OutOfStepError where what they bring is not alike."""
        brought = self.meeting.exchange(self.rank, tensor)
        kinds = {None if one is None else (one.dtype, tuple(one.shape)) for one in brought}
        if len(kinds) > 1:
            raise OutOfStepError(f"the ranks bring different sums: {' and '.join(sorted(map(str, kinds)))}")
        return reduce(operator.add, [one for one in brought if one is not None])


def together(world: int, work: Callable[[Ranks], T]) -> list[T]:
    """work(ranks) of every rank, each on a thread of its own. Raises what one of them raises, once all have ended."""
    meeting = Meeting(world)

    def run(rank: int) -> T:
        try:
            result = work(ThreadRanks(rank, world, meeting=meeting))
            if any(one is not None for one in meeting.exchange(rank, None)):
                raise OutOfStepError("one rank has ended while another waits for its sums")
            return result
        except Exception:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(world) as pool:
        done = [pool.submit(run, rank) for rank in range(world)]
    errors = [error for one in done if (error := one.exception()) is not None]
    # A rank that fails leaves the others waiting; what they say is no news.
    for error in sorted(errors, key=lambda error: isinstance(error, BrokenBarrierError)):
        raise error
    return [one.result() for one in done]
