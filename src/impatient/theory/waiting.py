"""How long FedAvg with device sampling waits: W_S = max over the cohort of Geom(p_i), in rounds, at least 1."""

import math

import numpy as np

from impatient.rng import stream
from impatient.theory.processes import probabilities

MISSED = 1e-13  # what the truncated sum over rounds may leave out, in rounds
BLOCK = 1 << 22  # numbers at hand at once


def expected_waits(p: object) -> np.ndarray:
    """E[W_S] averaged over all S-subsets of the N devices, for every S = 1 … N at once: float64 [N].

    E[W_S] = Σ_{k≥0} [1 - e_S(x)/C(N, S)], x_i = 1 - q_i^k, e_S the elementary symmetric polynomial. The ratio
    m_S = e_S/C(N, S) is the mean of Π x_i over S-subsets and follows, device by device,

        m_S(n) = (1 - S/n)·m_S(n-1) + (S/n)·x_n·m_{S-1}(n-1),

    a mean of numbers in [0, 1]: nothing overflows or cancels. Σ_{k≥K} Σ_i q_i^k ≤ N q^K/p_min says where to stop.
    O(N²/p_min).
    """
    values = probabilities(p)
    n, low = len(values), float(values.min())
    stop = 1 if low == 1 else max(1, math.ceil(math.log(MISSED * low / n) / math.log1p(-low)))
    total = np.zeros(n)
    for k in np.array_split(np.arange(stop), math.ceil(stop * (n + 1) / BLOCK)):
        x = 1 - (1 - values) ** k[:, None]
        mean = np.zeros((len(x), n + 1))
        mean[:, 0] = 1
        for i in range(1, n + 1):
            share = np.arange(1, i + 1) / i
            mean[:, 1 : i + 1] = (1 - share) * mean[:, 1 : i + 1] + share * x[:, i - 1, None] * mean[:, :i]
        total += (1 - mean[:, 1:]).sum(0)
    return total


def simulated_waits(p: object, cohort_size: int, repeats: int, seed: int) -> np.ndarray:
    """W_S of freshly drawn cohorts, int64 [repeats]."""
    values = probabilities(p)
    rng = stream(seed, "theory/waiting", cohort_size)
    cohorts = rng.random((repeats, len(values))).argsort(1)[:, :cohort_size]
    return rng.geometric(values[cohorts]).max(1)
