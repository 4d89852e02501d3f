"""Run folders → figures and tables.

python src/plot.py logs/multiruns/figure2_mnist
"""

import sys
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

import door
from arguments import quoted, split_paths
from impatient.checks import ConfigError


@hydra.main(version_base="1.3", config_path="../configs", config_name="plot")
def main(cfg: DictConfig) -> None:
    """Draw and print; where nothing can be drawn, one message and exit status 1."""
    from impatient.plots.command import plot  # here, so that --help need not wait for it

    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    try:
        plot(settings)
    except ConfigError as error:
        print("nothing to draw:", *error.faults, sep="\n  ", file=sys.stderr)
        sys.exit(1)


def with_folders(args: list[str]) -> list[str]:
    """The arguments with folders gathered into runs=[…]."""
    folders, rest = split_paths(args)
    return [f"runs=[{','.join(map(quoted, folders))}]", *rest] if folders else rest


if __name__ == "__main__":
    sys.argv = [sys.argv[0], *with_folders(sys.argv[1:])]
    door.enter(main)
