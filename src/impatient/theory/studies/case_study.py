"""How many rounds MIFA and device sampling need to the same error: measured, in the limit, and by leading terms."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from impatient.checks import ConfigError, check, integer, number
from impatient.theory import batched
from impatient.theory.limits import mifa_leading, mifa_limit, rounds_to, sampling_leading, sampling_limit
from impatient.theory.paper import paper_availability
from impatient.theory.report import BLACK, BLUE, COLOURS, Finding, Outcome, label, panels
from impatient.theory.simulate import Quadratics, isotropic
from impatient.theory.waiting import cohort_wait

TAIL = 1.6  # how far past the predicted end a run goes, so that late returns above ε count


def run(
    seed: int,
    split: str,
    pmins: Sequence[float],
    sizes: Sequence[int],
    target: int,
    spread: float,
    repeats: int,
    dim: int,
) -> Outcome:
    """N = 100 quadratics with the paper's p_i, η = 1/(t+1) in updates t.

    ε is MIFA's limit divided by `target`, so that MIFA should take that many rounds and, before them, the E[W_N] in
    which it waits for every first answer. sizes: the cohorts S. Rounds to ε are those in which the error, a mean over
    `repeats` runs of `dim` coordinates, is above ε.
    """
    check(
        integer("target", target, 50),
        integer("repeats", repeats, 1),
        integer("dim", dim, 1),
        number("spread", spread, 0),
        *(integer("sizes", size, 1, 100) for size in sizes),
    )
    if not pmins or not sizes:
        raise ConfigError("pmins, sizes: are empty; give at least one of each")
    task = isotropic(100, dim, spread, seed=seed)
    figure, axes = panels(len(pmins))
    rows: list[Any] = []
    findings = []
    for ax, pmin in zip(axes, pmins, strict=True):
        p = paper_availability(split, pmin)
        limit = mifa_limit(p, task.noise)
        eps = limit / target
        own = round(target + cohort_wait(p, 100))
        mine = rounds_above("mifa", task, p, eps, own, repeats, seed, None, ax, "MIFA", BLUE)
        rows.append((pmin, "MIFA", own, mine, None, None, None, None))
        for at, size in enumerate(sizes):
            law = sampling_limit(p, task.noise, task.gap, size)
            expected = round(rounds_to(eps, law))
            colour, name = COLOURS[1 + at % 6], f"sampling S = {size}"
            found = rounds_above("fedavg_sampling", task, p, eps, expected, repeats, seed, size, ax, name, colour)
            paper = sampling_leading(p, task.noise, size) / mifa_leading(p, task.noise)
            rows.append((pmin, name, expected, found, expected / own, found / mine, law / limit, paper))
            findings.append(Finding(f"p_min {pmin:g}, {name}: slower than MIFA, times", found / mine, low=1))
            ratio = found / mine / (expected / own)
            findings.append(Finding(f"p_min {pmin:g}, {name}: ratio measured / predicted", ratio, 0.85, 1.15))
            findings.append(
                Finding(f"p_min {pmin:g}, {name}: ratio measured / leading terms'", found / mine / paper, high=1)
            )
        ax.axhline(eps, color=BLACK, ls=":", lw=1)
        label(ax, f"{split}, p_min {pmin:g}; dotted: ε", "communication rounds", "E‖w - w*‖²", log="xy")
        ax.legend()
    columns = ("p_min", "rule", "rounds predicted", "measured", "times MIFA predicted", "measured", "as ε → 0",
               "by leading terms")  # fmt: skip
    return Outcome(columns, rows, findings, figure)


def rounds_above(
    rule: str,
    task: Quadratics,
    p: np.ndarray,
    eps: float,
    expected: int,
    repeats: int,
    seed: int,
    size: int | None,
    ax: Axes,
    name: str,
    colour: str,
) -> int:
    """The number of rounds with mean error above ε, in a run TAIL times as long as expected; its curve is drawn."""
    rounds = round(TAIL * expected) + 50
    masks = batched.coin_masks(p, rounds, repeats, seed)
    models = batched.play(rule, task, masks, lambda k: 1 / (k + 1), repeats, cohort_size=size, seed=seed)
    error = np.array([np.square(w - task.optimum).sum(1).mean() for w in models])
    at = batched.checkpoints(rounds, 200) - 1
    ax.plot(at + 1, error[at], color=colour, ls="--" if size else "-", marker="o" if size == 100 else "", markevery=20,
            label=name)  # fmt: skip
    return int((error > eps).sum())
