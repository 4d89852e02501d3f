"""Absences as long as the assumptions let them be: what the checker says, what MIFA does, what biased FedAvg does."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from impatient.checks import check, integer, number
from impatient.theory import adversary, batched
from impatient.theory.assumptions import verdict
from impatient.theory.limits import full_limit, mifa_limit_of
from impatient.theory.processes import coins
from impatient.theory.report import BLACK, COLOURS, MARKERS, Finding, Outcome, label, panels, slope
from impatient.theory.simulate import Quadratics
from impatient.theory.staleness import staleness, tau

CONVERGES = ("coins", "classes in turn", "bounded", "log t", "√t")


def masks_of(clients: int, rounds: int, b: float, nu: int, seed: int) -> dict[str, np.ndarray]:
    """Masks bool [T, N]: the first half of the devices is always there, the second comes and goes.

    Within the second half, presence of one round follows each absence, out of step; only in "classes in turn"
    does everybody take turns, in five groups.
    """
    half = clients // 2
    start = [1 + 3 * i for i in range(clients - half)]
    laws = {
        "bounded": adversary.constant(nu),
        "log t": adversary.logarithmic(1),
        "√t": adversary.root(),
        "t/b": adversary.linear(1, b),
    }
    there = np.ones((rounds, half), dtype=bool)
    blocks = {name: adversary.greedy(rounds, law, [1] * len(start), start) for name, law in laws.items()}
    return {
        "coins": coins([1.0] * half + [0.1] * len(start), rounds, seed),
        "classes in turn": adversary.by_label([i * 5 // clients for i in range(clients)], rounds, nu),
        **{name: np.concatenate([there, block], 1) for name, block in blocks.items()},
    }


def run(seed: int, clients: int, rounds: int, repeats: int, dim: int, b: float, nu: int, sigma: float) -> Outcome:
    """Quadratics with u = 0 where devices are always there and 2 where they come and go, so w* = 1, η = 1/(t+1).

    b: of tau ≤ t0 + t/b, nu: of the bounded masks. Columns: the exponent of tau_max,t in t; the least t0; whether
    tau_max,T is small beside T, and still grew in the second half (assumption 8 fails); errors at T, MIFA's beside its
    law (2 tau_bar_T + 1)σ²/NT and with its slope from T/16 on.
    """
    check(
        integer("clients", clients, 10),
        integer("rounds", rounds, 64),
        integer("repeats", repeats, 2),
        integer("dim", dim, 1),
        integer("nu", nu, 1),
        number("b", b, 1, open_low=True),
        number("sigma", sigma, 0, open_low=True),
    )
    u = np.where(np.arange(clients) < clients // 2, 0.0, 2.0)[:, None].repeat(dim, 1)
    task = Quadratics(u, np.ones_like(u), sigma, seed)
    at = batched.checkpoints(rounds, 40, first=8)
    figure, (away, error) = panels(2)
    rows: list[Any] = []
    findings: list[Finding] = []
    for k, (name, mask) in enumerate(masks_of(clients, rounds, b, nu, seed).items()):
        says = verdict(mask, b)
        line: Any = {"color": COLOURS[k], "marker": MARKERS[k], "markevery": (k, 8)}
        errors = {rule: errors_of(rule, task, mask, at, repeats) for rule in ("mifa", "fedavg_biased")}
        mifa, biased = errors["mifa"], errors["fedavg_biased"]
        late = at >= rounds // 16
        fall = slope(at[late], mifa[late])
        law = np.array([mifa_limit_of(staleness(mask[:t]), task.noise) / t for t in at])
        seen = (says.tau_bar, says.tau_max, f"{says.growth:.2f}", f"{says.t0:.1f}", says.share < 0.1, not says.bounded)
        rows.append((name, *seen, f"{mifa[-1]:.2e}", f"{law[-1]:.2e}", f"{fall:.2f}", f"{biased[-1]:.2e}"))
        away.plot(at, np.maximum.accumulate(tau(mask).max(1))[at - 1], label=name, **line)
        error.plot(at, mifa, **line)
        error.plot(at, biased, **{**line, "ls": "--", "lw": 1})
        findings += _findings(name, mifa, biased, law)
    label(away, "longest absence so far", "rounds T", "tau_max,T", log="xy")
    away.legend()
    label(error, "solid: MIFA; dashed: biased FedAvg", "rounds T", "E‖w_T - w*‖²", log="xy")
    error.plot(at, full_limit(clients, task.noise) / at, color=BLACK, ls=":", lw=1, label="everybody always there")
    error.legend(loc="lower left")
    columns = ("devices", "tau_bar", "tau_max", "exponent", f"t0, b = {b:g}", "< T/10", "still grows",
               "MIFA error", "foretold", "slope", "biased error")  # fmt: skip
    return Outcome(columns, rows, findings, figure)


def errors_of(rule: str, task: Quadratics, mask: np.ndarray, at: np.ndarray, repeats: int) -> np.ndarray:
    """The mean squared error at the checkpoints, over repeats of the noise."""
    models = batched.play(rule, task, batched.same_masks(mask, repeats), lambda k: 1 / (k + 1), repeats)
    return batched.squared_errors(models, task.optimum, at).mean(1)


def _findings(name: str, mifa: np.ndarray, biased: np.ndarray, law: np.ndarray) -> Sequence[Finding]:
    ratio = Finding(f"{name}: MIFA's error / (2 tau_bar_T + 1)σ²/NT", mifa[-1] / law[-1], 0.5, 2)
    if name not in CONVERGES:
        return [Finding(f"{name}: MIFA does not converge, error at T / at T/16", mifa[-1] / mifa[len(mifa) // 2], 0.2)]
    if name == "classes in turn":  # its time average is fair
        return [ratio]
    return [ratio, Finding(f"{name}: biased FedAvg's error / MIFA's", biased[-1] / mifa[-1], 10)]
