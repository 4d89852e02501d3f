"""How long FedAvg with device sampling waits: W_S = max over the cohort of Geom(p_i), in rounds, at least 1."""

import math

import numpy as np

from impatient.checks import ConfigError, check, integer
from impatient.rng import stream
from impatient.theory.processes import probabilities

MISSED = 1e-13  # what the truncated sums over rounds may leave out, in rounds
BLOCK = 1 << 22  # numbers at hand at once


def _horizon(p: np.ndarray) -> int:
    """The K from which on Σ_{k≥K} Σ_i q_i^k ≤ N q^K/p_min is negligible."""
    low = float(p.min())
    return 1 if low == 1 else max(1, math.ceil(math.log(MISSED * low / len(p)) / math.log1p(-low)))


def expected_wait(p: object) -> float:
    """E[W] for the cohort with chances p [S]:  Σ_{k≥0} [1 - Π_i (1 - q_i^k)], q_i = 1 - p_i.  O(S/p_min)."""
    values = probabilities(p)
    total, step = 0.0, max(1, BLOCK // len(values))
    for start in range(0, horizon := _horizon(values), step):
        k = np.arange(start, min(start + step, horizon))[:, None]
        total += float((1 - (1 - (1 - values) ** k).prod(1)).sum())
    return total


def expected_waits(p: object) -> np.ndarray:
    """E[W_S] averaged over all S-subsets of the N devices, for every S = 1 … N at once: float64 [N].

    E[W_S] = Σ_{k≥0} [1 - e_S(x)/C(N, S)], x_i = 1 - q_i^k, e_S the elementary symmetric polynomial. The ratio
    m_S = e_S/C(N, S) is the mean of Π x_i over S-subsets and follows, device by device,

        m_S(n) = (1 - S/n)·m_S(n-1) + (S/n)·x_n·m_{S-1}(n-1),

    a mean of numbers in [0, 1]: nothing overflows or cancels. O(N²/p_min).
    """
    values = probabilities(p)
    n = len(values)
    total, step = np.zeros(n), max(1, BLOCK // (n + 1))
    for start in range(0, horizon := _horizon(values), step):
        x = 1 - (1 - values) ** np.arange(start, min(start + step, horizon))[:, None]
        mean = np.zeros((len(x), n + 1))
        mean[:, 0] = 1
        for i in range(1, n + 1):
            share = np.arange(1, i + 1) / i
            mean[:, 1 : i + 1] = (1 - share) * mean[:, 1 : i + 1] + share * x[:, i - 1, None] * mean[:, :i]
        total += (1 - mean[:, 1:]).sum(0)
    return total


def cohort_wait(p: object, cohort_size: int) -> float:
    """E[W_S] averaged over all S-subsets. Raises ConfigError unless 1 ≤ S ≤ N."""
    values = probabilities(p)
    _check_size(cohort_size, len(values))
    return float(expected_waits(values)[cohort_size - 1])


def bounds(p: object) -> tuple[float, float]:
    """max_i 1/p_i ≤ E[W] ≤ Σ_i 1/p_i for a given cohort."""
    values = probabilities(p)
    return float((1 / values).max()), float((1 / values).sum())


def equal_bounds(p: float, size: int) -> tuple[float, float]:
    """H_S/(-ln(1-p)) ≤ E[W] ≤ 1 + H_S/(-ln(1-p)) for S devices with the same p, H_S = 1 + 1/2 + … + 1/S."""
    values = probabilities(p)
    check(integer("cohort_size", size, 1))
    if values[0] == 1:
        return 0.0, 1.0
    low = float((1 / np.arange(1, size + 1)).sum() / -np.log1p(-values[0]))
    return low, 1 + low


def simulate(p: object, cohort_size: int, repeats: int, seed: int) -> np.ndarray:
    """W of freshly drawn cohorts, int64 [repeats]."""
    values = probabilities(p)
    _check_size(cohort_size, len(values))
    check(integer("repeats", repeats, 1))
    rng = stream(seed, "theory/waiting", cohort_size)
    cohorts = rng.random((repeats, len(values))).argsort(1)[:, :cohort_size]
    return rng.geometric(values[cohorts]).max(1)


def _check_size(cohort_size: int, num_clients: int) -> None:
    check(integer("cohort_size", cohort_size, 1))
    if cohort_size > num_clients:
        raise ConfigError(f"cohort_size={cohort_size}: more than there are, N={num_clients}; sample fewer")
