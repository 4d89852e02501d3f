"""A group of settings, read into the dataclass that knows what is allowed."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from impatient.checks import ConfigError

Kind = TypeVar("Kind")


def settings(kind: type[Kind], name: str, given: Mapping[str, Any]) -> Kind:
    """kind(**given). Raises ConfigError, with the group's name before each fault, also for keys missing or unknown."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name}={given}: must be a group of settings")
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    wrong = [f"{name}.{key}: unknown key; known: {', '.join(known)}" for key in given if key not in known]
    wrong += [f"{name}.{key}: is missing" for key in known if key not in given]
    if wrong:
        raise ConfigError(*wrong)
    try:
        return kind(**given)
    except ConfigError as error:
        raise ConfigError(*(f"{name}.{fault}" for fault in error.faults)) from error
