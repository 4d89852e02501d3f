"""MIFA's rate on strongly convex tasks: 1/T, speed-up in N and K, growth with tau_bar + 1."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from impatient.theory import batched
from impatient.theory.digits import DigitsTask
from impatient.theory.limits import biased_weights, mifa_limit
from impatient.theory.processes import coins, tau_bar, tau_max_mean
from impatient.theory.quadratics import isotropic
from impatient.theory.report import BLACK, BLUE, COLOURS, MARKERS, NAMES, RED, Finding, Outcome, label, panels, slope
from impatient.theory.settings import Chance, Group, Rules, Some
from impatient.theory.simulate import play


class Cell(NamedTuple):
    """N devices, K local steps, everybody there with probability p."""

    N: PositiveInt
    K: PositiveInt
    p: Chance


class Digits(Group):
    """N devices for T rounds, `repeats` times: L2 `decay`, p_min, K = steps on mini-batches, η = c/(K(t + a))."""

    clients: PositiveInt
    rounds: Annotated[int, Field(ge=64)]
    repeats: PositiveInt
    decay: PositiveFloat
    pmin: Chance
    batch: PositiveInt
    steps: PositiveInt
    c: PositiveFloat
    a: PositiveFloat


def run(
    seed: int,
    rules: Rules,
    cells: Some[Cell],
    rounds: Annotated[int, Field(ge=64)],
    repeats: Annotated[int, Field(ge=2)],
    dim: PositiveInt,
    digits: Digits | None,
) -> Outcome:
    """cells: (N, K, p) of quadratics, η = 1/(K(t+1)), batched; digits and rules (mifa, fedavg_biased): `regression`.

    The last two columns: the T after which T·error is within 1.5 times its limit, and the order that the paper gives.
    """
    figure, (falls, grows, real) = panels(3)
    at = batched.checkpoints(rounds, 40, first=4)
    late = at >= rounds // 16
    rows: list[Any] = []
    slopes, constants = [], []
    for k, (clients, steps, p) in enumerate(cells):
        task, masks = isotropic(clients, dim, seed=seed), batched.coin_masks([p] * clients, rounds, repeats, seed, True)
        inverse = lambda t, steps=steps: 1 / (steps * (t + 1))  # noqa: E731
        error = batched.errors(at, "mifa", task, masks, repeats, inverse, steps).mean(1) / dim  # of a coordinate
        law = mifa_limit(1 / p - 1, clients, 1 / steps)
        slopes.append(slope(at[late], error[late]))
        constants.append(float((at * error)[late].mean() / law))
        scaled = float((at * error)[late].mean() * clients * steps)  # σ² = 1 a coordinate
        above = np.flatnonzero(at * error > 1.5 * law)
        rules_from = int(at[above[-1]]) if len(above) else 0
        paper = round(clients * steps * tau_max_mean([p] * clients, rounds) ** 2 * p)
        name = f"N {clients}, K {steps}, p {p:g}"
        measured = (slopes[-1], float(error[-1]), scaled, constants[-1], rules_from, paper)
        rows.append((f"quadratics, {name}", 1 / p, *measured))
        colour, mark = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
        marks: Any = {"color": colour, "marker": mark, "mfc": "white" if k >= len(COLOURS) else colour}
        falls.plot(at, error / law, **marks, markevery=(k % 6, 8), lw=1, label=name)
        grows.plot(1 / p, scaled, **marks, ls="none")
    falls.plot(at, 1 / at, color=BLACK, ls=":", lw=1.2)
    label(falls, "quadratics, MIFA; dotted: 1/T", "rounds T", "N K · error / σ²(2 tau_bar + 1)", log="xy")
    falls.legend(fontsize=5.5, loc="lower left")
    x = np.array([1, 1.1 / min(cell.p for cell in cells)])
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
        findings += regression(rules, rows, real, seed, digits)
    columns = ("task", "tau_bar + 1", "slope", "error at T", "N K T·error/σ²", "over 2 tau_bar + 1",
               "1/T from", "NK tau_max²/(tau_bar + 1)")  # fmt: skip
    return Outcome(columns, rows, findings, figure)


def regression(rules: Rules, rows: list[Any], axes: Any, seed: int, given: Digits) -> list[Finding]:
    """Softmax regression on digits through the product's rules: f(w_T) - f(w*).

    p_i as in the paper, by label. The floor of biased FedAvg is foretold: f at the minimum of Σ q_i F_i, less f(w*).
    """
    task = DigitsTask.make(given.clients, given.decay, seed=seed)
    p = task.availability(given.pmin)
    best = task.objective(task.optimum())[0]
    floor = task.objective(task.optimum(biased_weights(p)))[0] - best
    at = batched.checkpoints(given.rounds, 30, first=8)
    late, found = at >= given.rounds // 16, {}
    for name, colour, mark in (("mifa", BLUE, "s"), ("fedavg_biased", RED, "o")):
        gaps = np.empty((given.repeats, len(at)))
        for repeat in range(given.repeats):
            federation = task.federation(given.batch, given.steps, seed + repeat)
            masks = coins(p, given.rounds, seed + repeat)
            models = play(rules[name], federation, masks, task.start, lambda t: given.c / (given.steps * (t + given.a)))
            kept = [w for done, (w, _) in enumerate(models, 1) if done in at]
            gaps[repeat] = [task.objective(w)[0] - best for w in kept]
        mean = found[name] = gaps.mean(0)
        axes.plot(at, mean, color=colour, marker=mark, markevery=4, label=NAMES[name])
        axes.fill_between(at, gaps.min(0), gaps.max(0), color=colour, alpha=0.2, lw=0)
        fall = slope(at[late], mean[late])
        rows.append((f"digits, {NAMES[name]}", tau_bar(p) + 1, fall, float(mean[-1]), None, None, None, None))
    axes.axhline(floor, color=RED, ls=":", lw=1, label="floor of biased FedAvg, foretold")
    mifa, biased = found["mifa"][late], found["fedavg_biased"]
    axes.plot(at[late], mifa[-1] * at[-1] / at[late], color=BLACK, ls=":", lw=1, label="slope -1")
    label(axes, "digits, softmax regression", "rounds T", "f(w_T) - f(w*)", log="xy")
    axes.legend(fontsize=6, loc="lower left")
    return [
        Finding("digits: MIFA's slope", slope(at[late], mifa), -1.4, -0.8),
        Finding("digits: biased FedAvg's error / its foretold floor", float(biased[-1] / floor), 0.7, 1.3),
        Finding("digits: biased FedAvg's error / MIFA's", float(biased[-1] / mifa[-1]), 10),
    ]
