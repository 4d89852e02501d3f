"""One study: from its config to its outcome, and to what is written and printed of it."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import impatient
from impatient import files
from impatient.checks import ConfigError
from impatient.theory import report
from impatient.theory.settings import study_of


def outcome_of(node: Any, seed: Any) -> report.Outcome:
    """Run the study that a node of the config describes, in one thread. Raises ConfigError with all that is wrong."""
    import matplotlib as mpl

    study = study_of(node, seed)
    torch.set_num_threads(1)
    try:
        with mpl.rc_context(report.STYLE):
            return study()
    except ConfigError as error:
        raise ConfigError(*(f"study: {fault}" for fault in error.faults)) from error


def run(cfg: Mapping[str, Any], name: str, overrides: Sequence[str]) -> None:
    """Run cfg's study with its seed, write <name>.md, .csv, .png and .pdf to the folder cfg["out"], print the tables.

    overrides: what was typed, for the command in the Markdown file. Raises ConfigError for a folder that cannot be
    written, and as `outcome_of` does.
    """
    folder, seed = Path(str(cfg["out"])), cfg["seed"]
    if why := files.unwritable(folder):
        raise ConfigError(f"out={folder}: {why}; name another")
    started = time.perf_counter()
    outcome = outcome_of(cfg.get("study"), seed)
    seconds = f"{time.perf_counter() - started:.0f} s"
    command = " ".join(["python src/theory.py", *(arg for arg in overrides if not arg.startswith("out="))])
    versions = f"impatient {impatient.__version__}, torch {torch.__version__}, numpy {np.__version__}"
    report.write(outcome, folder, name, [f"`{command}`, seed {seed}, {versions}; {seconds}."])
    report.show(outcome, name)
    print(f"{seconds}; written to {folder}")
