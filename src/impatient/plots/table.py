"""The table beside the curves: mean ± std over seeds, as Markdown, CSV and on the terminal."""

import csv
import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table as RichTable

from impatient.checks import ConfigError
from impatient.plots import style
from impatient.plots.curves import mean_std, value_at
from impatient.plots.sheets import Sheet, having


@dataclass(frozen=True)
class Row:
    """One setting: panel's value, label; for each metric seeds, mean, std (NaN for one seed), whether it is best."""

    panel: Any
    label: str
    seeds: list[int]
    mean: list[float]
    std: list[float]
    best: list[bool]


@dataclass(frozen=True)
class Table:
    """The rows of one data set after round `at`."""

    data: str
    panel: str | None
    metrics: list[str]
    at: int
    rows: list[Row]


def table(sheet: Sheet, at: int | None = None) -> tuple[Table, list[str]]:
    """Each metric as last evaluated at or before round `at`, by default the last round that every run has.

    Best is the mean that is lowest (a loss or objective) or highest (an accuracy) among the settings of a panel; other
    metrics have no best. A setting none of whose runs gets as far as `at` has no value.

    Raises ConfigError where no run gets as far.
    """
    ends = [int(run.column("round")[-1]) for g in sheet.groups for run in g.runs]
    notes, rows = [], []
    if at is not None and at > max(ends):
        raise ConfigError(f"at={at}: the longest run of {sheet.data} goes to round {max(ends)}; ask for one up to that")
    if at is None:
        at = min(ends)
        if max(ends) > at:
            notes.append(
                f"the table is of round {at}, the last one that every run has; the longest goes to {max(ends)}"
            )
    if late := [str(run.folder) for g in sheet.groups for run in g.runs if run.column("round")[-1] < at]:
        some = ", ".join(late[:3]) + (" …" if len(late) > 3 else "")
        notes.append(f"at={at}: {len(late)} of {len(ends)} runs do not get there and are left out of the table: {some}")
    for g in sheet.groups:
        mean, std, seeds = [], [], []
        for metric in sheet.metrics:
            runs = [r for one in having(sheet, metric) if one.key == g.key for r in one.runs]
            values = np.array([value_at(run, metric, at) for run in runs if run.column("round")[-1] >= at])
            seeds.append(len(values))
            centre, spread = mean_std(values[:, None]) if len(values) else (np.full(1, math.nan), np.full(1, math.nan))
            mean.append(float(centre[0]))
            std.append(float(spread[0]))
        rows.append(Row(g.panel, g.label, seeds, mean, std, []))
    return Table(sheet.data, sheet.panel, sheet.metrics, at, _judged(rows, sheet.metrics)), notes


def _judged(rows: list[Row], metrics: list[str]) -> list[Row]:
    judged = []
    for row in rows:
        peers = [r for r in rows if r.panel == row.panel]
        best = []
        for m, metric in enumerate(metrics):
            words = metric.split("/")
            sign = 1 if "acc" in words else -1 if any("loss" in w or w == "objective" for w in words) else 0
            rivals = [sign * r.mean[m] for r in peers if math.isfinite(r.mean[m])]
            best.append(bool(sign) and len(rivals) > 1 and sign * row.mean[m] == max(rivals))
        judged.append(Row(row.panel, row.label, row.seeds, row.mean, row.std, best))
    return judged


def cell(mean: float, std: float) -> str:
    """0.4283 ± 0.0010; four significant digits where that would say nothing; — for no value."""
    if not math.isfinite(mean):
        return "—"
    form = "{:.4f}" if 1e-3 <= abs(mean) < 1e4 or mean == 0 else "{:.4g}"
    text = form.format(mean)
    return f"{text} ± {form.format(std) if std else '0'}" if math.isfinite(std) else text


def markdown(t: Table) -> str:
    """A caption and a pipe table; the best in bold."""
    head = [*([t.panel] if t.panel else []), "rule", "seeds", *map(style.name, t.metrics)]
    right = len(t.metrics) + 1
    lines = [
        f"{t.data}, after round {t.at}: mean ± standard deviation over seeds.",
        "",
        _pipes(head),
        "|" + "---|" * (len(head) - right) + "---:|" * right,
    ]
    for row in t.rows:
        values = [f"**{c}**" if best else c for c, best in zip(_cells(row), row.best, strict=True)]
        front = [str(row.panel)] if t.panel else []
        lines.append(_pipes([*front, row.label, str(max(row.seeds)), *values]))
    return "\n".join(lines) + "\n"


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def _cells(row: Row) -> list[str]:
    most, cells = max(row.seeds), []
    for mean, std, seeds in zip(row.mean, row.std, row.seeds, strict=True):
        cells.append(cell(mean, std) + (f" ({seeds} of {most} seeds)" if 0 < seeds < most else ""))
    return cells


def as_csv(t: Table) -> str:
    """data, the panel's key, rule, seeds, round, then three columns a metric: mean, std, seeds, in full precision."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    panel = [t.panel] if t.panel else []
    write(
        [
            "data",
            *panel,
            "rule",
            "seeds",
            "round",
            *(f"{m} {what}" for m in t.metrics for what in ("mean", "std", "seeds")),
        ]
    )
    for row in t.rows:
        values = [v for some in zip(row.mean, row.std, row.seeds, strict=True) for v in some]
        front = [row.panel] if t.panel else []
        write([t.data, *front, row.label, max(row.seeds), t.at, *("" if math.isnan(v) else v for v in values)])
    return out.getvalue()


def on_terminal(t: Table) -> RichTable:
    """For rich's console; the best in bold."""
    shown = RichTable(title=f"{t.data}, after round {t.at}: mean ± std over seeds", title_justify="left")
    if t.panel:
        shown.add_column(t.panel.split(".")[-1])
    shown.add_column("rule", overflow="fold")
    shown.add_column("seeds", justify="right")
    for metric in t.metrics:
        shown.add_column(style.name(metric), justify="right")
    before: Any = object()
    for row in t.rows:
        if t.panel and before is not row.panel and shown.row_count and row.panel != before:
            shown.add_section()
        before = row.panel
        front = [str(row.panel)] if t.panel else []
        values = [f"[bold]{c}[/bold]" if best else c for c, best in zip(_cells(row), row.best, strict=True)]
        shown.add_row(*front, row.label.replace("[", r"\["), str(max(row.seeds)), *values)
    return shown
