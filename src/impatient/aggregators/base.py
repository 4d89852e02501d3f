"""The plug-in API of a server rule, and its laws."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from impatient.messages import (
    ClientPlan,
    ClientReport,
    Flat,
    Ids,
    Protocols,
    RoundInfo,
    Rows,
    Slot,
    State,
    Sums,
    Traffic,
)

FLOAT_BYTES = 4  # models travel as float32, whatever the simulation computes in


class Aggregator(ABC):
    """A server rule: frozen config. All that lasts is in State and in memory rows; nothing changes on self.

    Shapes: N clients in all, A at hand, P model parameters. Flat is [P]; Ids is int64 [A].

    State   dict of tensors: [P], [C, P], and every per-client scalar as [N] (answered, last seen, counts, …).
    rows    what is [·, P] per client lives in ClientMemory under the names in `slots`, reached by id only, and is
            handed over in the dtype in which it is stored.
    Sums    dict of tensors of any of these shapes, additive over disjoint sets of clients.

    Laws, in impatient.contract.laws, run over every configs/algo/*.yaml by the tests, over any rule by src/check.py:

    api      every method takes what is said here and gives it in these types, dtypes and shapes, for any P
    sum      collect(A ∪ B) = collect(A) + collect(B); with A = 0 it gives zeros of the same keys, shapes and dtypes
    local    a round touches the rows of the clients at hand only: O(A·P), never O(N·P); State holds no [N, P]
    stored   differences are formed from the value as the memory will store it, and summed in float64 (`recomputed`)
    resume   saving and loading between any two rounds changes nothing; no global generator, no clock
    world    whole, in chunks or over several ranks: equal up to the order of summation
    honest   select ⊆ available; what a client answered is booked in step, never in select (it may fail to return)
    empty    a round with nobody has a stated outcome, finite and documented
    self     what a method gives depends on its arguments alone, and leaves them as they are
    traffic  whole bytes; what is selected is what is sent
    says     `knowledge`, `check`, `waits` and `awaited` say what is so
    """

    slots: ClassVar[Mapping[str, Slot]] = {}
    knowledge: ClassVar[frozenset[str]] = frozenset()
    """What the rule must be told: "prob". Checked at set-up and logged with the run."""

    def check(self, num_clients: int) -> list[str]:
        """Faults that show only beside the number of clients; none by default."""
        return []

    @property
    def waits(self) -> bool:
        """Whether a device that never comes stops this rule for good."""
        return False

    def init(self, params: Flat, num_clients: int) -> State:
        """The state before round 0; nothing by default."""
        return {}

    def select(self, state: State, info: RoundInfo) -> Ids:
        """The clients that train this round: all that are available, by default."""
        return ids_of(info.available)

    def plan(self, state: State, rows: Rows, params: Flat, info: RoundInfo) -> ClientPlan:
        """What these clients are told: plain SGD from the global model, by default."""
        return ClientPlan()

    @abstractmethod
    def collect(
        self, state: State, rows: Rows, params: Flat, report: ClientReport, info: RoundInfo
    ) -> tuple[Sums, Rows]:
        """Fold some clients' answers into sums; give back their new memory rows [A, P]. Called once a chunk."""

    @abstractmethod
    def step(self, state: State, sums: Sums, params: Flat, reported: Ids, info: RoundInfo) -> tuple[Flat | None, State]:
        """Once a round, with the sums over all that reported: a descent direction [P], and the next state.

        The server optimizer then steps against the direction; None holds the model still, momentum included.
        """

    def after(self, state: State, params: Flat, info: RoundInfo) -> tuple[Ids, Rows] | None:
        """Memory rows that need the model after the step: their ids and values; rare."""
        return None

    def recomputed(self, rows: Rows, weight: Tensor) -> State:
        """The part of State that sums up all rows, from the rows; for the law `stored` only.

        Memory rows [N, P] in the dtype in which they are stored, a_i [N] → what State must equal at any time; nothing
        by default, and then the law is not tried.
        """
        return {}

    def awaited(self, state: State, info: RoundInfo) -> Ids:
        """The clients that hold the rule up; nobody by default."""
        return torch.empty(0, dtype=torch.int64)

    def traffic(self, num_selected: int, num_params: int, num_clients: int) -> Protocols:
        """Bytes of one round, a name for each published protocol of the rule; the first one is logged every round.

        By default each selected client receives one model and returns one update, and nobody keeps anything.
        """
        model = FLOAT_BYTES * num_params
        return {"plain": Traffic(up=num_selected * model, down=num_selected * model, server=model, client=0)}


def ids_of(mask: Tensor) -> Ids:
    """The indices at which a bool [N] is true, int64 [A]."""
    return mask.nonzero().flatten()


def weighted_sum(weight: Tensor, rows: Tensor) -> Tensor:
    """Σ_i weight_i·rows_i in float64: [A], [A, P] → [P]; zeros for A = 0."""
    weight = weight.to(rows.device, torch.float64)
    # Piece by piece: a float64 copy of all rows would not fit the cache.
    return torch.cat([weight @ piece.to(torch.float64) for piece in rows.split(65536, 1)])
