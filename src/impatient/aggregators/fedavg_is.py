"""FedAvg with importance sampling, for a server that knows every device's availability."""

from impatient.aggregators.base import weighted_sum
from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.messages import ClientReport, Flat, RoundInfo, Rows, State, Sums


class FedAvgIS(FedAvgAll):
    """Unbiased by knowing p_i(t), at the price of a variance of order 1/p_i.

        w ← w - Σ_{i∈A} (a_i/p_i)·(w_t - w_i^K)

    Empty round: the model holds. Source: the rival "FedAvg with importance sampling" of Gu et al., NeurIPS 2021.
    """

    knowledge = frozenset({"prob"})

    def collect(
        self, state: State, rows: Rows, params: Flat, report: ClientReport, info: RoundInfo
    ) -> tuple[Sums, Rows]:
        """update = Σ_A (a_i/p_i)·U_i."""
        weight = info.weight[report.ids] / info.knows["prob"][report.ids]
        return {"update": weighted_sum(weight, report.update)}, {}
