"""Rules as a stranger might write them, each of which breaks a law: the law, the rule, a pattern of the reason."""

import torch
from broken_api import BREAK_THE_API
from broken_time import BREAK_IN_TIME

from impatient.aggregators.base import weighted_sum
from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.mifa import MIFA
from impatient.messages import ClientPlan, Traffic

# Sums ----------------------------------------------------------------------------------------------------------------


class MeanOfAChunk(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": report.update.sum(0).double() / max(1, len(report.ids))}, {}


class NoKeysForNobody(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return super().collect(state, rows, params, report, info) if len(report.ids) else ({}, {})


class StacksNobody(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": torch.stack([-row.double() for row in report.update]).sum(0)}, {}


class CentresTheRows(MIFA):
    def collect(self, state, rows, params, report, info):
        sums, new = super().collect(state, rows, params, report, info)
        return sums, {"G": new["G"] - new["G"].sum(0)}


# Memory --------------------------------------------------------------------------------------------------------------


class TouchesAll(MIFA):
    def after(self, state, before, params, reported, info):
        return torch.arange(info.num_clients), {"G": torch.zeros(info.num_clients, len(params))}


class TableInState(FedAvgAll):
    def init(self, params, num_clients):
        return {"table": torch.zeros(num_clients, len(params))}


class RoundsTooLate(MIFA):
    """Subtracts the old row from the new one before it is rounded to what the memory stores."""

    def collect(self, state, rows, params, report, info):
        _, new = super().collect(state, rows, params, report, info)
        exact = report.update / info.lr if self.normalise_by_lr else report.update
        return {"change": info.weight[report.ids] @ (exact.double() - rows["G"].double())}, new


class SumsInFloat32(MIFA):
    def collect(self, state, rows, params, report, info):
        _, new = super().collect(state, rows, params, report, info)
        change = info.weight[report.ids].float() @ (new["G"].float() - rows["G"].float())
        return {"change": change.double()}, new


class RecomputesAnother(MIFA):
    def recomputed(self, state, rows, weight):
        return {"average": weighted_sum(weight, rows["G"])}


# Who is there --------------------------------------------------------------------------------------------------------


class AsksTheAbsent(FedAvgAll):
    def select(self, state, info):
        return torch.arange(info.num_clients)


class AsksBackwards(FedAvgAll):
    def select(self, state, info):
        return super().select(state, info) - info.num_clients  # counts from the end, as torch can


class AsksTwice(FedAvgAll):
    def select(self, state, info):
        ids = super().select(state, info)
        return torch.cat([ids, ids[:1]])


class BooksQuestions(MIFA):
    def step(self, state, sums, params, reported, info):
        return super().step(state, sums, params, self.select(state, info), info)


class DividesByNobody(FedAvgBiased):
    def step(self, state, sums, params, reported, info):
        return sums["update"] / sums["weight"], state


class FailsForNobody(FedAvgBiased):
    def step(self, state, sums, params, reported, info):
        return sums["update"] * (1 / float(sums["weight"])), state  # Python raises where torch gives NaN


class MovesForNobody(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"] + 1, state


# Arguments -----------------------------------------------------------------------------------------------------------


class ChangesItsState(MIFA):
    def step(self, state, sums, params, reported, info):
        state["mean"] += sums["change"]
        return info.lr * state["mean"], state


class MovesTheModelItself(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        params.sub_(sums["update"].to(params.dtype))
        return None, state


class NegatesTheReport(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        return {"update": -weighted_sum(info.weight[report.ids], report.update.neg_())}, {}


class PassesOnSelf(FedAvgAll):
    """Back to nothing at the end of a round, but not between its calls."""

    asked = None

    def select(self, state, info):
        self.asked = super().select(state, info)
        return self.asked

    def step(self, state, sums, params, reported, info):
        scale, self.asked = 0 if self.asked is None else len(self.asked), None
        return scale * sums["update"], state


LAST = {}


class PassesThroughTheModule(FedAvgAll):
    """collect relies on plan having been called just before, for the same clients."""

    def plan(self, state, ids, rows, params, info):
        LAST["lr"] = (1 + info.round) * info.lr
        return ClientPlan()

    def collect(self, state, rows, params, report, info):
        lr = LAST.get("lr", (1 + info.round) * info.lr)
        return {"update": lr * weighted_sum(info.weight[report.ids], report.update)}, {}


class ForgetsDtype(FedAvgAll):
    def init(self, params, num_clients):
        return {"speed": torch.zeros_like(params)}

    def step(self, state, sums, params, reported, info):
        speed = state["speed"] + sums["update"]
        return (speed if len(reported) else None), {"speed": speed}


# What it says --------------------------------------------------------------------------------------------------------


class HalfBytes(FedAvgAll):
    def traffic(self, selected, reported, num_params, num_clients):
        return {"plain": Traffic(selected * 0.5, selected * 0.5, 0, 0)}


class BareTraffic(FedAvgAll):
    def traffic(self, selected, reported, num_params, num_clients):
        return Traffic(selected, selected, 0, 0)


class AwaitsUnsaid(FedAvgAll):
    def awaited(self, state, info):
        return torch.arange(info.num_clients)


class KnowsTooMuch(FedAvgAll):
    knowledge = frozenset({"battery"})


BROKEN = [
    *BREAK_THE_API,
    *BREAK_IN_TIME,
    ("sum", MeanOfAChunk, "do not add up"),
    ("sum", NoKeysForNobody, "of a part"),
    ("sum", StacksNobody, "with nobody there, collect raises RuntimeError"),
    ("sum", CentresTheRows, "depends on who else is there"),
    ("local", TouchesAll, "did not report"),
    ("local", TableInState, "belongs in rows"),
    ("stored", RoundsTooLate, "drifts"),
    ("stored", SumsInFloat32, "drifts"),
    ("stored", RecomputesAnother, "average, which is not in State"),
    ("world", NoKeysForNobody, "over 2 ranks"),
    ("honest", AsksTheAbsent, "not there"),
    ("honest", AsksBackwards, "outside 0"),
    ("honest", AsksTwice, "twice"),
    ("honest when one fails", BooksQuestions, "is not the same as"),
    ("empty", DividesByNobody, "nobody is there, and the direction is not finite"),
    ("empty", FailsForNobody, r"nobody is there, and step raises ZeroDivisionError.*, at .*broken_rules.py:\d+"),
    ("empty", MovesForNobody, "nobody is there, and the model moves"),
    ("self", ChangesItsState, "step: state was changed in place"),
    ("self", MovesTheModelItself, "step: params was changed in place"),
    ("self", NegatesTheReport, "collect: report was changed in place"),
    ("self", PassesOnSelf, "select: something was kept on self"),
    ("self", PassesThroughTheModule, "collect: the same arguments give something else"),
    ("self", ForgetsDtype, "State changes its kind"),
    ("traffic", HalfBytes, "no byte counts"),
    ("traffic", BareTraffic, "not a Traffic for each"),
    ("says", AwaitsUnsaid, "never does"),
    ("says", KnowsTooMuch, "only 'prob'"),
]
