"""A network: how small the gradient gets in T rounds with a step size of order 1/√T, with absences that are bounded."""

from typing import Annotated

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from impatient.aggregators.base import Aggregator
from impatient.theory.digits import DigitsTask
from impatient.theory.limits import biased_weights
from impatient.theory.processes import bounded_coins
from impatient.theory.report import BLACK, COLOURS, MARKERS, NAMES, Finding, Outcome, label, panels, slope
from impatient.theory.settings import Chance, Rules
from impatient.theory.simulate import play
from impatient.theory.staleness import tau


def run(
    seed: int,
    rules: Rules,
    horizons: Annotated[list[Annotated[int, Field(ge=10)]], Field(min_length=2)],
    repeats: PositiveInt,
    clients: PositiveInt,
    hidden: PositiveInt,
    decay: PositiveFloat,
    pmin: Chance,
    nu: NonNegativeInt,
    batch: PositiveInt,
    steps: PositiveInt,
    c: PositiveFloat,
    looks: Annotated[int, Field(ge=2)],
) -> Outcome:
    """Digits and a layer of `hidden` tanh; coins with the paper's p_i, but never away for more than nu rounds.

    η = c·√(N/(K T (nu_bar + 1))) throughout a run of T rounds, for each T in `horizons`; ‖∇f(w_t)‖² is looked at
    `looks` times, evenly. Reported: its mean, which the theorem bounds, the least, and the end, the mean of the last
    fifth. Biased FedAvg should end at the gradient of f where Σ q_i F_i is least, q from how often devices were there.
    """
    task = DigitsTask.make(clients, decay, hidden, seed)
    p = task.availability(pmin)
    mask = [bounded_coins(p, nu, max(horizons), seed + repeat) for repeat in range(repeats)]
    nu_bar = float(np.mean([tau(m).max(0).mean() for m in mask]))
    shares = np.concatenate(mask).mean(0)
    floor = float(task.objective(task.optimum(biased_weights(shares)))[1].square().sum())
    norms = {name: np.zeros((len(horizons), repeats, 3)) for name in rules}
    rows = []
    for name, rule in rules.items():
        for k, rounds in enumerate(horizons):
            lr = c * float(np.sqrt(clients / (steps * rounds * (nu_bar + 1))))
            for repeat in range(repeats):
                seen = gradients(rule, task, mask[repeat][:rounds], lr, batch, steps, looks, seed + repeat)
                norms[name][k, repeat] = seen.mean(), seen.min(), seen[-max(1, looks // 5) :].mean()
            rows.append((NAMES.get(name, name), rounds, lr, *norms[name][k].mean(0)))
    figure, axes = panels(2)
    for ax, what, title in zip(axes, (0, 2), ("mean over t < T", "at the end"), strict=True):
        for k, (name, found) in enumerate(norms.items()):
            y = found[:, :, what]
            ax.plot(horizons, y.mean(1), color=COLOURS[k], marker=MARKERS[k], label=NAMES.get(name, name))
            ax.fill_between(horizons, y.min(1), y.max(1), color=COLOURS[k], alpha=0.2, lw=0)
        label(ax, f"‖∇f(w_t)‖², {title}", "rounds T", "", log="xy")
    start = norms["mifa"][0, :, 0].mean()
    axes[0].plot(horizons, start * np.sqrt(horizons[0] / np.array(horizons)), color=BLACK, ls=":", label="slope -1/2")
    axes[1].axhline(floor, color=COLOURS[1], ls=":", label="biased FedAvg, foretold")
    for ax in axes:
        ax.legend()
    mine, biased = norms["mifa"].mean(1), norms["fedavg_biased"].mean(1)
    findings = [
        Finding("MIFA's slope of the mean, -1/2 or steeper", slope(np.array(horizons), mine[:, 0]), high=-0.4),
        Finding("MIFA's slope of the end", slope(np.array(horizons), mine[:, 2]), high=-0.5),
        Finding("biased FedAvg's end / foretold, longest run", biased[-1, 2] / floor, 0.6),
        Finding("biased FedAvg's end / MIFA's, longest run", biased[-1, 2] / mine[-1, 2], 3),
        Finding("nu_bar, the mean of the longest absences", nu_bar, high=nu),
    ]
    columns = ("rule", "T", "step size", "mean ‖∇f‖²", "least", "end")
    return Outcome(columns, rows, findings, figure)


def gradients(
    rule: Aggregator, task: DigitsTask, mask: np.ndarray, lr: float, batch: int, steps: int, looks: int, seed: int
) -> np.ndarray:
    """‖∇f(w_t)‖² at `looks` rounds of one run, from the start on."""
    when = set(np.linspace(0, len(mask), looks + 1).astype(int).tolist())
    seen = [float(task.objective(task.start)[1].square().sum())]
    rounds = play(rule, task.federation(batch, steps, seed), mask, task.start, lambda t: lr)
    for done, (w, _) in enumerate(rounds, 1):
        if done in when:
            seen.append(float(task.objective(w)[1].square().sum()))
    return np.array(seen)
