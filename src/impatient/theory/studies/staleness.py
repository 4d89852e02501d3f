"""Staleness of coins, Markov chains and cycles: closed forms against masks drawn."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from impatient.theory.paper import paper_availability
from impatient.theory.processes import bernoulli, coins, cyclic, markov, tau_bar, tau_max_mean, tau_max_root
from impatient.theory.report import BLACK, BLUE, COLOURS, MARKERS, RED, Finding, Outcome, label, panels
from impatient.theory.settings import Chance, Some
from impatient.theory.staleness import tau


class Chain(NamedTuple):
    """Probability of being there, and correlation from round to round."""

    pi: Chance
    lam: float


class Cycle(NamedTuple):
    """Rounds there, rounds away."""

    on: PositiveInt
    off: NonNegativeInt


def run(
    seed: int,
    chances: list[Chance],
    chains: list[Chain],
    cycles: list[Cycle],
    clients: Annotated[int, Field(ge=2)],
    rounds: Annotated[int, Field(ge=100)],
    horizons: Some[Annotated[int, Field(ge=2)]],
) -> Outcome:
    """Coins of p, chains of (pi, lam) and cycles of (on, off), `clients` independent devices for `rounds` rounds.

    horizons: the T at which tau_bar_T and tau_max,T of the paper's MNIST devices (p_min .1) are compared.
    """
    from scipy.stats import sem

    processes = [
        *((f"coin, p {p:g}", bernoulli(p)) for p in chances),
        *((f"chain, π {pi:g}, λ {lam:g}", markov(pi, lam)) for pi, lam in chains),
        *((f"cycle, {on} on, {off} off", cyclic(on, off)) for on, off in cycles),
    ]
    figure, (law, grow) = panels(2)
    rows: list[Any] = []
    far = []
    k = np.arange(16)
    for at, (name, process) in enumerate(processes):
        whole = tau(process.masks(rounds, clients, seed))
        away = whole[rounds // 10 :]  # the start, tau = 0, is forgotten by then
        each, squares = away.mean(0), (away.astype(float) ** 2).mean(0)
        error = [max(float(sem(x)), 1e-9) for x in (each, squares)]  # a cycle is exact
        far += [abs(each.mean() - process.mean) / error[0], abs(squares.mean() - process.second) / error[1]]
        means = f"{each.mean():.3f} ± {error[0]:.3f}", f"{squares.mean():.2f} ± {error[1]:.2f}"
        rows.append((name, process.mean, means[0], process.second, means[1], int(whole.max())))
        counts = np.bincount(np.minimum(away.ravel(), 16), minlength=17)[:16] / away.size
        colour, mark = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
        law.plot(k, np.where(process.pmf(k) > 0, process.pmf(k), np.nan), color=colour, lw=1)
        law.plot(k, np.where(counts > 2e-5, counts, np.nan), color=colour, ls="none", marker=mark, label=name)
    label(law, "P(tau = k): line the formula, marks the masks", "k", "probability", log="y")
    law.set_ylim(2e-5, 50)
    law.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1])
    law.legend(loc="upper right", ncols=2, fontsize=6)
    findings = [Finding("E tau and E tau² lie off the masks by, in s.e.", max(far), high=4)]
    findings += _horizons(grow, horizons, seed, rows)
    columns = ("devices", "E tau", "of masks", "E tau²", "of masks", "tau_max,T (foretold)")
    return Outcome(columns, rows, findings, figure)


def _horizons(axes: Any, horizons: list[int], seed: int, rows: list[Any]) -> list[Finding]:
    """tau_bar_T and tau_max,T of the paper's devices, 40 masks each: the second panel, and a row for each T."""
    from scipy.stats import sem

    p = paper_availability("mnist", 0.1)
    seen = [[tau(coins(p, rounds, seed + 1 + r)) for r in range(40)] for rounds in horizons]
    bar = np.array([[away.mean() for away in some] for some in seen])
    top = np.array([[away.max() for away in some] for some in seen])
    bar_law = np.array([tau_bar(p, rounds) for rounds in horizons])
    top_law = np.array([tau_max_mean(p, rounds) for rounds in horizons])
    findings = []
    for name, found, law, colour, mark in (
        ("tau_bar_T", bar, bar_law, BLUE, "o"),
        ("tau_max,T", top, top_law, RED, "s"),
    ):
        mean, error = found.mean(1), sem(found, axis=1)
        axes.errorbar(horizons, mean, 2 * error, color=colour, marker=mark, ls="none", capsize=2)
        axes.plot(horizons, law, color=colour, label=name)
        far = float((np.abs(mean - law) / error).max())
        findings.append(Finding(f"E {name} of the paper's devices lies off the masks by, in s.e.", far, high=4))
    roots = [tau_max_root(p, rounds) for rounds in horizons]
    axes.plot(horizons, roots, color=BLACK, ls=":", lw=1, label="root of Σ T p q^m = 1")
    label(axes, "the paper's devices (MNIST, p_min .1)", "rounds T", "rounds", log="xy")
    axes.legend(loc="center right")
    for at, rounds in enumerate(horizons):
        measured, longest = f"{bar[at].mean():.3f} ± {sem(bar[at]):.3f}", f"{top[at].mean():.1f} ({top_law[at]:.1f})"
        rows.append((f"paper's, T = {rounds}", bar_law[at], measured, None, None, longest))
    return findings
