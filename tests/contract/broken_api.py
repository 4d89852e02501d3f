"""Rules that take or give something else than the API says, that raise, or on which little can be tried."""

import torch

from impatient.aggregators.base import Aggregator, weighted_sum
from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.mifa import MIFA
from impatient.messages import ClientPlan, Slot


class NoRoundInfo(FedAvgAll):
    def collect(self, state, rows, params, report):
        return {"update": weighted_sum(torch.ones(len(report.ids)), report.update)}, {}


class Shadowed(FedAvgAll):
    def __init__(self):
        self.init = "zero"


class NumpySums(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": report.update.double().numpy().sum(0)}, {}


class FloatSums(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": float(report.update.sum())}, {}


class BoolSums(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        sums, rows = super().collect(state, rows, params, report, info)
        return sums | {"some": torch.tensor(len(report.ids) > 0)}, rows


class ListForPair(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return [sums["update"], state]


class OnlyDirection(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"]


class ForgetsToReturn(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        sums["update"].neg()


class ForgetsState(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"], None


class MaskForIds(FedAvgAll):
    def select(self, state, info):
        return info.available


class ListOfIds(FedAvgAll):
    def select(self, state, info):
        return info.available.nonzero().flatten().tolist()


class FourParameters(FedAvgAll):
    def init(self, params, num_clients):
        return {"velocity": torch.zeros(4, dtype=torch.float64)}

    def step(self, state, sums, params, reported, info):
        return super().step(state, {"update": state["velocity"] + sums["update"]}, params, reported, info)


class OneNumber(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"].mean(), state


class RowOfEverybody(MIFA):
    def collect(self, state, rows, params, report, info):
        sums, new = super().collect(state, rows, params, report, info)
        return sums, {"G": new["G"].new_zeros(info.num_clients, len(params))}


class UndeclaredRows(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return super().collect(state, rows, params, report, info)[0], {"last": report.update}


class WaitsIsAMethod(FedAvgAll):
    def waits(self):
        return False


class SendsNaN(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"] * float("nan"), state


class TellsNaN(FedAvgAll):
    slots = {"shift": Slot()}

    def plan(self, state, ids, rows, params, info):
        return ClientPlan(shift=rows["shift"] / rows["shift"].norm())


BREAK_THE_API = [
    ("api", NoRoundInfo, r"collect must take \(state, rows, params, report, info\): too many positional"),
    ("api", Shadowed, r"init must take \(params, num_clients\): 'zero' is not a callable"),
    ("api", NumpySums, "collect's sums: update is a ndarray, not a tensor"),
    ("api", FloatSums, "collect's sums: update is a float, not a tensor"),
    ("api", BoolSums, "collect's sums are bool"),
    ("api", ListForPair, "step gives a list, not the pair"),
    ("api", OnlyDirection, r"step gives a float64 tensor \[1\], not the pair"),
    ("api", ForgetsToReturn, "step gives None, not the pair"),
    ("api", ForgetsState, "step's state gives None, not a dict"),
    ("api", MaskForIds, r"select gives a bool tensor \[6\], not ids"),
    ("api", ListOfIds, "select gives a list, not ids"),
    ("api", FourParameters, r"step's direction is a float64 tensor \[4\], not a float tensor \[1\]"),
    ("api", OneNumber, r"step's direction is a float64 tensor \[\], not a float tensor \[1\]"),
    ("api", RowOfEverybody, r"rows: G is a float64 tensor \[6, 1\], not a float tensor"),
    ("api", UndeclaredRows, r"\['last'\], and `slots` declares \[\]"),
    ("api", WaitsIsAMethod, "is it a @property"),
    ("api", SendsNaN, "step's direction is not finite"),
    ("api", TellsNaN, "plan's shift is not finite"),
]


# Rules that raise ----------------------------------------------------------------------------------------------------


class CollectRaises(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": weighted_sum(torch.ones(1000), report.update)}, {}


class BareAssert(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        assert len(reported) > 1000
        return sums["update"], state


class TiresLate(FedAvgAll):
    """Only in the twelfth round: some laws are tried to their end before."""

    def step(self, state, sums, params, reported, info):
        if info.round == 12:
            raise KeyError("tired")
        return super().step(state, sums, params, reported, info)


# Rules on which little can be tried ----------------------------------------------------------------------------------


class AsksNobody(FedAvgAll):
    def select(self, state, info):
        return torch.empty(0, dtype=torch.int64)


class NeverMoves(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return None, state


class NoSums(Aggregator):
    def collect(self, state, rows, params, report, info):
        return {}, {}

    def step(self, state, sums, params, reported, info):
        return None, state


class DoesNotSay(MIFA):
    def recomputed(self, state, rows, weight):
        return {}
