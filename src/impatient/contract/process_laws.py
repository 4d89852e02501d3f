"""The laws that `Availability` states, by name."""

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from impatient.availability.base import Availability
from impatient.contract import process_chance
from impatient.contract.api import kind, takes
from impatient.contract.failing import BrokenError, one_line, require
from impatient.contract.federation import same
from impatient.contract.outside import nothing_from_outside
from impatient.contract.process_trial import IN_A_ROUND, ROUNDS, ProcessTrial, answers
from impatient.rng import stream

METHODS = ("check", "setup", "stationary", "absent", *IN_A_ROUND)


def methods_take_and_give_what_they_should(trial: ProcessTrial) -> str | None:
    """api: methods take the arguments of Availability and give its types, dtypes and shapes, shares in [0, 1]."""
    takes(trial.make(), Availability, METHODS)
    n, rounds, process = trial.num_clients, trial.rounds(ROUNDS), trial.process()
    require(isinstance(process.check(n, trial.num_classes), list), "check gives no list of faults")
    require(rounds, "mask raises ConfigError in round 0")
    _shares("stationary", process.stationary(), n)
    for t in range(rounds):
        _each("mask", process.mask(t), torch.bool, n)
        _each("returns", process.returns(t), torch.bool, n)
        _shares("prob", process.prob(t), n)
        _shares("work", process.work(t), n)
        _knows(process.knows(t), process.prob(t), n)
    absent = process.absent()
    good = isinstance(absent, Tensor) and absent.dtype == torch.int64 and absent.ndim == 1
    require(good, f"absent gives {kind(absent)}, not ids, int64 [·]")
    require(set(absent.tolist()) <= set(range(n)), f"absent names ids outside 0 … {n - 1}")
    return None


def _each(what: str, given: Any, dtype: torch.dtype, n: int) -> None:
    good = isinstance(given, Tensor) and given.dtype == dtype and tuple(given.shape) == (n,)
    require(good, f"{what} gives {kind(given)}, not a {str(dtype).removeprefix('torch.')} tensor [{n}]")
    require(given.device.type == "cpu", f"{what} gives a tensor on {given.device}, not on the CPU")


def _shares(what: str, given: Any, n: int) -> None:
    if given is not None:
        _each(what, given, torch.float64, n)
        outside = given[~((given >= 0) & (given <= 1))]
        require(not len(outside), f"{what} gives {outside[:1].tolist()}, not in [0, 1]")


def _knows(told: Any, prob: Tensor | None, n: int) -> None:
    require(isinstance(told, Mapping), f"knows gives {kind(told)}, not a dict of tensors")
    for name, value in told.items():
        good = isinstance(value, Tensor) and value.device.type == "cpu" and bool(value.isfinite().all())
        require(good, f"knows: {name} is {kind(value)}, not a finite tensor on the CPU")
    require(("prob" in told) == (prob is not None), "knows must tell prob where there is one, and only there")
    require(prob is None or torch.equal(told["prob"], prob), "knows tells another prob than prob gives")
    if "correlation" in told:
        _each("knows: correlation", told["correlation"], torch.float64, n)


def a_round_depends_on_seed_and_round_alone(trial: ProcessTrial) -> str | None:
    """order: a round is the same in any order of calls, from a fresh process, and from a copy of one."""
    rounds, process, another = trial.rounds(ROUNDS), trial.process(), trial.process(seed=1)
    in_order = [answers(process, t) for t in range(rounds)]
    shuffled = stream(0, "order").permutation(rounds).tolist()

    def again(asked: Availability, t: int, how: str, names: Sequence[str] = IN_A_ROUND) -> None:
        answers(another, t)  # what is kept outside of the process shows in the calls after this
        wanted = {name: value for name, value in in_order[t].items() if name.split()[0] in names}
        _same(wanted, answers(asked, t, names), f"round {t}: {{}} is another when asked {how}")

    for t in reversed(range(rounds)):
        again(process, t, "after other rounds")
    for name in reversed(IN_A_ROUND):
        for t in shuffled:
            again(process, t, "after other rounds, and alone", [name])
    try:
        pickled = pickle.dumps(process)
    except Exception as error:
        raise BrokenError(f"a process that is set up cannot be pickled: {one_line(error)}") from error
    for t in shuffled[:5]:
        again(trial.process(), t, "first")
        again(pickle.loads(pickled), t, "of a pickled copy")
        again(copy.deepcopy(process), t, "of a copy")
    return None


def _same(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor], why: str) -> None:
    """Raise BrokenError, with the name in place of {}, for the first that differs."""
    for name in sorted(wanted.keys() | given.keys()):
        one, two = ({k: v for k, v in said.items() if k == name} for said in (wanted, given))
        require(same(one, two), why.format(name))


def more_clients_change_nobody(trial: ProcessTrial) -> str | None:
    """added client: more clients change nothing that is said of the others."""
    n, rounds, process = trial.num_clients, trial.rounds(ROUNDS), trial.process()
    few = [answers(process, t) for t in range(rounds)]
    for more in (n + 1, 2 * n):
        if faults := trial.make().check(more, trial.num_classes):
            return f"the config fits no other number of clients: {faults[0]}"
        many = trial.process(num_clients=more)
        for t in range(rounds):
            first = {name: value[:n] if value.ndim else value for name, value in answers(many, t).items()}
            _same(few[t], first, f"round {t}: {{}} of the first {n} clients is another with {more} clients")
    return None


def absent_devices_never_come(trial: ProcessTrial) -> str | None:
    """absent: devices that it names never come."""
    process = trial.process()
    absent = process.absent()
    for t in range(trial.rounds(ROUNDS)):
        require(not process.mask(t)[absent].any(), f"round {t}: a device that absent names is there")
    return None if len(absent) else "absent names nobody"


def arguments_stay_as_they_are(trial: ProcessTrial) -> str | None:
    """setup: whom it is about is not changed, then or later."""
    given, untouched = trial.population(trial.num_clients), trial.population(trial.num_clients)
    process = trial.make()
    process.setup(given, 0)
    for t in range(trial.rounds(3)):
        answers(process, t)
    good = torch.equal(given.counts, untouched.counts) and torch.equal(given.sizes, untouched.sizes)
    require(good and given.names == untouched.names, "the population is changed in place")
    return None


def nothing_outside_is_looked_at(trial: ProcessTrial) -> str | None:
    """outside: no global generator, no clock."""
    rounds = trial.rounds(ROUNDS)
    with nothing_from_outside():
        process = trial.process()
        for t in range(rounds):
            answers(process, t)
    return None


PROCESS_LAWS: Mapping[str, Callable[[ProcessTrial], str | None]] = {
    "api": methods_take_and_give_what_they_should,
    "order": a_round_depends_on_seed_and_round_alone,
    "added client": more_clients_change_nobody,
    "seed": process_chance.another_seed_gives_other_masks,
    "prob": process_chance.devices_come_as_often_as_prob_says,
    "absent": absent_devices_never_come,
    "setup": arguments_stay_as_they_are,
    "outside": nothing_outside_is_looked_at,
}
"""As contract.laws.LAWS: each gives None or why it cannot be tried, and raises BrokenError; the first must hold."""
