"""How many rounds MIFA and device sampling need to the same error: measured, in the limit, and by leading terms."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveInt

from impatient.theory import batched
from impatient.theory.limits import mifa_leading, mifa_limit, sampling_leading, sampling_limit
from impatient.theory.paper import Split, paper_availability
from impatient.theory.processes import tau_bar
from impatient.theory.quadratics import isotropic
from impatient.theory.report import BLACK, COLOURS, Finding, Outcome, label, panels
from impatient.theory.settings import Chance, Cohort, Some
from impatient.theory.waiting import expected_waits

TAIL = 1.6  # how far past the predicted end a run goes, so that late returns above ε count


def run(
    seed: int,
    split: Split,
    pmins: Some[Chance],
    sizes: Some[Cohort],
    target: Annotated[int, Field(ge=50)],
    spread: NonNegativeFloat,
    repeats: PositiveInt,
    dim: PositiveInt,
) -> Outcome:
    """N = 100 quadratics with the paper's p_i, η = 1/(t+1) in updates t.

    ε is MIFA's limit divided by `target`, so that MIFA should take that many rounds and, before them, the E[W_N] in
    which it waits for every first answer. sizes: the cohorts S. Rounds to ε are those in which the error, a mean over
    `repeats` runs of `dim` coordinates, is above ε.
    """
    task = isotropic(100, dim, spread, seed=seed)
    figure, axes = panels(len(pmins))
    rows: list[Any] = []
    findings = []
    for ax, pmin in zip(axes, pmins, strict=True):
        p = paper_availability(split, pmin)
        limit, leading = (law(tau_bar(p), 100, task.noise) for law in (mifa_limit, mifa_leading))
        eps = limit / target
        laws = {size: sampling_limit(p, task.noise, task.gap, size) for size in sizes}
        expected = {0: round(target + expected_waits(p)[-1])} | {size: round(law / eps) for size, law in laws.items()}
        found = {}
        for at, (size, rounds) in enumerate(expected.items()):  # 0 is MIFA
            name = f"sampling S = {size}" if size else "MIFA"
            longer = round(TAIL * rounds) + 50
            rule, masks = "fedavg_sampling" if size else "mifa", batched.coin_masks(p, longer, repeats, seed)
            options = {"cohort_size": size, "seed": seed}
            error = batched.errors(np.arange(1, longer + 1), rule, task, masks, repeats, **options).mean(1)
            found[size] = int((error > eps).sum())
            shown = batched.checkpoints(longer, 200, 1)
            line: Any = {"ls": "--" if size else "-", "marker": "o" if size == 100 else "", "markevery": 20}
            ax.plot(shown, error[shown - 1], color=COLOURS[at % len(COLOURS)], label=name, **line)
            if not size:
                rows.append((pmin, name, rounds, found[0], None, None, None, None))
                continue
            foretold, times = rounds / expected[0], found[size] / found[0]
            paper = sampling_leading(p, task.noise, size) / leading
            rows.append((pmin, name, rounds, found[size], foretold, times, laws[size] / limit, paper))
            claim = f"p_min {pmin:g}, {name}: "
            findings += [
                Finding(f"{claim}slower than MIFA, times", times, low=1),
                Finding(f"{claim}ratio measured / predicted", times / foretold, 0.85, 1.15),
                Finding(f"{claim}ratio measured / leading terms'", times / paper, high=1),
            ]
        ax.axhline(eps, color=BLACK, ls=":", lw=1)
        label(ax, f"{split}, p_min {pmin:g}; dotted: ε", "communication rounds", "E‖w - w*‖²", log="xy")
        ax.legend()
    columns = ("p_min", "rule", "rounds predicted", "measured", "times MIFA predicted", "measured", "as ε → 0",
               "by leading terms")  # fmt: skip
    return Outcome(columns, rows, findings, figure)
