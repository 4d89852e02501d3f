"""The laws in Availability's docstring, for every configs/availability/*.yaml: a new process is picked up by itself."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

from impatient.contract.process_laws import PROCESS_LAWS
from impatient.contract.process_trial import ProcessTrial

CONFIGS = Path(__file__).parents[2] / "configs"
N = 6
LIST = "[0,0.2,0.4,0.6,0.8,1]"

# Only processes whose options change what they do stand here; any other is tried with its defaults.
OPTIONS = {
    "bernoulli": ["", f"availability.p={LIST}", "availability.p_range=[0.1,0.9]"],
    "label_bernoulli": ["", "availability.label=most_frequent", "availability.formula=printed", "availability.pmin=0"],
    "markov": ["", f"availability.p={LIST}", "availability.p_range=[0.1,0.9] availability.correlation=0.95"],
    "trace": [f"availability.path={{mask}} availability.on_end={end}" for end in ("wrap", "hold", "error")],
}
NAMES = sorted(path.stem for path in (CONFIGS / "availability").glob("*.yaml"))
CASES = [f"availability={name} {options}".strip() for name in NAMES for options in OPTIONS.get(name, [""])]

# What a process gives nothing to try on, by the options that say so; everything else is tried.
FIXED_N = "fits no other number of clients"
NOT_TRIED = {
    "availability=always": {"seed": "0 or 1"},
    LIST: {"added client": FIXED_N},
    "trace": {"added client": FIXED_N, "seed": "prob is not known", "prob": "prob is not known"},
}


@pytest.fixture(scope="module")
def mask(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five rounds; client 5 never comes."""
    path = tmp_path_factory.mktemp("trace") / "mask.npy"
    np.save(path, (np.arange(5)[:, None] + np.arange(N)) % 3 * (np.arange(N) != 5) > 0)
    return path


@cache
def node(case: str) -> DictConfig:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose("train", [f"num_clients={N}", *case.split()]).availability


@pytest.mark.parametrize("law", PROCESS_LAWS)
@pytest.mark.parametrize("case", CASES)
def test_law(case: str, law: str, mask: Path) -> None:
    trial = ProcessTrial(partial(instantiate, node(case.format(mask=mask)), _convert_="all"), N)
    reason = PROCESS_LAWS[law](trial)
    expected = {law: why for part, laws in NOT_TRIED.items() if part in case for law, why in laws.items()}
    if law == "absent" and not len(trial.process().absent()):
        assert reason == "absent names nobody"
    elif law in expected:
        assert expected[law] in (reason or "")
    else:
        assert reason is None
