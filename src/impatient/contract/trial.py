"""A rule on trial, and the federation it meets."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.contract.federation import Server, bowls, coins, shares
from impatient.engine.local import LocalSGD
from impatient.memory import ClientMemory
from impatient.messages import Ids, Rows
from impatient.ranks import Ranks

P = 4


@dataclass(frozen=True)
class Trial:
    """A rule and how many clients it is tried on: unequal weights and chances, so that nothing cancels by accident.

    make: a fresh rule at each call.
    """

    make: Callable[[], Aggregator]
    n: int = 6

    @property
    def weight(self) -> Tensor:
        """a_i ∝ 1, …, 6, 1, …: float64 [N]."""
        return shares(*(1 + i % 6 for i in range(self.n)))

    @property
    def prob(self) -> Tensor:
        """p_i: float64 [N]."""
        return torch.tensor([(0.9, 0.3, 0.6, 0.5, 0.8, 0.4)[i % 6] for i in range(self.n)], dtype=torch.float64)

    @property
    def client(self) -> LocalSGD:
        """How they train: decaying rate, three local steps."""
        return LocalSGD(0.1, "inverse_sqrt", epochs=None, steps=3)

    def server(
        self,
        dtype: torch.dtype = torch.float64,
        rows: torch.dtype = torch.float64,
        p: int = P,
        **options: bool | int | Ranks,
    ) -> Server:
        """These clients, with noise; p parameters."""
        sgd = self.client
        settings = {"lr": sgd.lr, "decay": sgd.lr_decay, "steps": sgd.steps, "dtype": dtype, "rows": rows, **options}
        return Server(self.make(), bowls(self.n, p, noise=0.3), self.weight, self.prob, **settings)  # type: ignore[arg-type]

    def masks(self, rounds: int, seed: int = 0) -> Tensor:
        """Coins, bool [rounds, N]; in every seventh round everybody is there, so that a rule that waits goes on."""
        table = coins(self.prob, rounds, self.n, seed)
        table[6::7] = True
        return table

    def mask(self, there: bool) -> Tensor:
        """Everybody or nobody."""
        return torch.full((self.n,), there)


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
