"""Rules that depend on something else than their arguments: on chance, on the clock, on what came before."""

import datetime
import random
import time
from time import time as now

import numpy as np
import torch

from impatient.aggregators.base import weighted_sum
from impatient.aggregators.fedavg_all import FedAvgAll
from impatient.aggregators.mifa import MIFA
from impatient.messages import ClientPlan

# Time ----------------------------------------------------------------------------------------------------------------


class DrawsFromTorch(FedAvgAll):
    def collect(self, state, rows, params, report, info):
        noise = 1e-3 * torch.rand(report.update.shape)
        return {"update": weighted_sum(info.weight[report.ids], noise + report.update)}, {}


class DrawsFromNumpy(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"] * np.random.uniform(0.9, 1.1), state


class DrawsFromPython(FedAvgAll):
    def select(self, state, info):
        ids = super().select(state, info)
        return ids if random.random() < 2 else ids[:1]  # a draw that decides nothing here


class SeedsTorch(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        torch.manual_seed(0)
        return sums["update"] * torch.rand(1), state


class OwnGenerator(FedAvgAll):
    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)

    def step(self, state, sums, params, reported, info):
        return sums["update"] * torch.rand(1, generator=self.generator), state


class FreshEntropy(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return sums["update"] * np.random.default_rng().uniform(0.9, 1.1), state


class StopsAtNight(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        night = datetime.datetime.now().hour > 24  # never, so that only the reading shows
        return (None if night or not len(reported) else sums["update"]), state


class TimesOut(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return (sums["update"] if time.monotonic() > 0 and len(reported) else None), state


class FadesWithTime(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        return (sums["update"] * now() if len(reported) else None), state


COUNT = [0]


class CountsInTheModule(FedAvgAll):
    def step(self, state, sums, params, reported, info):
        COUNT[0] += 1
        return (sums["update"] / COUNT[0] if len(reported) else None), state


class CountsOnSelf(FedAvgAll):
    rounds = 0

    def step(self, state, sums, params, reported, info):
        self.rounds += 1
        return sums["update"] / self.rounds, state


# One process or many -------------------------------------------------------------------------------------------------


class KnowsItsChunk(MIFA):
    def plan(self, state, ids, rows, params, info):
        return ClientPlan(shift=torch.full_like(rows["G"], len(rows["G"])).to(params))


class CountsChunks(FedAvgAll):
    """Divides by the number of calls to collect, as if each were a round: additive, but not zero for nobody."""

    def collect(self, state, rows, params, report, info):
        sums, rows = super().collect(state, rows, params, report, info)
        return sums | {"calls": torch.ones(1)}, rows

    def step(self, state, sums, params, reported, info):
        return (sums["update"] / sums["calls"] if len(reported) else None), state


BREAK_IN_TIME = [
    ("sum", CountsChunks, "do not add up"),
    ("resume", CountsOnSelf, "the weights differ"),
    ("resume", CountsInTheModule, "the weights differ"),
    ("resume", DrawsFromTorch, "global generator of torch"),
    ("resume", DrawsFromNumpy, "global generator of numpy"),
    ("resume", DrawsFromPython, "global generator of random"),
    ("resume", SeedsTorch, "global generator of torch"),
    ("resume", OwnGenerator, "the weights differ"),
    ("resume", FreshEntropy, "the weights differ"),
    ("resume", StopsAtNight, "reads the clock: now, at .*broken_time.py"),
    ("resume", TimesOut, "reads the clock: monotonic"),
    ("resume", FadesWithTime, "reads the clock: time"),
    ("world", DrawsFromTorch, "the weights differ"),
    ("world", DrawsFromNumpy, "the weights differ"),
    ("world", KnowsItsChunk, "the weights differ"),
    ("self", CountsOnSelf, "step: something was kept on self"),
    ("self", DrawsFromTorch, "collect: the same arguments give something else"),
]
