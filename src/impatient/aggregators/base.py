"""The plug-in API of a server rule, and its laws."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from impatient.messages import (
    ClientPlan,
    ClientReport,
    ClientSettings,
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
            handed over in the dtype in which it is stored. What a rule gives, in any float dtype, is cast where it is
            used: plans to the model's dtype, rows to the memory's.
    Sums    dict of tensors of any of these shapes, additive over disjoint sets of clients; in float64: `weighted_sum`.
    device  params, rows, plans, reports and all else that is [P], [A] or [A, P] lie with the model; ids and all that is
            [N] (available, weight, knows, scalars of State) lie on the CPU, where info.weight[ids] is [A].

    Laws, in impatient.contract.laws, run over every configs/algo/*.yaml by the tests, over any rule by src/check.py:

    api      every method takes what is said here and gives it in these types, dtypes and shapes, for any P
    sum      collect(A ∪ B) = collect(A) + collect(B); with A = 0 it gives zeros of the same keys, shapes and dtypes
    local    a round touches the rows of the clients at hand only: O(A·P), never O(N·P); State holds no [N, P]
    stored   differences are formed from the value as the memory will store it, and summed in float64 (`recomputed`)
    resume   saving and loading between any two rounds changes nothing; no global generator, no clock
    world    whole, in chunks or over several ranks: equal up to the order of summation
    honest   select ⊆ available; what a client answered is booked in step, never in select (it may fail to return)
    empty    a round with nobody has the outcome that `empty` states, finite and documented
    self     what a method gives depends on its arguments alone, and leaves them as they are
    traffic  whole bytes; down to who is selected, up from who reported
    says     `knowledge`, `check`, `waits` and `awaited` say what is so
    """

    @property
    def slots(self) -> Mapping[str, Slot]:
        """The rule's tables of per-client memory; none by default."""
        return {}

    @property
    def knowledge(self) -> frozenset[str]:
        """What the rule must be told in info.knows, e.g. "prob". Checked at set-up and logged with the run."""
        return frozenset()

    @property
    def needs(self) -> frozenset[str]:
        """What it needs in the report that is not always there: of "grad", "grad_last"."""
        return frozenset()

    @property
    def empty(self) -> Literal["holds", "steps"]:
        """Whether the model always holds in a round in which nobody reported, or may move."""
        return "holds"

    @property
    def waits(self) -> bool:
        """Whether a device that never comes stops this rule for good."""
        return False

    def check(self, num_clients: int, client: ClientSettings) -> list[str]:
        """Faults that show only beside the number of clients and their optimizer; none by default."""
        return []

    def init(self, params: Flat, num_clients: int) -> State:
        """The state before round 0; nothing by default."""
        return {}

    def select(self, state: State, info: RoundInfo) -> Ids:
        """The clients that train this round: all that are available, by default."""
        return ids_of(info.available)

    def plan(self, state: State, ids: Ids, rows: Rows, params: Flat, info: RoundInfo) -> ClientPlan:
        """What these clients are told: plain SGD from the global model, by default. Called once a chunk."""
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

    def after(
        self, state: State, before: Flat, params: Flat, reported: Ids, info: RoundInfo
    ) -> tuple[Ids, Rows] | None:
        """Memory rows that need the model after the step, params, beside the one before: their ids and values; rare."""
        return None

    def model(self, state: State, params: Flat) -> Flat:
        """The model [P] that is evaluated: the one that trains, by default."""
        return params

    def recomputed(self, state: State, rows: Rows, weight: Tensor) -> State:
        """The part of State that sums up all rows, from the rows; for the law `stored` only.

        Memory rows [N, P] in the dtype in which they are stored, a_i [N] → what State must equal at any time; nothing
        by default, and then the law is not tried.
        """
        return {}

    def awaited(self, state: State, info: RoundInfo) -> Ids:
        """The clients that hold the rule up; nobody by default."""
        return torch.empty(0, dtype=torch.int64)

    def traffic(self, selected: int, reported: int, num_params: int, num_clients: int) -> Protocols:
        """Bytes of one round, a name for each published protocol of the rule; the first one is logged every round.

        By default each selected client receives one model, each that reports returns one update, and the server keeps
        the model, N rows of each slot and what is [·, P] in State.
        """
        state = self.init(torch.zeros(num_params), num_clients).values()
        kept = sum(one.numel() for one in state if one.is_floating_point() and one.shape[-1:] == (num_params,))
        model, rows = FLOAT_BYTES * num_params, num_clients * len(self.slots)
        server = (1 + rows) * model + FLOAT_BYTES * kept
        return {"plain": Traffic(up=reported * model, down=selected * model, server=server, client=0)}


def ids_of(mask: Tensor) -> Ids:
    """The indices at which a bool [N] is true, int64 [A]."""
    return mask.nonzero().flatten()


def weighted_sum(weight: Tensor, rows: Tensor) -> Tensor:
    """Σ_i weight_i·rows_i in float64: [A], [A, P] → [P]; zeros for A = 0."""
    weight = weight.to(rows.device, torch.float64)
    # Piece by piece: a float64 copy of all rows would not fit the cache.
    return torch.cat([weight @ piece.to(torch.float64) for piece in rows.split(65536, 1)])


def swap(weight: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in place of others: Σ_i weight_i·(new_i - old_i) in float64 of what is stored, and `new` as it is stored.

    [A], [A, P] as read from the memory, [A, P] → [P], [A, P]. The difference of unrounded rows would drift away from
    what the memory holds.
    """
    stored = new.to(old.dtype)
    return weighted_sum(weight, stored) - weighted_sum(weight, old), stored
