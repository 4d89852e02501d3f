"""Staleness of coins, Markov chains and cycles: closed forms against masks drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from impatient.checks import ConfigError, check, integer
from impatient.theory.paper import paper_availability
from impatient.theory.processes import (
    Bernoulli,
    Cyclic,
    Markov,
    Process,
    bernoulli_tau_bar,
    coins,
    tau_max_mean,
    tau_max_root,
)
from impatient.theory.report import BLACK, BLUE, COLOURS, MARKERS, RED, Finding, Outcome, label, panels
from impatient.theory.staleness import staleness, tau


def run(
    seed: int,
    chances: Sequence[float],
    chains: Sequence[Sequence[float]],
    cycles: Sequence[Sequence[int]],
    clients: int,
    rounds: int,
    horizons: Sequence[int],
) -> Outcome:
    """Coins of p, chains of (pi, lam) and cycles of (on, off), `clients` independent devices for `rounds` rounds.

    horizons: the T at which tau_bar_T and tau_max,T of the paper's MNIST devices (p_min .1) are compared.
    """
    check(
        integer("clients", clients, 2), integer("rounds", rounds, 100), *(integer("horizons", t, 2) for t in horizons)
    )
    if not all(len(pair) == 2 for pair in (*chains, *cycles)):
        raise ConfigError("chains, cycles: must be lists of pairs, [pi, lam] and [on, off]")
    if not horizons:
        raise ConfigError("horizons: is empty; give at least one T")
    processes: list[tuple[str, Process]] = [
        *((f"coin, p {p:g}", Bernoulli(p)) for p in chances),
        *((f"chain, π {pi:g}, λ {lam:g}", Markov(pi, lam)) for pi, lam in chains),
        *((f"cycle, {on} on, {off} off", Cyclic(on, off)) for on, off in cycles),
    ]
    figure, (law, grow) = panels(2)
    rows: list[Any] = []
    far = []
    k = np.arange(16)
    for at, (name, process) in enumerate(processes):
        mask = process.masks(rounds, clients, seed)
        away = tau(mask)[rounds // 10 :]  # the start, tau = 0, is forgotten by then
        each, squares = away.mean(0), (away.astype(float) ** 2).mean(0)
        error = [max(float(x.std(ddof=1) / np.sqrt(clients)), 1e-9) for x in (each, squares)]  # a cycle is exact
        far += [abs(each.mean() - process.mean) / error[0], abs(squares.mean() - process.second) / error[1]]
        means = f"{each.mean():.3f} ± {error[0]:.3f}", f"{squares.mean():.2f} ± {error[1]:.2f}"
        rows.append((name, process.mean, means[0], process.second, means[1], staleness(mask).tau_max))
        counts = np.bincount(np.minimum(away.ravel(), 16), minlength=17)[:16] / away.size
        colour = COLOURS[at % len(COLOURS)]
        law.plot(k, np.where(process.pmf(k) > 0, process.pmf(k), np.nan), color=colour, lw=1)
        shown = np.where(counts > 2e-5, counts, np.nan)
        law.plot(k, shown, color=colour, ls="none", marker=MARKERS[at % len(MARKERS)], label=name)
    label(law, "P(tau = k): line the formula, marks the masks", "k", "probability", log="y")
    law.set_ylim(2e-5, 50)
    law.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1])
    law.legend(loc="upper right", ncols=2, fontsize=6)
    findings = [Finding("E tau and E tau² lie off the masks by, in s.e.", max(far), high=4)]
    findings += _horizons(grow, horizons, seed, rows)
    columns = ("devices", "E tau", "of masks", "E tau²", "of masks", "tau_max,T (foretold)")
    return Outcome(columns, rows, findings, figure)


def _horizons(axes: Axes, horizons: Sequence[int], seed: int, rows: list[Any]) -> list[Finding]:
    """tau_bar_T and tau_max,T of the paper's devices, 40 masks each: the second panel, and a row for each T."""
    p, repeats = paper_availability("mnist", 0.1), 40
    seen = [[staleness(coins(p, rounds, seed + 1 + r)) for r in range(repeats)] for rounds in horizons]
    bar = np.array([[s.tau_bar for s in some] for some in seen])
    top = np.array([[s.tau_max for s in some] for some in seen])
    bar_law = np.array([bernoulli_tau_bar(p, rounds) for rounds in horizons])
    top_law = np.array([tau_max_mean(p, rounds) for rounds in horizons])
    findings = []
    for name, found, law, colour, mark in (
        ("tau_bar_T", bar, bar_law, BLUE, "o"),
        ("tau_max,T", top, top_law, RED, "s"),
    ):
        mean, error = found.mean(1), found.std(1, ddof=1) / np.sqrt(repeats)
        axes.errorbar(horizons, mean, 2 * error, color=colour, marker=mark, ls="none", capsize=2)
        axes.plot(horizons, law, color=colour, label=name)
        far = float((np.abs(mean - law) / error).max())
        findings.append(Finding(f"E {name} of the paper's devices lies off the masks by, in s.e.", far, high=4))
    roots = [tau_max_root(p, rounds) for rounds in horizons]
    axes.plot(horizons, roots, color=BLACK, ls=":", lw=1, label="root of Σ T p q^m = 1")
    label(axes, "the paper's devices (MNIST, p_min .1)", "rounds T", "rounds", log="xy")
    axes.legend(loc="center right")
    for at, rounds in enumerate(horizons):
        error = bar[at].std(ddof=1) / np.sqrt(repeats)
        measured, longest = f"{bar[at].mean():.3f} ± {error:.3f}", f"{top[at].mean():.1f} ({top_law[at]:.1f})"
        rows.append((f"paper's, T = {rounds}", bar_law[at], measured, None, None, longest))
    return findings
