"""One federated run. python src/train.py algo=mifa data=cifar10 availability.pmin=0.2"""

import sys

import hydra
from omegaconf import DictConfig

from impatient.app import cli, folder, sweep


@hydra.main(version_base="1.3", config_path="../configs", config_name="train")
def main(cfg: DictConfig) -> float | None:
    """The final test accuracy, for sweepers that search."""
    from impatient.app.run import train

    return train(cfg)


if __name__ == "__main__":
    cli.enter(sweep.naming_what_is_left(main), folder.with_saved_overrides(sys.argv[1:]))
