"""What the settings of a study may be: the types its signature is annotated with, and the check against them."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pkgutil import resolve_name
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError
from impatient.theory.report import Outcome

STRICT = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False, frozen=True)


class Group(BaseModel):
    """A group of settings within those of a study."""

    model_config = STRICT


def _target(node: Any, kind: type) -> Any:
    """What a node's _target_ names: a `kind`, or a function that is annotated to return one; nothing else is called."""
    name = node.get("_target_") if isinstance(node, Mapping) else None
    try:
        target = resolve_name(str(name))
    except Exception as error:  # importing runs whatever is in the module
        raise ConfigError(f"_target_={name}: cannot be imported: {error}") from error
    made = target if isinstance(target, type) else get_type_hints(target).get("return")
    if not (isinstance(made, type) and issubclass(made, kind)):
        raise ConfigError(f"_target_={name}: must be {kind.__module__}.{kind.__name__}, or a function that returns one")
    return target


def _rule(node: Any) -> Any:
    """The rule that a node describes, or with _partial_ what makes it."""
    target, given = _target(node, Aggregator), {key: value for key, value in node.items() if key[0] != "_"}
    try:
        return partial(target, **given) if node.get("_partial_") else target(**given)
    except ConfigError:
        raise
    except Exception as error:  # a user's own class may raise anything
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _both(rules: dict[str, Aggregator]) -> dict[str, Aggregator]:
    if not {"mifa", "fedavg_biased"} <= rules.keys():
        raise ValueError("mifa and fedavg_biased are compared; give both")
    return rules


T = TypeVar("T")
Some = Annotated[list[T], Field(min_length=1)]
Chance = Annotated[float, Field(gt=0, le=1)]
Cohort = Annotated[int, Field(ge=1, le=100)]  # of the paper's 100 devices
Seed = Annotated[int, Field(ge=0, lt=2**32)]
RuleMaker = Annotated[Callable[..., Aggregator], BeforeValidator(_rule)]
Rules = Annotated[dict[str, Annotated[Aggregator, BeforeValidator(_rule)]], AfterValidator(_both)]


def study_of(node: Any, seed: Any) -> Callable[[], Outcome]:
    """The study that a config describes, ready to be run. Raises ConfigError with every fault of its settings."""
    try:
        study = _target(node, Outcome)
    except ConfigError as error:
        raise ConfigError(f"study.{error}") from error
    hints = get_type_hints(study, include_extras=True)
    keys = [key for key in hints if key not in ("return", "seed")]
    fields: dict[str, Any] = {**{key: (hints[key], ...) for key in keys}, "seed": (Seed, ...)}
    given = {key: value for key, value in node.items() if key != "_target_"}
    try:
        settings = create_model("Settings", __config__=STRICT, **fields).model_validate({**given, "seed": seed})
    except ValidationError as error:
        raise ConfigError(*(fault for one in error.errors() for fault in _faults(one))) from error
    return partial(study, **dict(settings))


def faults_in(node: Any, seed: Any) -> list[str]:
    """What is wrong with the settings of a study."""
    try:
        study_of(node, seed)
    except ConfigError as error:
        return error.faults
    return []


def _faults(error: ErrorDetails) -> list[str]:
    """`study.key=value: must be …`; what is wrong in a list is said of the list's key."""
    where, cause = error["loc"], error.get("ctx", {}).get("error")
    key = ".".join(part for part in where if isinstance(part, str))
    key = key if key == "seed" else f"study.{key}"
    if isinstance(cause, ConfigError):  # a rule's own
        return [f"{key}.{fault}" for fault in cause.faults]
    if error["type"] == "extra_forbidden":
        return [f"{key}: unknown key"]
    if error["type"] == "missing" and isinstance(where[-1], str):
        return [f"{key}: is missing; configs/study has a value"]
    said = "must have more entries" if error["type"] == "missing" else error["msg"].removeprefix("Value error, ")
    value = "" if isinstance(error["input"], Mapping) else f"={error['input']}"
    return [f"{key}{value}: {re.sub(r'^[A-Z][A-Za-z]* should', 'must', said)}"]
