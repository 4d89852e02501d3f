"""What T·E‖w_T - w*‖² tends to, exactly, where everything can be worked out.

The setting: N devices with F_i(w) = ½‖w - u_i‖², one noisy gradient a round (E‖noise‖² = σ²), η_t = 1/(t+1), everybody
there in round 0. Then w_T is the plain mean of what the server used in each round, and its variance is counted below.
K local steps with η_t = 1/(K(t+1)) have σ²/K in the place of σ². D_i = ‖∇F_i(w*)‖².

None of this is a theorem of the MIFA paper: its bound is (tau_bar + 1)σ²/(NKT) up to a constant, and these are the
constants of the simplest case.
"""

import numpy as np

from impatient.checks import check, number
from impatient.theory.processes import probabilities
from impatient.theory.staleness import Staleness
from impatient.theory.waiting import cohort_wait


def mifa_limit(p: object, noise: float) -> float:
    """(1/N²) Σ_i σ²(2-p_i)/p_i = (σ²/N)(2 tau_bar + 1) for coins p [N] and σ² = noise.

    Every stored noise is used L ~ Geom(p_i) times, one after the other; their sum over T rounds has the variance
    σ² T E[L²]/E[L] (renewal reward), and E[L²]/E[L] = (2-p)/p. Between 1 and 2 times (σ²/N)(tau_bar + 1).
    """
    values = _checked(p, noise)
    return float((noise * (2 - values) / values).mean() / len(values))


def mifa_limit_of(seen: Staleness, noise: float) -> float:
    """(σ²/N)(2 tau_bar_T + 1), for any mask at all.

    A device's answer that is used L rounds long has tau = 0 … L-1 in them, and Σ (2 tau + 1) = L²: so the sum of L²
    over its answers is Σ_t (2 tau(t, i) + 1) whatever the process.
    """
    check(number("noise", noise, 0))
    return noise * (2 * seen.tau_bar + 1) / len(seen.now)


def is_limit(p: object, noise: float, gap: object) -> float:
    """Importance sampling: (1/N²) Σ_i [σ² + (1-p_i)D_i]/p_i, gap = D [N] or one number: rounds are independent."""
    values, gaps = _checked(p, noise), _gap(gap)
    return float(((noise + (1 - values) * gaps) / values).mean() / len(values))


def sampling_limit(p: object, noise: float, gap: object, cohort_size: int) -> float:
    """Device sampling: E[W_S]·[σ²/S + (1 - S/N)·N/(N-1)·mean(D)/S], in rounds, not updates.

    One update in E[W_S] rounds, each the mean of S of N devices drawn without replacement.
    """
    values, n = _checked(p, noise), len(probabilities(p))
    wait = cohort_wait(values, cohort_size)
    spread = float(np.broadcast_to(_gap(gap), n).mean()) * (n - cohort_size) / max(n - 1, 1)
    return wait * (noise + spread) / cohort_size


def full_limit(num_clients: int, noise: float) -> float:
    """Everybody there in every round: σ²/N, below which no rule gets with one gradient a device and round."""
    return noise / num_clients


def memory_wins(p: object, noise: float, gap: object) -> bool:
    """Whether MIFA's limit is below importance sampling's: Σ_i (1-p_i)/p_i·(D_i - σ²) > 0."""
    values = _checked(p, noise)
    return bool(((1 - values) / values * (_gap(gap) - noise)).sum() > 0)


def biased_weights(p: object) -> np.ndarray:
    """What FedAvg over the active devices minimises in the limit: Σ_i q_i F_i, q [N], summing to 1.

    q_i = E[1{i ∈ A}/|A| | A ≠ ∅] ∝ p_i E[1/(1 + B_i)], B_i the number of the others that are there, and
    E[1/(1+B)] = ∫_0^1 E[s^B] ds = ∫ Π_{j≠i}(1 - p_j + p_j s) ds, a polynomial: Gauss-Legendre is exact.
    """
    values = probabilities(p)
    nodes, weight = np.polynomial.legendre.leggauss(len(values) // 2 + 1)
    factor = 1 - values + values * (nodes[:, None] + 1) / 2
    others = np.stack([np.delete(factor, i, 1).prod(1) for i in range(len(values))], 1)
    q = values * (weight / 2 @ others)
    return q / q.sum()


def mifa_leading(p: object, noise: float) -> float:
    """The leading term of the paper's theorem 5.1 without its constant: (tau_bar + 1)σ²/N = mean(1/p_i)·σ²/N."""
    values = _checked(p, noise)
    return float(noise * (1 / values).mean() / len(values))


def sampling_leading(p: object, noise: float, cohort_size: int) -> float:
    """The like of it for device sampling (derived): E[W_S]·σ²/S, without the variance of the draw."""
    return cohort_wait(p, cohort_size) * noise / cohort_size


def rounds_to(eps: float, limit: float) -> float:
    """The T at which limit/T = eps."""
    check(number("eps", eps, 0, open_low=True))
    return limit / eps


def _checked(p: object, noise: float) -> np.ndarray:
    check(number("noise", noise, 0))
    return probabilities(p)


def _gap(gap: object) -> np.ndarray:
    values = np.asarray(gap, dtype=np.float64)
    check(*(number("gap", float(value), 0) for value in values.reshape(-1)))
    return values
