"""Many runs on quadratics at once: R repeats of the same rule, each with its own masks and noise, in numpy.

The fast twin of `simulate.play` on `Quadratics`; tests/theory/test_simulate.py holds each rule to the product's own.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from impatient.rng import stream
from impatient.theory.processes import probabilities
from impatient.theory.quadratics import Quadratics

Rate = Callable[[Any], Any]
"""The step size of an update counted from 0, elementwise: int [R] → float [R]."""


def inverse(update: Any) -> Any:
    """η = 1/(t + 1)."""
    return 1 / (update + 1)


def play(
    rule: str,
    clients: Quadratics,
    masks: Iterable[np.ndarray],
    repeats: int,
    rate: Rate = inverse,
    steps: int = 1,
    prob: np.ndarray | None = None,
    cohort_size: int = 0,
    seed: int = 0,
) -> Iterator[np.ndarray]:
    """The models [R, P] after each round, from 0; masks are bool [R, N].

    mifa             with init=wait_all
    fedavg_biased
    fedavg_is        which knows prob [N]
    fedavg_sampling  with cohorts of cohort_size, repeat r's drawn with seed + r
    """
    n, dim = clients.u.shape
    w, update, every = np.zeros((repeats, dim)), np.zeros(repeats, dtype=np.int64), np.arange(repeats)
    memory, answered = np.zeros((repeats, n, dim)), np.zeros((repeats, n), dtype=bool)
    chance = probabilities(prob) if rule == "fedavg_is" else np.ones(n)
    cohort = _cohorts(seed, update, every, n, cohort_size) if rule == "fedavg_sampling" else answered
    for round, there in enumerate(masks):
        lr = np.broadcast_to(rate(update), repeats)[:, None]
        delta = _local(clients, w, lr, clients.draws(round, repeats, steps))
        match rule:
            case "mifa":
                asked = there & (~answered | answered.all(1, keepdims=True))
                memory[asked] = (delta / lr[..., None])[asked]
                answered |= there
                moves = answered.all(1)
                direction = lr * memory.mean(1)
            case "fedavg_sampling":
                asked = cohort & there & ~answered
                memory[asked] = delta[asked]
                answered |= asked
                moves = (answered == cohort).all(1)
                direction = np.where(answered[..., None], memory, 0).sum(1) / cohort_size
                answered[moves] = False
            case "fedavg_is":
                moves = there.any(1)
                direction = np.einsum("rn,rnp->rp", there / chance, delta) / n
            case "fedavg_biased":
                moves = there.any(1)
                total = np.einsum("rn,rnp->rp", there.astype(float), delta)
                direction = total / np.maximum(there.sum(1), 1)[:, None]
            case _:
                raise ValueError(f"rule={rule}: there is no batched twin of it")
        w[moves] -= direction[moves]
        update[moves] += 1
        if rule == "fedavg_sampling" and moves.any():
            cohort[moves] = _cohorts(seed, update[moves], every[moves], n, cohort_size)
        yield w.copy()


def _local(clients: Quadratics, w: np.ndarray, lr: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """U = w - w^K [R, N, P] after the K local steps whose noise is [R, N, K, P]."""
    lr = lr[..., None]
    if noise.shape[2] == 1:
        return lr * (w[:, None] - clients.u + noise[:, :, 0])
    own = np.broadcast_to(w[:, None], noise[:, :, 0].shape)
    for k in range(noise.shape[2]):
        own = own - lr * (own - clients.u + noise[:, :, k])
    return w[:, None] - own


def _cohorts(seed: int, update: np.ndarray, repeat: np.ndarray, n: int, size: int) -> np.ndarray:
    """bool [R, N]: those drawn, as the product's rule draws them with seed + r."""
    cohort = np.zeros((len(repeat), n), dtype=bool)
    for row, r, k in zip(cohort, repeat, update, strict=True):
        row[stream(seed + int(r), "cohort", int(k)).choice(n, size, replace=False)] = True
    return cohort


def coin_masks(p: object, rounds: int, repeats: int, seed: int, fresh: bool = False) -> Iterator[np.ndarray]:
    """Bernoulli masks bool [R, N], round by round; with fresh, everybody is there in round 0."""
    values = probabilities(p)
    for round in range(rounds):
        coin = stream(seed, "theory/masks", round).random((repeats, len(values)))
        yield np.ones_like(coin, dtype=bool) if fresh and round == 0 else coin < values


def checkpoints(rounds: int, count: int, first: int) -> np.ndarray:
    """About `count` numbers of rounds from `first` to T, evenly spread in the logarithm: int64, increasing."""
    return np.unique(np.geomspace(first, rounds, count).round().astype(np.int64))


def errors(at: np.ndarray, rule: str, clients: Quadratics, *how: Any, **options: Any) -> np.ndarray:
    """‖w_T - w*‖² of every repeat after the numbers of rounds `at` [C], as `play` plays: [C, R]."""
    models, wanted = play(rule, clients, *how, **options), set(at.tolist())
    return np.stack([np.square(w - clients.optimum).sum(1) for done, w in enumerate(models, 1) if done in wanted])
