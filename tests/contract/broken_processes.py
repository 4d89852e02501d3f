"""Processes as a stranger might write them, each breaking one law: the law, the process, a pattern of the reason."""

import random
import threading
import time

import numpy as np
import torch

from impatient.availability.base import Availability, Independent
from impatient.availability.bernoulli import Bernoulli
from impatient.availability.chain import Chain
from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.availability.markov import Markov
from impatient.checks import ConfigError
from impatient.rng import stream

# What they give ------------------------------------------------------------------------------------------------------


class FloatMasks(Bernoulli):
    def mask(self, round):
        return super().mask(round).double()


class ShortMasks(Bernoulli):
    def mask(self, round):
        return super().mask(round)[:-1]


class NumpyMasks(Bernoulli):
    def mask(self, round):
        return super().mask(round).numpy()


class MasksWithoutRound(Bernoulli):
    def mask(self):
        return self.coins(0) < self.p


class MasksElsewhere(Bernoulli):
    def mask(self, round):
        return super().mask(round).to("meta")


class NoRound(Bernoulli):
    def mask(self, round):
        raise ConfigError("path: the recording is empty")


class MoreThanCertain(Bernoulli):
    def prob(self, round):
        return torch.full_like(self.p, 1.7)


class NotANumber(Bernoulli):
    def prob(self, round):
        return self.p / 0 * 0


class SinglePrecision(Bernoulli):
    def prob(self, round):
        return self.p.float()


class PlainNumber(Bernoulli):
    def stationary(self):
        return 0.5


class AnswersAsIds(Bernoulli):
    def returns(self, round):
        return torch.arange(self.num_clients)


class WorksOvertime(Bernoulli):
    def work(self, round):
        return 1 + self.coins(round)


class WorksInSteps(Bernoulli):
    def work(self, round):
        return torch.ones(self.num_clients, dtype=torch.int64)


class KnowsNumbers(Bernoulli):
    def knows(self, round):
        return {**super().knows(round), "period": 20}


class KnowsBetter(Bernoulli):
    def knows(self, round):
        return {"prob": self.p / 2}


class KeepsItToItself(Bernoulli):
    def knows(self, round):
        return {}


class AbsentAsMask(Bernoulli):
    def absent(self):
        return self.p == 0


class AbsentStrangers(Bernoulli):
    def absent(self):
        return torch.tensor([self.num_clients])


class OneFault(Bernoulli):
    def check(self, num_clients, num_classes):
        return None


# Order ---------------------------------------------------------------------------------------------------------------


class CountsItsCalls(Bernoulli):
    """The number of the call takes the place of the round."""

    def setup(self, population, seed):
        super().setup(population, seed)
        self.calls = -1

    def mask(self, round):
        self.calls += 1
        return super().mask(self.calls)


class GoesOn(Bernoulli):
    """A generator for each client that goes on from call to call."""

    def setup(self, population, seed):
        super().setup(population, seed)
        self.rngs = [np.random.default_rng([seed, i]) for i in range(self.num_clients)]

    def mask(self, round):
        return torch.tensor([rng.random() for rng in self.rngs]) < self.p


class ReliesOnProb(Bernoulli):
    """Work relies on prob having been asked for just before."""

    def setup(self, population, seed):
        super().setup(population, seed)
        self.round = 0

    def prob(self, round):
        self.round = round
        return super().prob(round)

    def work(self, round):
        return self.coins(self.round)


SHARED = {"last": 0}


class SharesAModule(Bernoulli):
    """What one process leaves in the module, another one reads."""

    def setup(self, population, seed):
        super().setup(population, seed)
        SHARED["last"] = 0

    def work(self, round):
        last, SHARED["last"] = SHARED["last"], round + 100 * self.seed
        return self.coins(last)


class ChangesItsHistory(Markov):
    """A chain whose step overwrites the state that it was given."""

    def next(self, state, coins):
        return state.copy_(super().next(state, coins))


class CannotBePickled(Bernoulli):
    def setup(self, population, seed):
        super().setup(population, seed)
        self.lock = threading.Lock()


# Other clients, other seeds ------------------------------------------------------------------------------------------


class DrawsByNumber(Bernoulli):
    def mask(self, round):
        return torch.from_numpy(stream(self.seed, "mine", round, self.num_clients).random(self.num_clients)) < self.p


class NormalisesOverAll(LabelBernoulli):
    def setup(self, population, seed):
        super().setup(population, seed)
        sizes = population.sizes.double() + torch.arange(len(population.sizes))
        self.p = sizes / sizes.max()


class ForgetsTheSeed(Bernoulli):
    def coins(self, round):
        return torch.from_numpy(stream(0, "mine", round).random(self.num_clients))


# Chances -------------------------------------------------------------------------------------------------------------


class ComesLessOften(Bernoulli):
    def mask(self, round):
        return self.coins(round) < 0.9 * self.p


class BeginsWithAll(Markov):
    def first(self, coins):
        return torch.ones(self.num_clients, dtype=torch.bool)


