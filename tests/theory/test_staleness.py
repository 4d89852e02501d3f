"""Statistics of masks: by hand, and against what a run itself counts row by row."""

import numpy as np
import pytest
import torch

from impatient.checks import ConfigError
from impatient.participation import Participation
from impatient.theory.processes import bernoulli
from impatient.theory.staleness import tau


def test_by_hand():
    # Device 0 is away in rounds 1, 2 and 4; device 1 comes in round 2 only.
    mask = [[1, 0], [0, 0], [0, 1], [1, 0], [0, 0]]
    assert tau(mask).tolist() == [[0, 1], [1, 2], [2, 0], [0, 1], [1, 2]]


@pytest.mark.parametrize("p", [0.05, 0.2, 1.0])
def test_a_run_counts_the_same(p):
    mask = torch.from_numpy(bernoulli(p).masks(100, 6, seed=1))
    run, away = Participation(6), tau(mask)
    for t, row in enumerate(mask):
        run.record(row, row.nonzero().flatten(), True)
        assert run.tau.tolist() == away[t].tolist()
    assert run.summary() == {"staleness/tau_bar": pytest.approx(away.mean()), "staleness/tau_max_T": away.max()}


def test_the_sum_of_2_tau_plus_1_is_that_of_the_squared_runs():
    # An answer used L rounds long has tau = 0 … L-1 in them: Σ (2 tau + 1) = L². First rounds all there: no odd start.
    mask = bernoulli(0.3).masks(500, 5, seed=2)
    mask[0] = True
    total = tau(mask).sum(0)
    for i in range(5):
        uses = np.diff([*np.flatnonzero(mask[:, i]), 500])
        assert (uses**2).sum() == 2 * total[i] + 500


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (np.ones(3), r"shape \[3\]"),
        (np.ones((0, 3)), r"shape \[0, 3\]"),
        (np.ones((3, 0)), r"shape \[3, 0\]"),
        ([[0, 2]], "only 0 and 1"),
        ([[0, float("nan")]], "only 0 and 1"),
    ],
)
def test_bad_masks(bad, said):
    with pytest.raises(ConfigError, match=said):
        tau(bad)
