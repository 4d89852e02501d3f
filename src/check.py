"""Does a rule, or an availability process, keep the laws of its API? python src/check.py algo=my_rule"""

import sys

import hydra
from omegaconf import DictConfig

from impatient.app import cli


@hydra.main(version_base="1.3", config_path="../configs", config_name="check")
def main(cfg: DictConfig) -> None:
    """Each law by name, with the reason where it is broken."""
    from impatient.app.check import check

    check(cfg)


if __name__ == "__main__":
    cli.enter(main, sys.argv[1:])
