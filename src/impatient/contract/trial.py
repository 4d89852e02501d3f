"""A rule on trial: the federation it meets, and what is said when it fails."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.contract.federation import Server, bowls, coins, shares
from impatient.memory import ClientMemory
from impatient.messages import Ids, Rows, State

P = 4
Recompute = Callable[[Rows, Tensor], State]


@dataclass(frozen=True)
class Trial:
    """A rule and how many clients it is tried on: unequal weights and chances, so that nothing cancels by accident.

    make: a fresh rule at each call; recompute: memory rows [N, P], weight [N] → the part of State that sums them up.
    """

    make: Callable[[], Aggregator]
    n: int = 6
    recompute: Recompute | None = None

    @property
    def weight(self) -> Tensor:
        """a_i ∝ 1, …, 6, 1, …: float64 [N]."""
        return shares(*(1 + i % 6 for i in range(self.n)))

    @property
    def prob(self) -> Tensor:
        """p_i: float64 [N]."""
        return torch.tensor([(0.9, 0.3, 0.6, 0.5, 0.8, 0.4)[i % 6] for i in range(self.n)], dtype=torch.float64)

    def server(
        self, dtype: torch.dtype = torch.float64, rows: torch.dtype = torch.float64, **options: bool | int
    ) -> Server:
        """Decaying rate, three local steps, noise."""
        settings = {"lr": 0.1, "decay": "inverse_sqrt", "steps": 3, "dtype": dtype, "rows": rows, **options}
        return Server(self.make(), bowls(self.n, P, noise=0.3), self.weight, self.prob, **settings)  # type: ignore[arg-type]

    def masks(self, rounds: int, seed: int = 0) -> Tensor:
        """Coins, bool [rounds, N]."""
        return coins(self.prob, rounds, self.n, seed)

    def mask(self, there: bool) -> Tensor:
        """Everybody or nobody."""
        return torch.full((self.n,), there)


def require(holds: object, why: str) -> None:
    """Raise AssertionError(why) unless it holds."""
    if not holds:
        raise AssertionError(why)


def close(ours: Tensor, theirs: Tensor, why: str, rtol: float = 1e-12, atol: float = 1e-12) -> None:
    """Raise AssertionError(why) where the two differ by more than rounding."""
    if not torch.allclose(ours, theirs, rtol, atol):
        off = float((ours.double() - theirs.double()).abs().max())
        raise AssertionError(f"{why}: off by {off:.2g}")


class Watched(ClientMemory):
    """Remembers whose rows were touched."""

    was_read: list[int]
    was_written: list[int]

    def read(self, ids: Ids, device: torch.device | str) -> Rows:
        """And who."""
        self.was_read += ids.tolist()
        return super().read(ids, device)

    def write(self, ids: Ids, rows: Rows) -> None:
        """And whose."""
        self.was_written += ids.tolist()
        super().write(ids, rows)
