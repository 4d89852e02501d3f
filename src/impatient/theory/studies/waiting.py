"""The waiting time of device sampling: formula, golden table, simulation and the product's rule."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError, check, integer
from impatient.theory.paper import WAITS, paper_availability
from impatient.theory.processes import coins
from impatient.theory.report import COLOURS, MARKERS, Finding, Outcome, label, panels
from impatient.theory.simulate import isotropic, play
from impatient.theory.waiting import expected_waits, simulate


def run(
    seed: int,
    rule: Callable[..., Aggregator],
    splits: Sequence[str],
    pmins: Sequence[float],
    sizes: Sequence[int],
    repeats: int,
    rounds: int,
) -> Outcome:
    """rule: makes the product's device sampling for a cohort_size and a seed; it is played for `rounds` rounds.

    `repeats` cohorts and waits are drawn for the simulation.
    """
    if not splits or not pmins or not sizes:
        raise ConfigError("splits, pmins, sizes: are empty; give at least one of each")
    check(integer("repeats", repeats, 2), integer("rounds", rounds, 100), *(integer("sizes", s, 1, 100) for s in sizes))
    figure, (axes,) = panels(1, 3.1)
    rows, off, far, ratios = [], [0.0], [0.0], {}
    for at, (split, pmin) in enumerate((split, pmin) for split in splits for pmin in pmins):
        p = paper_availability(split, pmin)
        waits = expected_waits(p)
        colour = COLOURS[at % len(COLOURS)]
        line = "--" if at >= len(pmins) else "-"
        axes.plot(np.arange(1, 101), waits, color=colour, ls=line, label=f"{split}, p_min {pmin:g}")
        for size in sizes:
            wait, known = float(waits[size - 1]), WAITS.get((split, pmin), {}).get(size)
            drawn = simulate(p, size, repeats, seed)
            error = float(drawn.std() / np.sqrt(repeats))
            gaps = played(rule(cohort_size=size, seed=seed), p, rounds, seed)
            spread = float(gaps.std() / np.sqrt(len(gaps)))
            axes.errorbar(size, gaps.mean(), 2 * spread, color=colour, marker=MARKERS[at % 7], ls="none", capsize=2)
            off.append(abs(wait - known) if known else 0.0)
            far += [abs(drawn.mean() - wait) / error, abs(gaps.mean() - wait) / spread]
            known_text = known and f"{known:.3f}"
            simulated, by_rule = f"{drawn.mean():.3f} ± {error:.3f}", f"{gaps.mean():.2f} ± {spread:.2f}"
            rows.append((split, pmin, size, known_text, f"{wait:.3f}", simulated, by_rule, 200 / wait))
        ratios[split, pmin] = float(waits[-1] / (1 / p).mean())
    label(axes, "rounds until a cohort is complete", "cohort size S", "E[W_S] in rounds")
    axes.set_ylim(0, 55)
    axes.legend(title="curves: formula; marks: the rule ± 2 s.e.", title_fontsize=7, loc="upper left", ncols=2)
    columns = ("split", "p_min", "S", "golden", "formula", "simulated", "the rule", "updates in 200 rounds")
    findings = [
        Finding("formula and golden table differ by", max(off), high=5.01e-4),
        Finding("simulation and rule lie off the formula by, in s.e.", max(far), high=4),
        *(
            Finding(f"S = N waits for E[W_N]/mean(1/p), {split}, p_min {pmin:g}", ratio, low=1)
            for (split, pmin), ratio in ratios.items()
        ),
    ]
    return Outcome(columns, rows, findings, figure)


def played(rule: Aggregator, p: np.ndarray, rounds: int, seed: int) -> np.ndarray:
    """Rounds from one update to the next."""
    clients = isotropic(len(p), 1, sigma=0).federation()
    start = torch.zeros(1, dtype=torch.float64)
    updates = [done.update for done in play(rule, clients, coins(p, rounds, seed), start, lambda k: 1 / (k + 1))]
    moved = np.flatnonzero(np.diff([0, *updates]))
    return np.diff([-1, *moved])
