"""FedAvg over whoever is there."""

from impatient.aggregators.base import Aggregator, weighted_sum
from impatient.messages import ClientReport, Flat, Ids, RoundInfo, Rows, State, Sums


class FedAvgBiased(Aggregator):
    """Average over the active devices: drifts towards those that are often there.

        w ← w - Σ_{i∈A} a_i·(w_t - w_i^K) / Σ_{i∈A} a_i

    Empty round: the model holds. Source: McMahan et al., AISTATS 2017, with A the available devices; the rival
    "biased FedAvg" of Gu et al., NeurIPS 2021.
    """

    def collect(
        self, state: State, rows: Rows, params: Flat, report: ClientReport, info: RoundInfo
    ) -> tuple[Sums, Rows]:
        """update = Σ_A a_i·U_i; weight = Σ_A a_i."""
        weight = info.weight[report.ids]
        return {"update": weighted_sum(weight, report.update), "weight": weight.sum()}, {}

    def step(self, state: State, sums: Sums, params: Flat, reported: Ids, info: RoundInfo) -> tuple[Flat | None, State]:
        """The weighted mean of the updates that came."""
        return (sums["update"] / sums["weight"] if len(reported) else None), state