class BeginsWithAllForOneRound(Bernoulli):
    def mask(self, round):
        return super().mask(round) | (round == 0)


class ComesUnexpected(Bernoulli):
    def prob(self, round):
        return torch.zeros_like(self.p)

    def stationary(self):
        return None


class MissesTheCertain(Bernoulli):
    def prob(self, round):
        return torch.ones_like(self.p)

    def stationary(self):
        return None


class SteadyInName(Availability):
    """p_i(t) alternates, and `stationary` gives its mean."""

    def prob(self, round):
        return torch.full((self.num_clients,), (0.2, 0.6)[round % 2], dtype=torch.float64)

    def mask(self, round):
        return self.coins(round) < self.prob(round)

    def stationary(self):
        return torch.full((self.num_clients,), 0.4, dtype=torch.float64)


class BuriedAlive(Bernoulli):
    def absent(self):
        return torch.tensor([1])


# Arguments, and what all share ---------------------------------------------------------------------------------------


class ChangesTheCounts(LabelBernoulli):
    def setup(self, population, seed):
        population.counts.clamp_(max=1)
        super().setup(population, seed)


class SortsTheNames(Bernoulli):
    def setup(self, population, seed):
        super().setup(population, seed)
        population.names.sort(reverse=True)


class Reseeds(Independent):
    """The global generator, seeded for each round: the same in any order, but not alone."""

    def setup(self, population, seed):
        super().setup(population, seed)
        self.p = torch.full((self.num_clients,), 0.5, dtype=torch.float64)

    def coins(self, round):
        random.seed(f"{self.seed}, {round}")
        return torch.tensor([random.random() for _ in range(self.num_clients)], dtype=torch.float64)


class ReadsTheClock(Bernoulli):
    def mask(self, round):
        self.asked_at = time.time()
        return super().mask(round)


class CountsUp(Chain):
    """Raises in a step of its own."""

    def first(self, coins):
        return coins < 0.5

    def next(self, state, coins):
        return state[: len(coins) // 0]


BROKEN_PROCESSES = [
    ("api", FloatMasks, r"mask gives a float64 tensor \[10\], not a bool tensor \[10\]"),
    ("api", ShortMasks, r"mask gives a bool tensor \[9\], not a bool tensor \[10\]"),
    ("api", NumpyMasks, "mask gives a ndarray"),
    ("api", MasksWithoutRound, r"mask must take \(round\)"),
    ("api", MasksElsewhere, "mask gives a tensor on meta"),
    ("api", NoRound, "mask raises ConfigError in round 0"),
    ("api", MoreThanCertain, r"prob gives \[1.7\], not in \[0, 1\]"),
    ("api", NotANumber, r"prob gives \[nan\], not in \[0, 1\]"),
    ("api", SinglePrecision, "prob gives a float32 tensor"),
    ("api", PlainNumber, "stationary gives a float, not a float64 tensor"),
    ("api", AnswersAsIds, "returns gives a int64 tensor"),
    ("api", WorksOvertime, r"work gives \[1\.\d+\], not in"),
    ("api", WorksInSteps, "work gives a int64 tensor"),
    ("api", KnowsNumbers, "knows: period is a int"),
    ("api", KnowsBetter, "another prob"),
    ("api", KeepsItToItself, "must tell prob"),
    ("api", AbsentAsMask, "absent gives a bool tensor"),
    ("api", AbsentStrangers, "outside 0 … 9"),
    ("api", OneFault, "check gives no list"),
    ("order", CountsItsCalls, "mask is another when asked after other rounds"),
    ("order", GoesOn, "mask is another"),
    ("order", ReliesOnProb, "work is another"),
    ("order", SharesAModule, "work is another"),
    ("order", ChangesItsHistory, "mask is another"),
    ("order", CannotBePickled, "cannot be pickled: TypeError"),
    ("added client", DrawsByNumber, "mask of the first 10 clients is another with 11 clients"),
    ("added client", NormalisesOverAll, "of the first 10 clients is another"),
    ("seed", ForgetsTheSeed, "every seed gives the same masks"),
    ("prob", ComesLessOften, r"20 rounds, 1000 seeds: client \d is there less often than prob says, by 0\.0[56]"),
    ("prob", BeginsWithAll, "round 0, 1000 seeds: client 0 is there more often than prob says, by 0.500"),
    ("prob", BeginsWithAllForOneRound, "round 0, 1000 seeds: client 0 is there more often"),
    ("prob", ComesUnexpected, "prob says 0"),
    ("prob", MissesTheCertain, "prob says 1"),
    ("prob", SteadyInName, "stationary is not"),
    ("absent", BuriedAlive, "a device that absent names is there"),
    ("setup", ChangesTheCounts, "the population is changed"),
    ("setup", SortsTheNames, "the population is changed"),
    ("outside", Reseeds, "global generator of random"),
    ("outside", ReadsTheClock, "reads the clock: time, at .*broken_processes.py"),
]
