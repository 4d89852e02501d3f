"""What T·E‖w_T - w*‖² tends to, exactly, where everything can be worked out, and what biased FedAvg minimises.

The setting: N devices with F_i(w) = ½‖w - u_i‖², one noisy gradient a round (noise: σ² = E‖noise‖²), η_t = 1/(t+1),
everybody there in round 0. Then w_T is the plain mean of what the server used in each round, and its variance is
counted below. K local steps with η_t = 1/(K(t+1)) have σ²/K in the place of σ². gap: D_i = ‖∇F_i(w*)‖², [N].

None of this is a theorem of the MIFA paper: its bound is (tau_bar + 1)σ²/(NKT) up to a constant, and these are the
constants of the simplest case.
"""

import numpy as np

from impatient.theory.processes import probabilities
from impatient.theory.waiting import expected_waits


def mifa_limit(tau_bar: float, num_clients: int, noise: float) -> float:
    """(σ²/N)(2 tau_bar + 1), for any mask at all; σ²/N where everybody is always there, the least that can be.

    An answer that is used L rounds long has tau = 0 … L-1 in them, and Σ (2 tau + 1) = L²; the noise in it is used L
    times, so the sum over T rounds has the variance σ² Σ L² a device. Coins: (σ²/N) mean_i (2-p_i)/p_i.
    """
    return noise * (2 * tau_bar + 1) / num_clients


def mifa_leading(tau_bar: float, num_clients: int, noise: float) -> float:
    """The leading term of the paper's theorem 5.1 without its constant, (tau_bar + 1)σ²/N: ½ to 1 of `mifa_limit`."""
    return noise * (tau_bar + 1) / num_clients


def is_limit(p: object, noise: float, gap: np.ndarray) -> float:
    """Importance sampling: (1/N²) Σ_i [σ² + (1-p_i)D_i]/p_i: rounds are independent.

    MIFA's is lower, memory wins, where Σ_i (1-p_i)/p_i·(D_i - σ²) > 0.
    """
    values = probabilities(p)
    return float(((noise + (1 - values) * gap) / values).mean() / len(values))


def sampling_limit(p: object, noise: float, gap: np.ndarray, cohort_size: int) -> float:
    """Device sampling: E[W_S]·[σ²/S + (1 - S/N)·N/(N-1)·mean(D)/S], in rounds, not updates.

    One update in E[W_S] rounds, each the mean of S of N devices drawn without replacement.
    """
    n = len(probabilities(p))
    spread = float(np.mean(gap)) * (n - cohort_size) / max(n - 1, 1)
    return sampling_leading(p, noise + spread, cohort_size)


def sampling_leading(p: object, noise: float, cohort_size: int) -> float:
    """The leading term for device sampling (derived): E[W_S]·σ²/S, without the variance of the draw."""
    return float(expected_waits(p)[cohort_size - 1]) * noise / cohort_size


def biased_weights(p: object) -> np.ndarray:
    """What FedAvg over the active devices minimises in the limit: Σ_i q_i F_i, q [N], summing to 1.

    q_i = E[1{i ∈ A}/|A| | A ≠ ∅] ∝ p_i E[1/(1 + B_i)], B_i the number of the others that are there, and
    E[1/(1+B)] = ∫_0^1 E[s^B] ds = ∫ Π_{j≠i}(1 - p_j + p_j s) ds, a polynomial: Gauss-Legendre is exact.
    """
    from scipy.integrate import fixed_quad

    values = probabilities(p)[:, None]

    def others(s: np.ndarray) -> np.ndarray:
        factor = 1 - values + values * s
        return np.stack([np.delete(factor, i, 0).prod(0) for i in range(len(values))])

    q = values[:, 0] * fixed_quad(others, 0, 1, n=len(values) // 2 + 1)[0]
    return q / q.sum()
