"""The words of a command line: paths among them, and what Hydra makes of one."""

import re
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from overrides import compose_of, parsed


def split_paths(args: list[str]) -> tuple[list[str], list[str]]:
    """Paths (no flag, and no `=` in it, or there is such a file or folder), and the other arguments."""
    paths = [arg for arg in args if not arg.startswith("-") and ("=" not in arg or Path(arg).exists())]
    return paths, [arg for arg in args if arg not in paths]


def quoted(text: str) -> str:
    """In Hydra's single quotes: backslashes count only before a quote or the end, and are doubled there."""
    text = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text)
    return "'" + text.replace("'", r"\'").replace("${", r"\${") + "'"


def value_of(args: list[str], key: str) -> str | None:
    """The text that train.py's command line gives a key: without quotes and escapes, its references resolved.

    None where it gives none, or nothing that is text.
    """
    overrides = [arg for arg in args if "=" in arg and not arg.startswith("-")]
    given = [arg for arg in overrides if arg.split("=")[0].lstrip("+") == key]
    try:
        value = parsed(given[-1]).value() if given else None
        if "${" in str(value):
            value = OmegaConf.select(compose_of("train", *overrides), key)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError):  # Hydra will say so
        return None
    return value if isinstance(value, str) else None
