"""The exact limits of T·E‖w_T - w*‖² against the rules, and when memory beats importance sampling."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from impatient.theory import batched
from impatient.theory.limits import is_limit, mifa_leading, mifa_limit
from impatient.theory.processes import tau_bar
from impatient.theory.quadratics import Quadratics
from impatient.theory.report import BLACK, BLUE, NAMES, RED, Finding, Outcome, label, panels
from impatient.theory.settings import Chance, Group


class Case(Group):
    """N devices on a line, centres u evenly on [-spread, spread], chances p evenly on [low, high], noise sigma."""

    low: Chance
    high: Chance
    spread: NonNegativeFloat
    sigma: NonNegativeFloat

    @model_validator(mode="after")
    def _ordered(self) -> "Case":
        if self.low > self.high:
            raise ValueError("must have low <= high")
        return self


def run(
    seed: int,
    cases: Annotated[dict[str, Case], Field(min_length=1)],
    clients: Annotated[int, Field(ge=2)],
    rounds: Annotated[int, Field(ge=10)],
    repeats: Annotated[int, Field(ge=2)],
    dim: PositiveInt,
) -> Outcome:
    """Each case is played `repeats` times for `rounds` rounds with η = 1/(t+1), everybody there in round 0.

    dim: coordinates a repeat, all alike, to have more draws of the noise.
    """
    from scipy.stats import sem

    rows: list[Any] = []
    findings = []
    figure, (axes,) = panels(1, 2.9)
    for at, (name, case) in enumerate(cases.items()):
        p = np.linspace(case.low, case.high, clients)
        task = Quadratics(np.linspace(-case.spread, case.spread, clients)[:, None].repeat(dim, 1), case.sigma, seed)
        laws = {
            "mifa": mifa_limit(tau_bar(p), clients, task.noise) / dim,
            "fedavg_is": is_limit(p, task.noise, task.gap) / dim,
        }
        found = {}
        for (rule, law), colour, middle in zip(laws.items(), (BLUE, RED), (at - 0.18, at + 0.18), strict=True):
            masks = batched.coin_masks(p, rounds, repeats, seed, fresh=True)
            each = rounds * batched.errors(np.array([rounds]), rule, task, masks, repeats, prob=p)[0] / dim
            found[rule], error = float(each.mean()), float(sem(each))
            ratio, off = found[rule] / law, (found[rule] - law) / error
            bar: Any = {"color": colour, "alpha": 0.75, "label": NAMES[rule] if at == 0 else None}
            axes.bar(middle, found[rule], 0.32, yerr=2 * error, error_kw={"lw": 1, "capsize": 2}, **bar)
            axes.plot([middle - 0.18, middle + 0.18], [law, law], color=BLACK, lw=1.6)
            rows.append((name, NAMES[rule], law, f"{found[rule]:.4f} ± {error:.4f}", ratio, off))
            margin = 0.03 + 3 * error / law
            findings.append(Finding(f"{name}: {NAMES[rule]}, measured / predicted", ratio, 1 - margin, 1 + margin))
        ratio = found["mifa"] / found["fedavg_is"]
        if laws["mifa"] < laws["fedavg_is"]:
            findings.append(Finding(f"{name}: memory wins, MIFA / IS", ratio, 0, 1))
        else:
            findings.append(Finding(f"{name}: memory loses, MIFA / IS", ratio, 1))
        leading = mifa_leading(tau_bar(p), clients, task.noise) / dim
        rows.append((name, "paper's leading term", leading, "", None, None))
    columns = ("case", "rule", "predicted", "T·error, measured", "measured / predicted", "off, in s.e.")
    label(axes, "bars: measured ± 2 s.e.; lines: predicted", "", "T · E‖w_T - w*‖²")
    axes.set_xticks(range(len(cases)), [name.replace(", ", "\n") for name in cases])
    axes.grid(axis="x", visible=False)
    axes.legend()
    return Outcome(columns, rows, findings, figure)
