"""FedAvg that divides by all devices."""

from impatient.aggregators.base import Aggregator, weighted_sum
from impatient.messages import ClientReport, Flat, Ids, RoundInfo, Rows, State, Sums


class FedAvgAll(Aggregator):
    """Absent devices count as zero updates: biased towards weights a_i·p_i, and slowed by the mean availability.

        w ← w - Σ_{i∈A} a_i·(w_t - w_i^K)

    Empty round: the model holds. Source: the baseline "average all" of Wang and Ji, ICLR 2024.
    """

    def collect(
        self, state: State, rows: Rows, params: Flat, report: ClientReport, info: RoundInfo
    ) -> tuple[Sums, Rows]:
        """update = Σ_A a_i·U_i."""
        return {"update": weighted_sum(info.weight[report.ids], report.update)}, {}

    def step(self, state: State, sums: Sums, params: Flat, reported: Ids, info: RoundInfo) -> tuple[Flat | None, State]:
        """The sum of what came."""
        return (sums["update"] if len(reported) else None), state
