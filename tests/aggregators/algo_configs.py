"""Every rule there is a yaml for, as the command line would make it."""

from functools import cache
from itertools import product
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

from impatient.aggregators.base import Aggregator

CONFIGS = Path(__file__).parents[2] / "configs"
N = 6

# Only rules whose options change what they do stand here; any other rule is run with its defaults.
OPTIONS = {
    "mifa": [
        f"algo.init={init} algo.normalise_by_lr={normalise}"
        for init, normalise in product(("wait_all", "zero", "average_seen"), ("true", "false"))
    ],
    "fedavg_sampling": [f"algo.cohort_size={size}" for size in (1, 3, N)],
}
NAMES = sorted(path.stem for path in (CONFIGS / "algo").glob("*.yaml"))
CASES = [f"algo={name} {options}".strip() for name in NAMES for options in OPTIONS.get(name, [""])]


def make(case: str) -> Aggregator:
    """A fresh rule from its command-line overrides."""
    return instantiate(_node(case), _convert_="all")


@cache
def _node(case: str) -> DictConfig:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose("train", [f"num_clients={N}", "seed=7", *case.split()]).algo
