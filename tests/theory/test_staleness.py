"""Statistics of masks: by hand, streaming against at once, and against what a run itself counts."""

import numpy as np
import pytest
import torch

from impatient.checks import ConfigError
from impatient.participation import Participation
from impatient.theory.processes import Bernoulli
from impatient.theory.staleness import feed, fresh, staleness, tau

# Device 0 is away in rounds 1, 2 and 4; device 1 comes in round 2 only.
BY_HAND = [[1, 0], [0, 0], [0, 1], [1, 0], [0, 0]]
TAU = [[0, 1], [1, 2], [2, 0], [0, 1], [1, 2]]


def test_by_hand():
    assert tau(BY_HAND).tolist() == TAU
    seen = staleness(BY_HAND)
    assert seen.tau_bar == (1 + 3 + 2 + 1 + 3) / 10
    assert seen.second_moment == ((1 + 4 + 1) + (1 + 4 + 1 + 4)) / 10
    assert (seen.tau_max, seen.nu_bar, seen.nu.tolist(), seen.now.tolist()) == (2, 2.0, [2, 2], [1, 2])


@pytest.mark.parametrize("p", [0.05, 0.5, 1.0])
def test_row_by_row_is_all_at_once(p):
    mask = Bernoulli(p).masks(200, 7, seed=3)
    so_far = fresh(7)
    for t, row in enumerate(mask):
        so_far = feed(so_far, row)
        whole = staleness(mask[: t + 1])
        for name in ("now", "nu", "total", "squares", "rounds"):
            np.testing.assert_array_equal(getattr(so_far, name), getattr(whole, name))


def test_a_run_counts_the_same():
    mask = torch.from_numpy(Bernoulli(0.2).masks(100, 6, seed=1))
    run = Participation(6)
    for row in mask:
        run.record(row, row.nonzero().flatten(), True)
    seen = staleness(mask)
    assert run.summary() == {"staleness/tau_bar": pytest.approx(seen.tau_bar), "staleness/tau_max_T": seen.tau_max}


def test_the_sum_of_2_tau_plus_1_is_that_of_the_squared_runs():
    # An answer used L rounds long has tau = 0 … L-1 in them: Σ (2 tau + 1) = L². First rounds all there: no odd start.
    mask = Bernoulli(0.3).masks(500, 5, seed=2)
    mask[0] = True
    seen = staleness(mask)
    for i in range(5):
        uses = np.diff([*np.flatnonzero(mask[:, i]), 500])
        assert (uses**2).sum() == 2 * seen.total[i] + 500


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


def test_bad_rows():
    with pytest.raises(ConfigError, match="2 devices after rows of 3"):
        feed(fresh(3), [True, False])
    with pytest.raises(ConfigError, match="num_clients=0"):
        fresh(0)
