"""What commands print: the federation at a run's start, its results, metrics, and what the laws say of a plug-in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from impatient.availability.base import Availability
from impatient.contract.verdict import Report
from impatient.data.dataset import Clients, Dataset


def show_federation(data: Dataset, clients: Clients, availability: Availability) -> None:
    """Samples and classes a client, and how often clients are there."""
    table = Table(title=f"{data.name}: {len(clients)} clients", title_justify="left")
    for column in ("", "min", "median", "max"):
        table.add_column(column, justify="left" if not column else "right")
    _spread(table, "samples a client", clients.sizes)
    if data.classes:
        _spread(table, "classes a client", (clients.labels > 0).sum(1))
        _spread(table, "clients a class", (clients.labels > 0).sum(0))
    prob = availability.stationary()
    if prob is not None:
        _spread(table, "availability p_i", prob.numpy())
    Console().print(table)


def _spread(table: Table, name: str, values: np.ndarray) -> None:
    table.add_row(name, *(f"{v:.4g}" for v in (values.min(), np.median(values), values.max())))


def show_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """The final metrics and where everything was written."""
    table = Table(title="Results", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("rounds", str(summary["round"] + 1))
    table.add_row("updates", str(summary["update"]))
    for key in ("train/loss", "train/objective", "test/loss", "test/acc",
                "staleness/tau_bar", "staleness/tau_max_T", "wall_seconds"):  # fmt: skip
        if key in summary:
            value = summary[key]
            table.add_row(key, str(value) if isinstance(value, int) else f"{value:.4f}")
    for key, value in summary.items():
        if key.startswith("comm/"):
            table.add_row(key.replace("_bytes", ""), f"{value / 1e6:.3f} MB")
    console = Console()
    console.print(table)
    console.print(f"written to {folder}", soft_wrap=True, highlight=False)


def show_line(text: str, job: int | None) -> None:
    """A line in one piece, with the job's number in a sweep, where the lines of several may mix."""
    print(f"{'' if job is None else f'#{job}  '}{text}\n", end="", flush=True)


def show_metrics(title: str, metrics: Mapping[str, float]) -> None:
    """A name and a number a line."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for key, value in metrics.items():
        table.add_row(key, f"{value:.6f}")
    console = Console()
    console.print(title, soft_wrap=True, highlight=False, markup=False)
    console.print(table)


def show_laws(title: str, report: Report) -> None:
    """A table of the laws, and below it, in lines that nothing cuts, every reason and the outcome."""
    table = Table(title=Text(title, overflow="fold"), title_justify="left")
    for column in ("law", "", "says"):
        table.add_column(column, overflow="fold")
    for verdict in report.verdicts:
        outcome = verdict.outcome.upper() if verdict.outcome == "broken" else verdict.outcome
        table.add_row(verdict.law, outcome, Text(verdict.says))
    Console().print(table)
    for line in report.raised:
        print(line)
    reasons: dict[tuple[str, str], list[str]] = {}
    for verdict in report.verdicts:
        if verdict.outcome != "holds":
            reasons.setdefault((verdict.outcome, verdict.why), []).append(verdict.law)
    for (outcome, why), names in reasons.items():
        print(f"{', '.join(names)}: {outcome}: {why}")
    broken, count = report.named("broken"), len(report.verdicts)
    if broken:
        print(f"{len(broken)} of {count} laws broken: {', '.join(broken)}")
    elif not report.raised:
        print(f"no law is broken, {len(report.named('holds'))} of {count} hold")
