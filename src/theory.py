"""A claim about MIFA, checked by numbers: one study → one table, its findings, one picture.

python src/theory.py study=waiting
"""

import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

import composed
import door
from impatient.checks import ConfigError


def faults_in(cfg: dict) -> list[str]:
    """What is wrong with the settings, found without running the study."""
    from impatient.theory import settings

    return settings.faults_in(cfg.get("study"), cfg["seed"])


@hydra.main(version_base="1.3", config_path="../configs", config_name="theory")
def main(cfg: DictConfig) -> None:
    """Compose, run, and turn a user's mistake into one message and exit status 1."""
    from impatient.theory.run import run

    try:
        run(composed.plain(cfg), str(HydraConfig.get().runtime.choices.get("study")), composed.typed())
    except ConfigError as error:
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise
        door.show_faults(error)
        sys.exit(1)


if __name__ == "__main__":
    door.enter(main, faults_in)
