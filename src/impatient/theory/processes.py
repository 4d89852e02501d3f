"""Availability processes whose staleness is known in closed form, and masks drawn from them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from impatient.checks import ConfigError
from impatient.rng import stream


def probabilities(p: object) -> np.ndarray:
    """float64 [N], every p_i in (0, 1]: a device that never comes has no finite tau. Raises ConfigError otherwise."""
    values = np.atleast_1d(np.asarray(p, dtype=np.float64))
    if values.ndim != 1 or not len(values) or not ((values > 0) & (values <= 1)).all():
        raise ConfigError(f"p={p}: must be one probability a device, each in (0, 1]")
    return values


@dataclass(frozen=True)
class Process:
    """A device is there with probability pi, and away with a tau of the law `away`, a frozen scipy law on 1, 2, …:

    P(tau = 0) = pi,  P(tau = k) = (1 - pi) P(away = k);  mean = E tau, second = E tau²;  masks(T, N, seed) draws
    bool [T, N].
    """

    pi: float
    away: Any
    mean: float
    second: float
    masks: Callable[[int, int, int], np.ndarray]

    def pmf(self, k: np.ndarray) -> np.ndarray:
        """P(tau = k)."""
        return np.where(k == 0, self.pi, (1 - self.pi) * self.away.pmf(k))


def bernoulli(p: float) -> Process:
    """Independent coins: P(tau = k) = p(1-p)^k,  E tau = (1-p)/p,  E tau² = (1-p)(2-p)/p²."""
    from scipy.stats import geom

    def masks(rounds: int, n: int, seed: int) -> np.ndarray:
        return coins(np.full(n, p), rounds, seed)

    return Process(p, geom(p), (1 - p) / p, (1 - p) * (2 - p) / p**2, masks)


def markov(pi: float, lam: float) -> Process:
    """On with stationary probability pi, correlation lam from round to round: off→on a = (1-lam)pi, on→off
    (1-lam)(1-pi); away is geometric with a.

    E tau = (1-pi)/a,  E tau² = (1-pi)(2-a)/a²: correlation multiplies E tau by 1/(1-lam); lam = 0 is bernoulli(pi).
    Raises ConfigError where a transition probability would leave [0, 1], or nobody would ever come.
    """
    from scipy.stats import geom

    a, stay = (1 - lam) * pi, pi + (1 - pi) * lam  # off → on, on → on
    if not (0 < a <= 1 and 0 <= stay <= 1):
        raise ConfigError(f"lam={lam:g} with pi={pi:g}: no such chain; take lam in [0, 1)")

    def masks(rounds: int, n: int, seed: int) -> np.ndarray:
        coin = stream(seed, "theory/markov").random((rounds, n))
        mask = coin < pi
        for t in range(1, rounds):
            mask[t] = coin[t] < np.where(mask[t - 1], stay, a)
        return mask

    return Process(pi, geom(a), (1 - pi) / a, (1 - pi) * (2 - a) / a**2, masks)


def cyclic(on: int, off: int) -> Process:
    """`on` rounds there, m = off rounds away, for ever, each device from a random place on; away is uniform on 1 … m.

    E tau = m(m+1)/(2(on+m)),  E tau² = m(m+1)(2m+1)/(6(on+m)),  tau ≤ m.
    """
    from scipy.stats import randint

    def masks(rounds: int, n: int, seed: int) -> np.ndarray:
        phase = stream(seed, "theory/cyclic").integers(period, size=n)
        return (np.arange(rounds)[:, None] + phase) % period < on

    period, total = on + off, off * (off + 1)
    mean, second = total / (2 * period), total * (2 * off + 1) / (6 * period)
    return Process(on / period, randint(1, max(off, 1) + 1), mean, second, masks)


def coins(p: object, rounds: int, seed: int) -> np.ndarray:
    """Bernoulli masks bool [T, N] with chances p [N]."""
    values = probabilities(p)
    return stream(seed, "theory/coins").random((rounds, len(values))) < values


def bounded_coins(p: object, nu: int, rounds: int, seed: int) -> np.ndarray:
    """Coins, but a device whose tau has reached nu comes for certain: bool [T, N], tau ≤ nu (assumption 8)."""
    mask = coins(p, rounds, seed)
    away = np.zeros(mask.shape[1], dtype=np.int64)
    for row in mask:
        row |= away >= nu
        away = np.where(row, 0, away + 1)
    return mask


def tau_bar(p: object, rounds: float = math.inf) -> float:
    """E tau_bar_T of T rounds of coins after tau(-1, i) = 0, for p [N]; by default its limit, mean_i (1-p_i)/p_i.

    E tau(t) = (1-p)/p·(1 - q^(t+1)), q = 1-p, so  E tau_bar_T = mean_i q_i/p_i·[1 - q_i(1 - q_i^T)/(p_i T)].
    """
    values = probabilities(p)
    q = 1 - values
    return float((q / values * (1 - q * (1 - q**rounds) / (values * rounds))).mean())


def tau_max_root(p: object, rounds: int) -> float:
    """Where tau_max,T of coins concentrates: the m with Σ_i T p_i (1-p_i)^m = 1 (0 if the sum is below 1 already).

    At most ln(T Σ p_i)/(-ln(1-p_min)), and just there for equal p_i.
    """
    from scipy.optimize import brentq

    values = probabilities(p)
    values = values[values < 1]
    expected = rounds * values.sum()
    if expected <= 1:
        return 0.0
    high = np.log(expected) / -np.log1p(-values.min())
    return float(brentq(lambda m: (rounds * values * (1 - values) ** m).sum() - 1, 0, 1 + high))


def tau_max_mean(p: object, rounds: int) -> float:
    """E tau_max,T of coins, taking long absences as Poisson: Σ_{m≥1} [1 - exp(-Λ(m))].

    Λ(m) = Σ_i q_i^m (1 + (T-m) p_i) counts the absences that reach m: those from the start on, and those that follow a
    round in which the device was there.
    """
    values = probabilities(p)
    m = np.arange(1, rounds + 1)[:, None]
    reach = ((1 - values) ** m * (1 + (rounds - m) * values)).sum(1)
    return float(-np.expm1(-reach).sum())
