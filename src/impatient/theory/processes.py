"""Three availability processes whose staleness is known in closed form, and masks drawn from them.

Each knows, of tau in the stationary state: pmf(k) = P(tau = k), mean = E tau, second = E tau², and masks(T, N, seed).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from impatient.checks import ConfigError, check, integer, number
from impatient.rng import stream


def probabilities(p: object) -> np.ndarray:
    """float64 [N] with every p_i in (0, 1]. Raises ConfigError naming the first that is not."""
    values = np.atleast_1d(np.asarray(p, dtype=np.float64))
    if values.ndim != 1 or not len(values):
        raise ConfigError(f"p: has shape {list(values.shape)}; give one probability a device")
    bad = np.flatnonzero(~((values > 0) & (values <= 1)))
    if len(bad):
        raise ConfigError(
            f"p[{bad[0]}]={values[bad[0]]:g}: must be in (0, 1]; a device that never comes has no finite tau"
        )
    return values


class Process(Protocol):
    """What the three have in common."""

    @property
    def mean(self) -> float:
        """E tau."""

    @property
    def second(self) -> float:
        """E tau²."""

    def pmf(self, k: np.ndarray) -> np.ndarray:
        """P(tau = k)."""

    def masks(self, rounds: int, num_clients: int, seed: int) -> np.ndarray:
        """bool [T, N]."""


@dataclass(frozen=True)
class Bernoulli:
    """Independent coins: P(tau = k) = p(1-p)^k,  E tau = (1-p)/p,  E tau² = (1-p)(2-p)/p²."""

    p: float

    def __post_init__(self) -> None:
        """Raise ConfigError for p outside (0, 1]."""
        check(number("p", self.p, 0, 1, open_low=True))

    def pmf(self, k: np.ndarray) -> np.ndarray:
        """P(tau = k)."""
        return self.p * (1 - self.p) ** k

    @property
    def mean(self) -> float:
        """E tau."""
        return (1 - self.p) / self.p

    @property
    def second(self) -> float:
        """E tau²."""
        return (1 - self.p) * (2 - self.p) / self.p**2

    def masks(self, rounds: int, num_clients: int, seed: int) -> np.ndarray:
        """bool [T, N]."""
        return coins(np.full(num_clients, self.p), rounds, seed)


@dataclass(frozen=True)
class Markov:
    """On with stationary probability pi, correlation lam from round to round.

    off→on a = (1-lam)pi, on→off (1-lam)(1-pi);

    P(tau = 0) = pi,  P(tau = k) = (1-pi)a(1-a)^(k-1),  E tau = (1-pi)/a,  E tau² = (1-pi)(2-a)/a²:
    correlation multiplies E tau by 1/(1-lam); lam = 0 is Bernoulli(pi).
    """

    pi: float
    lam: float

    def __post_init__(self) -> None:
        """Raise ConfigError where a transition probability would leave [0, 1]."""
        check(number("pi", self.pi, 0, 1, open_low=True), number("lam", self.lam, -1, 1))
        if self.lam == 1 or self.a > 1 or (1 - self.lam) * (1 - self.pi) > 1:
            raise ConfigError(f"lam={self.lam:g} with pi={self.pi:g}: no such chain; take lam in [0, 1)")

    @property
    def a(self) -> float:
        """P(off → on)."""
        return (1 - self.lam) * self.pi

    def pmf(self, k: np.ndarray) -> np.ndarray:
        """P(tau = k)."""
        k = np.asarray(k)
        return np.where(k == 0, self.pi, (1 - self.pi) * self.a * (1 - self.a) ** np.maximum(k - 1, 0))

    @property
    def mean(self) -> float:
        """E tau."""
        return (1 - self.pi) / self.a

    @property
    def second(self) -> float:
        """E tau²."""
        return (1 - self.pi) * (2 - self.a) / self.a**2

    def masks(self, rounds: int, num_clients: int, seed: int) -> np.ndarray:
        """bool [T, N], from the stationary state."""
        coin = stream(seed, "theory/markov").random((rounds, num_clients))
        mask = np.empty((rounds, num_clients), dtype=bool)
        mask[0] = coin[0] < self.pi
        stay = self.pi + (1 - self.pi) * self.lam  # P(on → on)
        for t in range(1, rounds):
            mask[t] = coin[t] < np.where(mask[t - 1], stay, self.a)
        return mask


@dataclass(frozen=True)
class Cyclic:
    """u = on rounds there, m = off rounds away, for ever.

    E tau = m(m+1)/(2(u+m)),  E tau² = m(m+1)(2m+1)/(6(u+m)),  tau ≤ m.
    """

    on: int
    off: int

    def __post_init__(self) -> None:
        """Raise ConfigError for numbers that make no cycle."""
        check(integer("on", self.on, 1), integer("off", self.off, 0))

    def pmf(self, k: np.ndarray) -> np.ndarray:
        """P(tau = k)."""
        k = np.asarray(k)
        return np.where(k == 0, self.on, np.where(k <= self.off, 1, 0)) / (self.on + self.off)

    @property
    def mean(self) -> float:
        """E tau."""
        return self.off * (self.off + 1) / (2 * (self.on + self.off))

    @property
    def second(self) -> float:
        """E tau²."""
        return self.off * (self.off + 1) * (2 * self.off + 1) / (6 * (self.on + self.off))

    def masks(self, rounds: int, num_clients: int, seed: int) -> np.ndarray:
        """bool [T, N], each device at a random place of its cycle."""
        period = self.on + self.off
        phase = stream(seed, "theory/cyclic").integers(period, size=num_clients)
        return (np.arange(rounds)[:, None] + phase) % period < self.on


def coins(p: object, rounds: int, seed: int) -> np.ndarray:
    """Bernoulli masks bool [T, N] with chances p [N]."""
    values = probabilities(p)
    check(integer("rounds", rounds, 1))
    return stream(seed, "theory/coins").random((rounds, len(values))) < values


def bernoulli_tau_bar(p: object, rounds: int) -> float:
    """E tau_bar_T of T rounds of coins after tau(-1, i) = 0, for p [N]:

    E tau(t) = (1-p)/p·(1 - q^(t+1)), q = 1-p, so  E tau_bar_T = mean_i q_i/p_i·[1 - q_i(1 - q_i^T)/(p_i T)].
    """
    values = probabilities(p)
    q = 1 - values
    return float((q / values * (1 - q * (1 - q**rounds) / (values * rounds))).mean())


def tau_max_root(p: object, rounds: int) -> float:
    """Where tau_max,T of coins concentrates: the m with Σ_i T p_i (1-p_i)^m = 1 (0 if the sum is below 1 already).

    About ln(N T p)/(-ln(1-p_min)).
    """
    values = probabilities(p)
    values = values[values < 1]

    def expected(m: float) -> float:
        """Expected number of absences that reach m, less one."""
        return float((rounds * values * (1 - values) ** m).sum()) - 1

    if not len(values) or expected(0) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while expected(high) > 0:
        high *= 2
    for _ in range(60):  # it falls with m: halve
        mid = (low + high) / 2
        low, high = (mid, high) if expected(mid) > 0 else (low, mid)
    return high


def tau_max_mean(p: object, rounds: int) -> float:
    """E tau_max,T of coins, taking long absences as Poisson: Σ_{m≥1} [1 - exp(-Λ(m))].

    Λ(m) = Σ_i q_i^m (1 + (T-m) p_i) counts the absences that reach m: those from the start on, and those that follow a
    round in which the device was there.
    """
    values = probabilities(p)
    top = min(rounds, int(4 * tau_max_root(values, rounds)) + 50)
    m = np.arange(1, top + 1)[:, None]
    reach = ((1 - values) ** m * (1 + (rounds - m) * values)).sum(1)
    return float((1 - np.exp(-reach)).sum())


def bounded_coins(p: object, nu: int, rounds: int, seed: int) -> np.ndarray:
    """Coins, but a device whose tau has reached nu comes for certain: bool [T, N], tau ≤ nu (assumption 8)."""
    check(integer("nu", nu, 0))
    mask = coins(p, rounds, seed)
    away = np.zeros(mask.shape[1], dtype=np.int64)
    for row in mask:
        row |= away >= nu
        away = np.where(row, 0, away + 1)
    return mask
