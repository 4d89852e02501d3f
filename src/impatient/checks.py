"""Faults in a user's configuration, gathered so that one message names them all."""

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any


class ConfigError(ValueError):
    """A mistake in the configuration. Each fault names the value, the reason and the way out."""

    def __init__(self, *faults: str) -> None:
        self.faults = [fault for fault in faults if fault]
        super().__init__("\n".join(self.faults))


def check(*faults: str | None) -> None:
    """Raise one ConfigError with every fault that is not None."""
    found = [fault for fault in faults if fault]
    if found:
        raise ConfigError(*found)


def number(name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> str | None:
    """Say why `value` is no finite real number in [low, high], or in (low, high] with open_low; None if it is one."""
    return _bounded(name, value, low, high, open_low, "a number", int | float)


def integer(name: str, value: Any, low: float, high: float = math.inf) -> str | None:
    """Say why `value` is no integer in [low, high]; None if it is one."""
    return _bounded(name, value, low, high, False, "an integer", int)


def _bounded(name: str, value: Any, low: float, high: float, open_low: bool, noun: str, kind: Any) -> str | None:
    if high < math.inf:
        wanted = f"{noun} in {'(' if open_low else '['}{low:.15g}, {high:.15g}]"
    else:
        wanted = f"{noun} {'>' if open_low else '>='} {low:.15g}" if low > -math.inf else noun
    if isinstance(value, bool) or not isinstance(value, kind):
        return f"{name}={value!s}: must be {wanted}, not {type(value).__name__}"
    if (
        (isinstance(value, float) and not math.isfinite(value))
        or value < low
        or value > high
        or (open_low and value == low)
    ):
        return f"{name}={value}: must be {wanted}"
    return None


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> str | None:
    """Say that `value` is none of those allowed; None if it is."""
    if value in allowed and not isinstance(value, bool):
        return None
    return f"{name}={value}: must be one of {', '.join(map(str, allowed))}"


def flag(name: str, value: Any) -> str | None:
    """Say that `value` is neither true nor false; None if it is."""
    return None if isinstance(value, bool) else f"{name}={value}: must be true or false"


def known(name: str, key: str, keys: Iterable[Any]) -> str | None:
    """Say that `key` is none of the keys there are, and the nearest of those; None if it is one."""
    there = [str(other) for other in keys]
    if key in there:
        return None
    near = difflib.get_close_matches(key, there, 1)
    return f"{name}: unknown key; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(there) or 'none'}")
