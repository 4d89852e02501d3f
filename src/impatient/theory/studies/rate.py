"""MIFA's rate on strongly convex tasks: 1/T, speed-up in N and K, growth with tau_bar + 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError, check, integer, number
from impatient.theory import batched
from impatient.theory.digits import DigitsTask
from impatient.theory.limits import biased_weights, mifa_limit
from impatient.theory.processes import coins, tau_max_mean
from impatient.theory.report import BLACK, BLUE, COLOURS, MARKERS, NAMES, RED, Finding, Outcome, label, panels, slope
from impatient.theory.settings import settings
from impatient.theory.simulate import isotropic, play


def run(
    seed: int,
    rules: Mapping[str, Aggregator],
    cells: Sequence[Sequence[float]],
    rounds: int,
    repeats: int,
    dim: int,
    digits: Mapping[str, Any] | None,
) -> Outcome:
    """cells: (N, K, p) of quadratics, η = 1/(K(t+1)), batched; digits and rules (mifa, fedavg_biased): `regression`.

    The last two columns: the T after which T·error is within 1.5 times its limit, and the order that the paper gives.
    """
    check(integer("rounds", rounds, 64), integer("repeats", repeats, 2), integer("dim", dim, 1))
    if not cells or any(len(cell) != 3 for cell in cells):
        raise ConfigError("cells: must be a list of [N, K, p]")
    if digits and not {"mifa", "fedavg_biased"} <= rules.keys():
        raise ConfigError("rules: mifa and fedavg_biased are compared; give both")
    check(*(number("p", cell[2], 0, 1, open_low=True) for cell in cells))
    figure, (falls, grows, real) = panels(3)
    at = batched.checkpoints(rounds, 40, first=4)
    rows: list[Any] = []
    slopes, constants = [], []
    for k, cell in enumerate(cells):
        clients, steps, p = cell
        error, law = quadratic(int(clients), int(steps), float(p), at, repeats, dim, seed)
        late = at >= rounds // 16
        fall, ratio = slope(at[late], error[late]), float((at * error)[late].mean() / law)
        scaled = float((at * error)[late].mean() * clients * steps)  # σ² = 1 a coordinate
        slopes.append(fall)
        constants.append(ratio)
        above = np.flatnonzero(at * error > 1.5 * law)
        rules_from = int(at[above[-1]]) if len(above) else 0
        paper = clients * steps * tau_max_mean(np.full(int(clients), p), rounds) ** 2 * p
        name = f"quadratics, N {clients}, K {steps}, p {p:g}"
        rows.append((name, 1 / p, fall, float(error[-1]), scaled, ratio, rules_from, round(paper)))
        colour, mark = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
        name = "N {}, K {}, p {:g}".format(*cell)
        fill = "white" if k >= len(COLOURS) else colour
        falls.plot(at, error / law, color=colour, marker=mark, mfc=fill, markevery=(k % 6, 8), lw=1, label=name)
        grows.plot(1 / p, scaled, color=colour, marker=mark, mfc=fill, ls="none")
    falls.plot(at, 1 / at, color=BLACK, ls=":", lw=1.2)
    label(falls, "quadratics, MIFA; dotted: 1/T", "rounds T", "N K · error / σ²(2 tau_bar + 1)", log="xy")
    falls.legend(fontsize=5.5, loc="lower left")
    x = np.array([1, 1.1 / min(cell[2] for cell in cells)])
    grows.plot(x, 2 * x - 1, color=BLACK, lw=1, label="2 tau_bar + 1 (derived)")
    grows.plot(x, x, color=BLACK, lw=1, ls=":", label="tau_bar + 1 (paper, no constant)")
    label(grows, "N K T · error / σ²", "tau_bar + 1 = 1/p", "")
    grows.legend()
    findings = [
        Finding("quadratics: least steep slope", max(slopes), -1.2, -0.8),
        Finding("quadratics: steepest slope", min(slopes), -1.2, -0.8),
        Finding("quadratics: least N K T·error / σ²(2 tau_bar + 1)", min(constants), 0.8, 1.2),
        Finding("quadratics: largest", max(constants), 0.8, 1.2),
    ]
    if digits:
        findings += regression(rules, rows, real, seed, settings(Digits, "digits", digits))
    columns = ("task", "tau_bar + 1", "slope", "error at T", "N K T·error/σ²", "over 2 tau_bar + 1",
               "1/T from", "NK tau_max²/(tau_bar + 1)")  # fmt: skip
    return Outcome(columns, rows, findings, figure)


def quadratic(
    clients: int, steps: int, p: float, at: np.ndarray, repeats: int, dim: int, seed: int
) -> tuple[np.ndarray, float]:
    """MIFA's mean squared error a coordinate at the checkpoints, and what T times it should tend to."""
    check(number("p", p, 0, 1, open_low=True), integer("N", clients, 1), integer("K", steps, 1))
    task = isotropic(clients, dim, seed=seed)
    chance = np.full(clients, p)
    masks = batched.coin_masks(chance, int(at[-1]), repeats, seed, fresh=True)
    models = batched.play("mifa", task, masks, lambda t: 1 / (steps * (t + 1)), repeats, steps)
    error = batched.squared_errors(models, task.optimum, at).mean(1) / dim
    return error, mifa_limit(chance, 1 / steps)


