"""FedAvg that samples S devices and waits for all of them."""

import torch

from impatient.aggregators.base import Aggregator, ids_of, weighted_sum
from impatient.checks import check, integer
from impatient.messages import ClientReport, ClientSettings, Flat, Ids, RoundInfo, Rows, State, Sums
from impatient.rng import stream


class FedAvgSampling(Aggregator):
    """Draw S of N devices without replacement, wait until every one has answered, average, draw again.

        w ← w - Σ_{i∈S} a_i·(w_t - w_i^K) / Σ_{i∈S} a_i

    A device of the cohort trains once, when it is there, on the model that is frozen meanwhile, and its answer is kept.
    The cohort of update k is a pure function of (seed, k).

    Empty round: the model holds. Source: the rival "FedAvg with device sampling" of Gu et al., NeurIPS 2021.
    """

    def __init__(self, cohort_size: int = 50, seed: int = 0) -> None:
        check(integer("cohort_size", cohort_size, 1), integer("seed", seed, 0))
        self.cohort_size, self.seed = cohort_size, seed

    def check(self, num_clients: int, client: ClientSettings) -> list[str]:
        """No more in the cohort than there are."""
        if self.cohort_size <= num_clients:
            return []
        return [f"algo.cohort_size={self.cohort_size}: more than there are, num_clients={num_clients}; sample fewer"]

    @property
    def waits(self) -> bool:
        """Always: one absent device of a cohort stops it."""
        return True

    def init(self, params: Flat, num_clients: int) -> State:
        """sum [P] float64: Σ a_i·U_i over those that answered, bool [N], of the cohort at hand."""
        return {
            "sum": torch.zeros_like(params, dtype=torch.float64),
            "answered": torch.zeros(num_clients, dtype=torch.bool),
        }

    def cohort(self, info: RoundInfo) -> torch.Tensor:
        """Bool [N]: the devices drawn for this update."""
        drawn = stream(self.seed, "cohort", info.update).choice(info.num_clients, self.cohort_size, replace=False)
        mask = torch.zeros(info.num_clients, dtype=torch.bool)
        mask[torch.from_numpy(drawn)] = True
        return mask

    def select(self, state: State, info: RoundInfo) -> Ids:
        """The available of the cohort that have not answered yet."""
        return ids_of(self.cohort(info) & info.available & ~state["answered"])

    def collect(
        self, state: State, rows: Rows, params: Flat, report: ClientReport, info: RoundInfo
    ) -> tuple[Sums, Rows]:
        """sum = Σ_A a_i·U_i."""
        return {"sum": weighted_sum(info.weight[report.ids], report.update)}, {}

    def step(self, state: State, sums: Sums, params: Flat, reported: Ids, info: RoundInfo) -> tuple[Flat | None, State]:
        """The cohort's mean once it is complete; None before."""
        total, answered = state["sum"] + sums["sum"], state["answered"].clone()
        answered[reported] = True
        if int(answered.sum()) < self.cohort_size:
            return None, {"sum": total, "answered": answered}
        weight = info.weight[answered].sum()
        return total / weight, {"sum": torch.zeros_like(total), "answered": torch.zeros_like(answered)}

    def awaited(self, state: State, info: RoundInfo) -> Ids:
        """The cohort's devices that have not answered."""
        return ids_of(self.cohort(info) & ~state["answered"])
