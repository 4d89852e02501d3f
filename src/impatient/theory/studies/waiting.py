"""The waiting time of device sampling: formula, golden table, simulation and the product's rule."""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from impatient.aggregators.base import Aggregator
from impatient.theory.batched import inverse
from impatient.theory.paper import WAITS, Split, paper_availability
from impatient.theory.processes import coins
from impatient.theory.quadratics import isotropic
from impatient.theory.report import COLOURS, MARKERS, Finding, Outcome, label, panels
from impatient.theory.settings import Chance, Cohort, RuleMaker, Some
from impatient.theory.simulate import play
from impatient.theory.waiting import expected_waits, simulated_waits


def run(
    seed: int,
    rule: RuleMaker,
    splits: Some[Split],
    pmins: Some[Chance],
    sizes: Some[Cohort],
    repeats: Annotated[int, Field(ge=2)],
    rounds: Annotated[int, Field(ge=100)],
) -> Outcome:
    """rule: makes the product's device sampling for a cohort_size and a seed; it is played for `rounds` rounds.

    `repeats` cohorts and waits are drawn for the simulation.
    """
    from scipy.stats import sem

    figure, (axes,) = panels(1, 3.1)
    rows, off, far, ratios = [], [0.0], [0.0], []
    for at, (split, pmin) in enumerate((split, pmin) for split in splits for pmin in pmins):
        p = paper_availability(split, pmin)
        waits = expected_waits(p)
        colour, line = COLOURS[at % len(COLOURS)], "--" if at >= len(pmins) else "-"
        axes.plot(np.arange(1, 101), waits, color=colour, ls=line, label=f"{split}, p_min {pmin:g}")
        for size in sizes:
            wait, known = float(waits[size - 1]), WAITS.get((split, pmin), {}).get(size)
            drawn = simulated_waits(p, size, repeats, seed)
            gaps = played(rule(cohort_size=size, seed=seed), p, rounds, seed)
            error, spread = sem(drawn, ddof=0), sem(gaps, ddof=0)
            axes.errorbar(size, gaps.mean(), 2 * spread, color=colour, marker=MARKERS[at % 7], ls="none", capsize=2)
            off.append(abs(wait - known) if known else 0.0)
            far += [abs(drawn.mean() - wait) / error, abs(gaps.mean() - wait) / spread]
            simulated, by_rule = f"{drawn.mean():.3f} ± {error:.3f}", f"{gaps.mean():.2f} ± {spread:.2f}"
            rows.append((split, pmin, size, known and f"{known:.3f}", f"{wait:.3f}", simulated, by_rule, 200 / wait))
        claim = f"S = N waits for E[W_N]/mean(1/p), {split}, p_min {pmin:g}"
        ratios.append(Finding(claim, float(waits[-1] / (1 / p).mean()), low=1))
    label(axes, "rounds until a cohort is complete", "cohort size S", "E[W_S] in rounds")
    axes.set_ylim(0, 55)
    axes.legend(title="curves: formula; marks: the rule ± 2 s.e.", title_fontsize=7, loc="upper left", ncols=2)
    columns = ("split", "p_min", "S", "golden", "formula", "simulated", "the rule", "updates in 200 rounds")
    findings = [
        Finding("formula and golden table differ by", max(off), high=5.01e-4),
        Finding("simulation and rule lie off the formula by, in s.e.", max(far), high=4),
        *ratios,
    ]
    return Outcome(columns, rows, findings, figure)


def played(rule: Aggregator, p: np.ndarray, rounds: int, seed: int) -> np.ndarray:
    """Rounds from one update to the next."""
    clients = isotropic(len(p), 1, sigma=0).federation()
    start = torch.zeros(1, dtype=torch.float64)
    updates = [update for _, update in play(rule, clients, coins(p, rounds, seed), start, inverse)]
    return np.diff([-1, *np.flatnonzero(np.diff([0, *updates]))])
