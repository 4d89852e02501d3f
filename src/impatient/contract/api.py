"""The law that comes before all others: what each method takes and gives."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.contract.failing import BrokenError, UnplayableError, require
from impatient.contract.federation import Server, report_of
from impatient.contract.trial import P, Trial
from impatient.messages import ClientPlan, Slot

METHODS = (
    *("check", "init", "select", "plan", "collect", "step"),
    *("after", "model", "awaited", "traffic", "recomputed"),
)


def methods_take_and_give_what_they_should(trial: Trial) -> str | None:
    """api: methods take the arguments of Aggregator and give its types, dtypes and shapes, finite, for any P."""
    takes(trial.make(), Aggregator, METHODS)
    for p in (1, P, 7):
        s = trial.server(p=p)
        _dict_of_tensors("init", s.state)
        require(isinstance(s.rule.waits, bool), f"waits is {kind(s.rule.waits)}, not a bool; is it a @property?")
        require(isinstance(s.rule.slots, Mapping), f"slots is {kind(s.rule.slots)}, not a dict")
        require(all(isinstance(slot, Slot) for slot in s.rule.slots.values()), "slots holds something else than Slot()")
        for what in (s.rule.knowledge, s.rule.needs):
            require(isinstance(what, frozenset), f"knowledge and needs must be frozensets, not {kind(what)}")
        require(isinstance(s.rule.check(trial.n, trial.client), list), "check gives no list of faults")
        for available in trial.masks(8):
            _gives(s, available, p)
            try:
                s.play(available)
            except UnplayableError:  # another law says so
                break
    return None


def takes(given: object, base: type, methods: Iterable[str]) -> None:
    """Raise BrokenError for the first of these methods that cannot be called as `base` says."""
    for name in methods:
        wanted = list(inspect.signature(getattr(base, name)).parameters)[1:]
        try:
            inspect.signature(getattr(given, name)).bind(*wanted)
        except TypeError as error:
            raise BrokenError(f"{name} must take ({', '.join(wanted)}): {error}") from error


def _gives(s: Server, available: Tensor, p: int) -> None:
    rule, info = s.rule, s.info(available)
    ids = rule.select(s.state, info)
    _ids("select", ids)
    _ids("awaited", rule.awaited(s.state, info))
    report, rows = report_of(ids, p, s.w.dtype), s.memory.read(ids, "cpu")
    plan = rule.plan(s.state, ids, rows, s.w, info)
    require(isinstance(plan, ClientPlan), f"plan gives {kind(plan)}, not a ClientPlan")
    for name in ("start", "shift"):
        if (told := getattr(plan, name)) is not None:
            _tensor(f"plan's {name}", told, (len(ids), p))
    for name in ("prox", "rate"):
        if isinstance(told := getattr(plan, name), Tensor):
            _tensor(f"plan's {name}", told, (len(ids),))
    if plan.steps is not None:
        good = isinstance(plan.steps, Tensor) and plan.steps.dtype == torch.int64 and plan.steps.shape == ids.shape
        require(good, f"plan's steps is {kind(plan.steps)}, not int64 [{len(ids)}]")
    sums, new = _pair("collect", rule.collect(s.state, rows, s.w, report, info), "(Sums, Rows)")
    _dict_of_tensors("collect's sums", sums)
    require(not any(v.dtype == torch.bool for v in sums.values()), "collect's sums are bool, which does not add up")
    _rows("collect's rows", new, rule, (len(ids), p))
    direction, after = _pair("step", rule.step(s.state, sums, s.w, ids, info), "(direction or None, State)")
    _dict_of_tensors("step's state", after)
    if direction is not None:
        _tensor("step's direction", direction, (p,))
    _tensor("model", rule.model(after, s.w), (p,))
    if (late := rule.after(after, s.w, s.w, ids, info)) is not None:
        named, values = _pair("after", late, "(Ids, Rows) or None")
        _ids("after", named)
        _rows("after's rows", values, rule, (len(named), p))


def kind(given: object) -> str:
    """What this is, for a message: None, a list, a float32 tensor [3, 4] …"""
    if isinstance(given, Tensor):
        return f"a {str(given.dtype).removeprefix('torch.')} tensor {list(given.shape)}"
    return "None" if given is None else f"a {type(given).__name__}"


def _pair(what: str, given: Any, wanted: str) -> tuple[Any, Any]:
    good = isinstance(given, tuple) and len(given) == 2
    require(good, f"{what} gives {kind(given)}, not the pair {wanted}")
    return given


def _ids(what: str, given: Any) -> None:
    good = isinstance(given, Tensor) and given.dtype == torch.int64 and given.ndim == 1
    require(good, f"{what} gives {kind(given)}, not ids, int64 [A]; see aggregators.base.ids_of")


def _tensor(what: str, given: Any, shape: tuple[int, ...]) -> None:
    good = isinstance(given, Tensor) and given.is_floating_point() and tuple(given.shape) == shape
    require(good, f"{what} is {kind(given)}, not a float tensor {list(shape)}")
    require(given.isfinite().all(), f"{what} is not finite")


def _dict_of_tensors(what: str, given: Any) -> None:
    require(isinstance(given, dict), f"{what} gives {kind(given)}, not a dict of tensors")
    for name, value in given.items():
        require(isinstance(name, str) and isinstance(value, Tensor), f"{what}: {name} is {kind(value)}, not a tensor")
        require(value.isfinite().all(), f"{what}: {name} is not finite")


def _rows(what: str, given: Any, rule: Aggregator, shape: tuple[int, int]) -> None:
    _dict_of_tensors(what, given)
    require(given.keys() <= set(rule.slots), f"{what}: {list(given)}, and `slots` declares {list(rule.slots)}")
    for name, value in given.items():
        _tensor(f"{what}: {name}", value, shape)
