"""Laws of single calls: what they give for some clients, for others and for nobody, and that nothing else decides."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.contract.api import kind
from impatient.contract.failing import BrokenError, Raised, close, require
from impatient.contract.federation import Server, copies, report_of, same, tensors
from impatient.contract.trial import P, Trial
from impatient.messages import RoundInfo, Rows, Sums, Traffic
from impatient.rng import stream

DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def sums_are_additive(trial: Trial) -> str | None:
    """sum: collect(A ∪ B) = collect(A) + collect(B); with A = 0, zeros of the same keys, shapes and dtypes."""
    tried = 0
    for rows_dtype in DTYPES:
        work = torch.float64 if rows_dtype == torch.float64 else torch.float32
        for before in (0, 1, 7):
            s = trial.server(work, rows_dtype)
            s.run(trial.masks(before))
            tried += _additive(s, trial.mask(True), before, work)
    return None if tried else "collect gives no sums and no rows, or nobody is ever selected"


def _additive(s: Server, available: Tensor, before: int, work: torch.dtype) -> bool:
    """Whether there was anything to add."""
    info = s.info(available)
    report = report_of(s.rule.select(s.state, info), P, work)
    rows = s.memory.read(report.ids, "cpu")

    def collect(part: Tensor) -> tuple[Sums, Rows]:
        some = {k: v[part] for k, v in rows.items()}
        try:
            return s.rule.collect(s.state, some, s.w, report.keep(part), info)
        except Exception as error:
            if part.any() or len(part) == 0:
                raise
            raise BrokenError(f"with nobody there, {Raised.of(error)}") from error

    some = torch.from_numpy(stream(0, "split", before).random(len(report.ids)) < 0.5)
    nobody = torch.zeros_like(some)
    whole, new = collect(~nobody)
    for left in (some, nobody, ~nobody):
        (one, new_one), (two, new_two) = collect(left), collect(~left)
        require(whole.keys() == one.keys() == two.keys(), f"sums {list(whole)}, of a part {list(one)}, {list(two)}")
        require(new.keys() == new_one.keys() == new_two.keys(), f"rows {list(new)}, of a part {list(new_one)}")
        for k in whole:
            parts = [(v.dtype, v.shape) for v in (one[k], two[k], whole[k])]
            require(len(set(parts)) == 1, f"sum {k}: dtype or shape depends on who is there: {parts}")
            close(one[k] + two[k], whole[k], f"sum {k}: the parts do not add up to the whole")
        for k in new:
            good = torch.equal(new_one[k], new[k][left]) and torch.equal(new_two[k], new[k][~left])
            require(good, f"row {k}: a client's new row depends on who else is there")
    zeros, none = collect(nobody)
    require(not any(value.any() for value in zeros.values()), "with nobody there the sums are not zero")
    require(all(row.shape == (0, P) for row in none.values()), "with nobody there the rows are not [0, P]")
    return len(report.ids) > 0 and bool(whole or new)


def selects_only_who_is_there(trial: Trial) -> str | None:
    """honest: select ⊆ available, each client once."""
    s, asked = trial.server(), 0
    for t, available in enumerate(trial.masks(40)):
        # A mask of its own, beside the one that is played: any state meets any availability.
        for mask in (available, trial.masks(1, seed=100 + t)[0], trial.mask(False), trial.mask(True)):
            ids = s.rule.select(s.state, s.info(mask))
            good = bool((ids >= 0).all()) and bool((ids < trial.n).all())
            require(good, f"round {t}: select names ids outside 0 … {trial.n - 1}")
            require(mask[ids].all(), f"round {t}: select names clients that are not there")
            require(len(ids.unique()) == len(ids), f"round {t}: select names a client twice")
            asked += len(ids)
        s.play(available)
    return None if asked else "nobody is ever selected, whoever is there"


def calls_depend_on_their_arguments_alone(trial: Trial) -> str | None:
    """self: arguments stay as they are, nothing is kept on self or elsewhere, State keeps its dtypes and shapes."""
    # float32, as in a run: a State that changed its dtype by promotion would show.
    s = trial.server(torch.float32, torch.float32)
    for available in trial.masks(15):
        _same_again(s, available)
        s.play(available)
    return None


def _same_again(s: Server, available: Tensor) -> None:
    rule, info = s.rule, s.info(available)
    given: dict[str, dict[str, Tensor]] = {"state": s.state, "params": {"w": s.w}, "info": tensors(info)}
    config = _config(rule)
    before = {what: copies(data) for what, data in given.items()}
    calls: dict[str, tuple[Callable[[], Any], dict[str, Tensor]]] = {}

    def call(name: str, made: Callable[[], Any]) -> Any:
        result = made()
        calls[name] = made, copies(_leaves(result))
        for what, data in given.items():
            require(same(data, before[what]), f"{name}: {what} was changed in place")
        require(_config(rule) == config, f"{name}: something was kept on self")
        return result

    def also(what: str, data: dict[str, Tensor]) -> None:
        given[what], before[what] = data, copies(data)

    call("init", lambda: rule.init(s.w, s.n))
    call("awaited", lambda: rule.awaited(s.state, info))
    ids = call("select", lambda: rule.select(s.state, info))
    rows, report = s.memory.read(ids, "cpu"), report_of(ids, P, torch.float32)
    also("rows", rows)
    also("report", tensors(report))
    call("plan", lambda: rule.plan(s.state, ids, rows, s.w, info))
    sums, _ = call("collect", lambda: rule.collect(s.state, rows, s.w, report, info))
    also("sums", sums)
    _, after = call("step", lambda: rule.step(s.state, sums, s.w, report.ids, info))
    also("the next state", after)
    call("after", lambda: rule.after(after, s.w, s.w + 1, report.ids, info))
    call("model", lambda: rule.model(after, s.w))
    kinds = [{k: (v.dtype, v.shape) for k, v in state.items()} for state in (s.state, after)]
    require(kinds[0] == kinds[1], f"State changes its kind: {kinds[0]} to {kinds[1]}")
    _of_another_round(s, replace(info, round=info.round + 1, available=~available))
    for name, (made, once) in reversed(calls.items()):
        good = same(copies(_leaves(made())), once)
        require(good, f"{name}: the same arguments give something else after other calls, or at another time")


def _of_another_round(s: Server, info: RoundInfo) -> None:
    """Calls with other arguments: what they leave behind outside of self shows in the calls after them."""
    ids = s.rule.select(s.state, info)
    rows = s.memory.read(ids, "cpu")
    s.rule.plan(s.state, ids, rows, s.w + 1, info)
    sums, _ = s.rule.collect(s.state, rows, s.w + 1, report_of(ids, P, torch.float32), info)
    _, after = s.rule.step(s.state, sums, s.w + 1, ids, info)
    s.rule.after(after, s.w, s.w - 1, ids, info)


def _config(rule: Aggregator) -> object:
    try:
        return pickle.dumps(vars(rule))
    except Exception:  # a function, say, cannot be pickled: then at least its name and address are the same
        return {name: repr(value) for name, value in vars(rule).items()}


def _leaves(given: Any, at: str = "") -> dict[str, Tensor]:
    """All tensors in what a method gives, by their place in it."""
    if isinstance(given, Tensor):
        return {at: given}
    if is_dataclass(given):
        given = {f.name: getattr(given, f.name) for f in fields(given)}
    if isinstance(given, int | float):
        return {at: torch.tensor(given)}
    pairs = given.items() if isinstance(given, dict) else enumerate(given or ())
    return {place: leaf for name, value in pairs for place, leaf in _leaves(value, f"{at}.{name}").items()}


def traffic_counts_whole_bytes(trial: Trial) -> str | None:
    """traffic: whole bytes under each protocol; down to who is selected, up from who reported."""
    for selected, reported in ((0, 0), (1, 1), (trial.n, trial.n), (trial.n, 1), (trial.n, 0)):
        protocols = trial.make().traffic(selected, reported, P, trial.n)
        good = isinstance(protocols, Mapping) and all(isinstance(one, Traffic) for one in protocols.values())
        require(good and protocols, f"traffic gives {kind(protocols)}, not a Traffic for each of some protocols")
        for name, traffic in protocols.items():
            counts = [getattr(traffic, f.name) for f in fields(Traffic)]
            require(all(type(count) is int and count >= 0 for count in counts), f"{name}: {counts} are no byte counts")
        first = next(iter(protocols.values()))
        good = (first.down > 0) == (selected > 0) and (first.up > 0) == (reported > 0)
        require(good, f"{selected} selected, {reported} reported: {first}")
    return None


def says_what_it_needs(trial: Trial) -> str | None:
    """says: what it must be told, and whom it awaits."""
    s = trial.server()
    faults = s.rule.check(trial.n, trial.client)
    require(faults == [], f"{trial.n} clients: {'; '.join(faults)}")
    told = ", ".join(map(repr, s.knows))
    require(s.rule.knowledge <= s.knows.keys(), f"knowledge {set(s.rule.knowledge)}: only {told} can be told")
    for available in trial.masks(10):
        awaited = s.rule.awaited(s.state, s.info(available))
        good = bool((awaited >= 0).all()) and bool((awaited < trial.n).all())
        require(good, f"awaited names ids outside 0 … {trial.n - 1}")
        require(s.rule.waits or len(awaited) == 0, "awaits somebody, and `waits` says that it never does")
        s.play(available)
    return None
