"""What metrics and config keys are called: plain in tables and notes; style.typeset sets them in figures."""

import json
from typing import Any

METRICS = {
    "train/loss": "training loss",
    "train/objective": "training objective",
    "test/loss": "test loss",
    "test/acc": "test accuracy",
}
KEYS = {"availability.pmin": "p_min"}
"""Keys that have a symbol; all others go by the key, as one types them."""

LONGEST = 24


def name(key: str) -> str:
    """A metric or a config key in words."""
    return METRICS.get(key) or KEYS.get(key, key)


def value(key: str, given: Any) -> str:
    """A config value: of a class path the class, "none" for none; a long path its end, a long list its beginning."""
    if key.endswith("_target_"):
        return str(given).rsplit(".", 1)[-1]
    if isinstance(given, str):
        return f"…{given[1 - LONGEST :]}" if len(given) > LONGEST and "/" in given else given
    text = "none" if given is None else json.dumps(given, default=str)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
