"""Many runs on quadratics at once: R repeats of the same rule, each with its own masks and noise, in numpy.

The fast twin of `simulate.play` on `Quadratics`; tests/theory/test_simulate.py holds each rule to the product's own.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from impatient.checks import ConfigError, check, integer, one_of
from impatient.rng import stream
from impatient.theory.processes import probabilities
from impatient.theory.simulate import Quadratics

RULES = ("mifa", "fedavg_biased", "fedavg_is", "fedavg_sampling")
Rates = Callable[[np.ndarray], np.ndarray]
"""Step sizes of updates counted from 0, elementwise: int [R] → float [R]."""


def play(
    rule: str,
    clients: Quadratics,
    masks: Iterable[np.ndarray],
    rate: Rates,
    repeats: int,
    steps: int = 1,
    prob: np.ndarray | None = None,
    cohort_size: int | None = None,
    seed: int = 0,
) -> Iterator[np.ndarray]:
    """The models [R, P] after each round, from 0; masks are bool [R, N].

    mifa             with init=wait_all
    fedavg_biased, fedavg_is (told prob [N])
    fedavg_sampling  with cohorts of cohort_size, repeat r's drawn with seed + r

    Raises ConfigError for a rule that there is none of, or one that is not told what it must know.
    """
    n, dim = clients.u.shape
    check(one_of("rule", rule, RULES), integer("repeats", repeats, 1), integer("steps", steps, 1))
    chance = probabilities([] if prob is None else prob) if rule == "fedavg_is" else np.ones(n)
    if rule == "fedavg_sampling":
        check(integer("cohort_size", cohort_size, 1, n))
    w, update = np.zeros((repeats, dim)), np.zeros(repeats, dtype=np.int64)
    memory = np.zeros((repeats, n, dim)) if rule in ("mifa", "fedavg_sampling") else np.empty(0)
    answered = np.zeros((repeats, n), dtype=bool)
    cohort = answered
    if cohort_size is not None:
        cohort = _cohorts(seed, update, np.arange(repeats), n, cohort_size)
    for round, there in enumerate(masks):
        if there.shape != (repeats, n):
            raise ConfigError(f"masks: one of shape {list(there.shape)}; give [R, N] = [{repeats}, {n}] in every round")
        lr = np.broadcast_to(rate(update), repeats)[:, None]
        delta = _local(clients, w, lr, clients.draws(round, repeats, steps))
        if rule == "mifa":
            waiting = ~answered.all(1, keepdims=True)
            asked = there & ~(answered & waiting)
            memory[asked] = (delta / lr[..., None])[asked]
            answered |= there
            moves = answered.all(1)
            direction = lr * memory.mean(1)
        elif rule == "fedavg_sampling":
            asked = cohort & there & ~answered
            memory[asked] = delta[asked]
            answered |= asked
            moves = (answered == cohort).all(1)
            direction = np.where(answered[..., None], memory, 0).sum(1) / cohort.sum(1)[:, None]
            answered[moves] = False
        else:
            asked, moves = there, there.any(1)
            if rule == "fedavg_is":
                direction = np.einsum("rn,rnp->rp", asked / chance, delta) / n
            else:
                direction = np.einsum("rn,rnp->rp", asked.astype(float), delta) / np.maximum(asked.sum(1), 1)[:, None]
        w[moves] -= direction[moves]
        update[moves] += 1
        if rule == "fedavg_sampling" and cohort_size is not None and moves.any():
            cohort[moves] = _cohorts(seed, update[moves], np.flatnonzero(moves), n, cohort_size)
        yield w.copy()


def _local(clients: Quadratics, w: np.ndarray, lr: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """U = w - w^K [R, N, P] after the K local steps whose noise is [R, N, K, P]."""
    lr = lr[..., None]
    if noise.shape[2] == 1:
        return lr * (clients.h * (w[:, None] - clients.u) + noise[:, :, 0])
    own = np.broadcast_to(w[:, None], noise[:, :, 0].shape)
    for k in range(noise.shape[2]):
        own = own - lr * (clients.h * (own - clients.u) + noise[:, :, k])
    return w[:, None] - own


def _cohorts(seed: int, update: np.ndarray, repeat: np.ndarray, n: int, size: int) -> np.ndarray:
    """bool [R, N]: those drawn, as the product's rule draws them with seed + r."""
    cohort = np.zeros((len(repeat), n), dtype=bool)
    for row, r, k in zip(cohort, repeat, update, strict=True):
        row[stream(seed + int(r), "cohort", int(k)).choice(n, size, replace=False)] = True
    return cohort


def coin_masks(p: np.ndarray, rounds: int, repeats: int, seed: int, fresh: bool = False) -> Iterator[np.ndarray]:
    """Bernoulli masks bool [R, N], round by round; with fresh, everybody is there in round 0."""
    values = probabilities(p)
    for round in range(rounds):
        coin = stream(seed, "theory/masks", round).random((repeats, len(values)))
        yield np.ones_like(coin, dtype=bool) if fresh and round == 0 else coin < values


def same_masks(mask: np.ndarray, repeats: int) -> Iterator[np.ndarray]:
    """One mask [T, N] for all repeats."""
    for row in mask:
        yield np.broadcast_to(row, (repeats, len(row)))


def checkpoints(rounds: int, count: int = 60, first: int = 1) -> np.ndarray:
    """About `count` numbers of rounds from `first` to T, evenly spread in the logarithm: int64, increasing."""
    return np.unique(np.geomspace(first, rounds, count).round().astype(np.int64))


def squared_errors(models: Iterable[np.ndarray], target: np.ndarray, at: np.ndarray) -> np.ndarray:
    """‖w_T - target‖² of every repeat after the numbers of rounds `at` [C]: [C, R]."""
    wanted, found = set(at.tolist()), []
    for done, w in enumerate(models, 1):
        if done in wanted:
            found.append(np.square(w - target).sum(1))
    return np.stack(found)
