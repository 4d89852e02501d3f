"""Absences as long as the assumptions let them be: what the checker says, what MIFA does, what biased FedAvg does."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from impatient.theory import batched
from impatient.theory.adversary import by_label, greedy
from impatient.theory.limits import mifa_limit
from impatient.theory.processes import coins
from impatient.theory.quadratics import Quadratics
from impatient.theory.report import BLACK, COLOURS, MARKERS, Finding, Outcome, label, panels, slope
from impatient.theory.staleness import growth, longest_so_far, smallest_t0, still_grows, tau

CONVERGES = ("coins", "classes in turn", "bounded", "log t", "√t")


def masks_of(clients: int, rounds: int, b: float, nu: int, seed: int) -> dict[str, np.ndarray]:
    """Masks bool [T, N]: the first half of the devices is always there, the second comes and goes.

    Within the second half, presence of one round follows each absence, out of step; only in "classes in turn"
    does everybody take turns, in five groups.
    """
    half, t = clients // 2, np.arange(rounds)
    start = [1 + 3 * i for i in range(clients - half)]
    there = np.ones((rounds, half), dtype=bool)
    limits = {"bounded": nu + 0 * t, "log t": 1 + np.log1p(t), "√t": np.sqrt(t), "t/b": 1 + t / b}
    return {
        "coins": coins([1.0] * half + [0.1] * len(start), rounds, seed),
        "classes in turn": by_label([i * 5 // clients for i in range(clients)], rounds, nu),
        **{name: np.concatenate([there, greedy(limit, start)], 1) for name, limit in limits.items()},
    }


def run(
    seed: int,
    clients: Annotated[int, Field(ge=10)],
    rounds: Annotated[int, Field(ge=64)],
    repeats: Annotated[int, Field(ge=2)],
    dim: PositiveInt,
    b: Annotated[float, Field(gt=1)],
    nu: PositiveInt,
    sigma: PositiveFloat,
) -> Outcome:
    """Quadratics with u = 0 where devices are always there and 2 where they come and go, so w* = 1, η = 1/(t+1).

    b: of tau ≤ t0 + t/b, nu: of the bounded masks. Columns: the exponent of tau_max,t in t; the least t0; whether
    tau_max,T is small beside T, and still grew in the second half (assumption 8 fails); errors at T, MIFA's beside its
    law (2 tau_bar_T + 1)σ²/NT and with its slope from T/16 on.
    """
    task = Quadratics(np.where(np.arange(clients) < clients // 2, 0.0, 2.0)[:, None].repeat(dim, 1), sigma, seed)
    at = batched.checkpoints(rounds, 40, first=8)
    figure, (absence, error) = panels(2)
    rows: list[Any] = []
    findings: list[Finding] = []
    for k, (name, mask) in enumerate(masks_of(clients, rounds, b, nu, seed).items()):
        away = tau(mask)
        longest = longest_so_far(away)
        same = [np.broadcast_to(row, (repeats, clients)) for row in mask]
        mifa, biased = (batched.errors(at, rule, task, same, repeats).mean(1) for rule in ("mifa", "fedavg_biased"))
        late = at >= rounds // 16
        fall = slope(at[late], mifa[late])
        law = np.array([mifa_limit(float(away[:t].mean()), clients, task.noise) / t for t in at])
        seen = (float(away.mean()), int(longest[-1]), f"{growth(away):.2f}", f"{smallest_t0(away, b):.1f}")
        verdicts = (bool(longest[-1] / rounds < 0.1), still_grows(away))
        rows.append((name, *seen, *verdicts, f"{mifa[-1]:.2e}", f"{law[-1]:.2e}", f"{fall:.2f}", f"{biased[-1]:.2e}"))
        line: Any = {"color": COLOURS[k], "marker": MARKERS[k], "markevery": (k, 8)}
        absence.plot(at, longest[at - 1], label=name, **line)
        error.plot(at, mifa, **line)
        error.plot(at, biased, **line, ls="--", lw=1)
        findings += _findings(name, mifa, biased, law)
    label(absence, "longest absence so far", "rounds T", "tau_max,T", log="xy")
    absence.legend()
    label(error, "solid: MIFA; dashed: biased FedAvg", "rounds T", "E‖w_T - w*‖²", log="xy")
    error.plot(at, mifa_limit(0, clients, task.noise) / at, color=BLACK, ls=":", lw=1, label="everybody always there")
    error.legend(loc="lower left")
    columns = ("devices", "tau_bar", "tau_max", "exponent", f"t0, b = {b:g}", "< T/10", "still grows",
               "MIFA error", "foretold", "slope", "biased error")  # fmt: skip
    return Outcome(columns, rows, findings, figure)


def _findings(name: str, mifa: np.ndarray, biased: np.ndarray, law: np.ndarray) -> list[Finding]:
    ratio = Finding(f"{name}: MIFA's error / (2 tau_bar_T + 1)σ²/NT", mifa[-1] / law[-1], 0.5, 2)
    if name not in CONVERGES:
        return [Finding(f"{name}: MIFA does not converge, error at T / at T/16", mifa[-1] / mifa[len(mifa) // 2], 0.2)]
    if name == "classes in turn":  # its time average is fair
        return [ratio]
    return [ratio, Finding(f"{name}: biased FedAvg's error / MIFA's", biased[-1] / mifa[-1], 10)]
