"""MIFA: Memory-augmented Impatient Federated Averaging."""

import torch
from torch import Tensor

from impatient.aggregators.base import FLOAT_BYTES, Aggregator, ids_of, swap, weighted_sum
from impatient.checks import check, flag, one_of
from impatient.messages import ClientReport, Flat, Ids, Protocols, RoundInfo, Rows, Slot, State, Sums, Traffic


class MIFA(Aggregator):
    """Average everybody's latest update, fresh or stale; never wait for a device again once it was heard.

        G_i ← (w_t - w_i^K)/η_t                  for active i; the others keep theirs
        w   ← w - η_t·Σ_i a_i·G_i                a_i = 1/N

    The server keeps the mean Ḡ = Σ a_i·G_i in float64 and corrects it by a_i·(G_i^new - G_i^old), in O(A·P).

    init
        wait_all      (the paper) the model holds until every device has answered once, and devices that have answered
                      are left alone meanwhile; the step is taken in the round that completes the set, as update 0.
        zero          G_i = 0 before device i's first answer; the divisor is N from the start.
        average_seen  steps from the first answer on; divides by the weight of the devices heard so far.
    normalise_by_lr
        true (the paper) stores updates divided by the learning rate of their round and multiplies by the current one;
        false stores and averages w_t - w_i^K as it is, the variant most rivals ran. Equal for a constant rate.

    Empty round: steps with its memory; holds before the first answer (average_seen) and while it waits (wait_all).
    Source: Gu, Huang, Zhang, Huang, "Fast Federated Learning in the Presence of Arbitrary Device Unavailability",
    NeurIPS 2021, Algorithm 1; `traffic` also states its memory-light form.
    """

    slots = {"G": Slot()}
    empty = "steps"

    def __init__(self, init: str = "wait_all", normalise_by_lr: bool = True) -> None:
        check(
            one_of("init", init, ("wait_all", "zero", "average_seen")),
            flag("normalise_by_lr", normalise_by_lr),
        )
        self.first, self.normalise_by_lr = init, normalise_by_lr

    @property
    def waits(self) -> bool:
        """With wait_all."""
        return self.first == "wait_all"

    def init(self, params: Flat, num_clients: int) -> State:
        """mean [P] float64: Σ a_i·G_i; answered bool [N]: who was heard."""
        return {
            "mean": torch.zeros_like(params, dtype=torch.float64),
            "answered": torch.zeros(num_clients, dtype=torch.bool),
        }

    def select(self, state: State, info: RoundInfo) -> Ids:
        """All available; while the first answers are awaited, those of them that have not answered."""
        if self.waits and not state["answered"].all():
            return ids_of(info.available & ~state["answered"])
        return ids_of(info.available)

    def collect(
        self, state: State, rows: Rows, params: Flat, report: ClientReport, info: RoundInfo
    ) -> tuple[Sums, Rows]:
        """change = Σ_A a_i·(G_i^new - G_i^old), both as stored."""
        new = report.update / info.lr if self.normalise_by_lr else report.update
        change, stored = swap(info.weight[report.ids], rows["G"], new)
        return {"change": change}, {"G": stored}

    def step(self, state: State, sums: Sums, params: Flat, reported: Ids, info: RoundInfo) -> tuple[Flat | None, State]:
        """η_t·Ḡ, or None while awaiting first answers."""
        mean = state["mean"] + sums["change"]
        answered = state["answered"].clone()
        answered[reported] = True
        state = {"mean": mean, "answered": answered}
        heard = float(info.weight[answered].sum())
        if (self.waits and not answered.all()) or (self.first == "average_seen" and heard == 0):
            return None, state
        scale = info.lr if self.normalise_by_lr else 1.0
        return mean * (scale / heard if self.first == "average_seen" else scale), state

    def recomputed(self, state: State, rows: Rows, weight: Tensor) -> State:
        """mean = Σ a_i·G_i over all N, whatever the start: those not heard yet have G_i = 0."""
        return {"mean": weighted_sum(weight, rows["G"])}

    def awaited(self, state: State, info: RoundInfo) -> Ids:
        """With wait_all, those not heard yet."""
        return ids_of(~state["answered"]) if self.waits else super().awaited(state, info)

    def traffic(self, selected: int, reported: int, num_params: int, num_clients: int) -> Protocols:
        """array: the server keeps all G_i; delta: only Ḡ, and devices keep their last G_i and send G_new - G_old."""
        model = FLOAT_BYTES * num_params
        up, down = reported * model, selected * model
        return {
            "array": Traffic(up=up, down=down, server=(num_clients + 1) * model, client=0),
            "delta": Traffic(up=up, down=down, server=2 * model, client=model),
        }
