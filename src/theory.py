"""A claim about MIFA, checked by numbers: one study → one table, its findings, one picture.

python src/theory.py study=waiting
"""

import sys

import hydra
from omegaconf import DictConfig

from impatient.app import cli, config


@hydra.main(version_base="1.3", config_path="../configs", config_name="theory")
def main(cfg: DictConfig) -> None:
    """Run the study, write and print what it finds."""
    with cli.task() as job:
        from impatient.theory.run import run

        run(config.plain(cfg), str(job.runtime.choices.get("study")), config.typed(job))


if __name__ == "__main__":
    cli.enter(main, sys.argv[1:])
