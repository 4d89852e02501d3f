"""The exact limits of T·E‖w_T - w*‖² against the rules, and when memory beats importance sampling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from impatient.checks import ConfigError, check, integer, number
from impatient.theory import batched
from impatient.theory.limits import is_limit, memory_wins, mifa_leading, mifa_limit
from impatient.theory.report import BLACK, BLUE, NAMES, RED, Finding, Outcome, label, panels
from impatient.theory.settings import settings
from impatient.theory.simulate import Quadratics


@dataclass(frozen=True)
class Case:
    """N devices on a line, centres u evenly on [-spread, spread], chances p evenly on [low, high], noise sigma."""

    low: float
    high: float
    spread: float
    sigma: float

    def __post_init__(self) -> None:
        """Raise ConfigError for numbers out of range."""
        check(
            number("low", self.low, 0, 1, open_low=True),
            number("high", self.high, self.low, 1),
            number("spread", self.spread, 0),
            number("sigma", self.sigma, 0),
        )


def run(
    seed: int, cases: Mapping[str, Mapping[str, float]], clients: int, rounds: int, repeats: int, dim: int
) -> Outcome:
    """Each case is played `repeats` times for `rounds` rounds with η = 1/(t+1), everybody there in round 0.

    dim: coordinates a repeat, all alike, to have more draws of the noise.
    """
    check(integer("clients", clients, 2), integer("rounds", rounds, 10), integer("repeats", repeats, 2))
    if not cases:
        raise ConfigError("cases: is empty; name at least one")
    rows: list[Any] = []
    findings, bars = [], []
    for name, case in {name: settings(Case, f"cases.{name}", given) for name, given in cases.items()}.items():
        p = np.linspace(case.low, case.high, clients)
        u = np.repeat(np.linspace(-case.spread, case.spread, clients)[:, None], dim, 1)
        task = Quadratics(u, np.ones_like(u), case.sigma, seed)
        laws = {"mifa": mifa_limit(p, task.noise) / dim, "fedavg_is": is_limit(p, task.noise, task.gap) / dim}
        found = {}
        for rule, law in laws.items():
            mean, error = measured(rule, task, p, rounds, repeats, seed)
            found[rule] = mean
            bars.append((name, rule, mean, error, law))
            rows.append((name, NAMES[rule], law, f"{mean:.4f} ± {error:.4f}", mean / law, (mean - law) / error))
            margin = 0.03 + 3 * error / law
            findings.append(Finding(f"{name}: {NAMES[rule]}, measured / predicted", mean / law, 1 - margin, 1 + margin))
        wins = memory_wins(p, task.noise, task.gap)
        ratio = found["mifa"] / found["fedavg_is"]
        says = "memory wins" if wins else "memory loses"
        findings.append(Finding(f"{name}: {says}, MIFA / IS", ratio, *((0, 1) if wins else (1, float("inf")))))
        rows.append((name, "paper's leading term", mifa_leading(p, task.noise) / dim, "", None, None))
    columns = ("case", "rule", "predicted", "T·error, measured", "measured / predicted", "off, in s.e.")
    return Outcome(columns, rows, findings, _draw(bars, list(cases)))


def measured(rule: str, task: Quadratics, p: np.ndarray, rounds: int, repeats: int, seed: int) -> tuple[float, float]:
    """T·‖w_T - w*‖² a coordinate, and its standard error over the repeats."""
    masks = batched.coin_masks(p, rounds, repeats, seed, fresh=True)
    models = batched.play(rule, task, masks, lambda k: 1 / (k + 1), repeats, prob=p)
    error = rounds * batched.squared_errors(models, task.optimum, np.array([rounds]))[0] / task.u.shape[1]
    return float(error.mean()), float(error.std(ddof=1) / np.sqrt(repeats))


def _draw(bars: Sequence[tuple[str, str, float, float, float]], cases: Sequence[str]) -> Figure:
    figure, (axes,) = panels(1, 2.9)
    for name, rule, mean, error, law in bars:
        at = cases.index(name) + (0.18 if rule == "fedavg_is" else -0.18)
        colour = RED if rule == "fedavg_is" else BLUE
        axes.bar(at, mean, 0.32, yerr=2 * error, color=colour, alpha=0.75, error_kw={"lw": 1, "capsize": 2})
        axes.plot([at - 0.18, at + 0.18], [law, law], color=BLACK, lw=1.6)
    label(axes, "bars: measured ± 2 s.e.; lines: predicted", "", "T · E‖w_T - w*‖²")
    axes.set_xticks(range(len(cases)), [name.replace(", ", "\n") for name in cases])
    axes.grid(axis="x", visible=False)
    axes.bar(0, 0, color=BLUE, alpha=0.75, label="MIFA")
    axes.bar(0, 0, color=RED, alpha=0.75, label="importance sampling")
    axes.legend()
    return figure
