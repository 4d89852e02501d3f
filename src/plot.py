"""Run folders → figures and tables. python src/plot.py logs/multiruns/figure2_mnist"""

import sys
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from impatient.app import cli
from impatient.checks import ConfigError


@hydra.main(version_base="1.3", config_path="../configs", config_name="plot")
def main(cfg: DictConfig) -> None:
    """Draw and print; where nothing can be drawn, one message and exit status 1."""
    with cli.task():
        from impatient.plots.command import plot

        settings: Any = OmegaConf.to_container(cfg, resolve=True)
        try:
            plot(settings)
        except ConfigError as error:
            sys.exit("\n  ".join(["nothing to draw:", *error.faults]))


def with_folders(words: list[str]) -> list[str]:
    """The words with folders gathered into runs=[…]."""
    folders, rest = cli.split_paths(words)
    return [f"runs=[{','.join(map(cli.quoted, folders))}]", *rest] if folders else rest


if __name__ == "__main__":
    cli.enter(main, with_folders(sys.argv[1:]))