@dataclass(frozen=True)
class Digits:
    """N devices for T rounds, `repeats` times: L2 `decay`, p_min, K = steps on mini-batches, η = c/(K(t + a))."""

    clients: int
    rounds: int
    repeats: int
    decay: float
    pmin: float
    batch: int
    steps: int
    c: float
    a: float

    def __post_init__(self) -> None:
        """Raise ConfigError with every number out of range."""
        least = {"clients": 1, "rounds": 64, "repeats": 1, "batch": 1, "steps": 1}
        check(
            *(integer(name, getattr(self, name), low) for name, low in least.items()),
            *(number(name, getattr(self, name), 0, open_low=True) for name in ("decay", "pmin", "c", "a")),
        )


def regression(rules: Mapping[str, Aggregator], rows: list[Any], axes: Axes, seed: int, given: Digits) -> list[Finding]:
    """Softmax regression on digits through the product's rules: f(w_T) - f(w*).

    p_i as in the paper, by label. The floor of biased FedAvg is foretold: f at the minimum of Σ q_i F_i, less f(w*).
    """
    task = DigitsTask.make(given.clients, given.decay, seed=seed)
    p = task.availability(given.pmin)
    best = task.objective(task.optimum())[0]
    floor = task.objective(task.optimum(biased_weights(p)))[0] - best
    at = batched.checkpoints(given.rounds, 30, first=8)
    rate = lambda t: given.c / (given.steps * (t + given.a))  # noqa: E731
    late, found = at >= given.rounds // 16, {}
    for name, colour in (("mifa", BLUE), ("fedavg_biased", RED)):
        gaps = []
        for repeat in range(given.repeats):
            federation = task.federation(given.batch, given.steps, seed + repeat)
            masks = coins(p, given.rounds, seed + repeat)
            models = play(rules[name], federation, masks, task.start, rate)
            kept = {done: now.params for done, now in enumerate(models, 1) if done in at}
            gaps.append([task.objective(w)[0] - best for w in kept.values()])
        gap = found[name] = np.array(gaps)
        axes.plot(at, gap.mean(0), color=colour, marker=MARKERS[name == "mifa"], markevery=4, label=NAMES[name])
        axes.fill_between(at, gap.min(0), gap.max(0), color=colour, alpha=0.2, lw=0)
        fall = slope(at[late], gap.mean(0)[late])
        rows.append(
            (f"digits, {NAMES[name]}", float((1 / p).mean()), fall, float(gap.mean(0)[-1]), None, None, None, None)
        )
    axes.axhline(floor, color=RED, ls=":", lw=1, label="floor of biased FedAvg, foretold")
    mid = found["mifa"].mean(0)[late]
    axes.plot(at[late], mid[-1] * at[-1] / at[late], color=BLACK, ls=":", lw=1, label="slope -1")
    label(axes, "digits, softmax regression", "rounds T", "f(w_T) - f(w*)", log="xy")
    axes.legend(fontsize=6, loc="lower left")
    biased = found["fedavg_biased"].mean(0)
    return [
        Finding("digits: MIFA's slope", slope(at[late], mid), -1.4, -0.8),
        Finding("digits: biased FedAvg's error / its foretold floor", float(biased[-1] / floor), 0.7, 1.3),
        Finding("digits: biased FedAvg's error / MIFA's", float(biased[-1] / mid[-1]), 10),
    ]
