"""The table beside the curves: mean ± std over seeds, as Markdown, CSV and on the terminal."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table as RichTable

from impatient.plots import names
from impatient.plots.curves import mean_std, value_at
from impatient.plots.sheets import Sheet, evaluated, having, reaching


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

    @property
    def caption(self) -> str:
        """What the numbers are."""
        return f"{self.data}, after round {self.at}: mean ± standard deviation over seeds"


def table(sheet: Sheet, at: int | None = None) -> tuple[Table, list[str]]:
    """Each metric as last evaluated at or before round `at`, by default the last round that every run has.

    Best is the mean that is lowest (a loss or objective) or highest (an accuracy) among the settings of a panel; other
    metrics have no best. A setting none of whose runs gets as far as `at` has no value.

    Raises ConfigError where no run gets as far.
    """
    groups, at, notes = reaching(sheet.groups, at, f"the table of {sheet.data}")
    notes += evaluated(groups, sheet.metrics, at)
    rows = []
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
    head = [*([names.name(t.panel)] if t.panel else []), "rule", "seeds", *map(names.name, t.metrics)]
    right = len(t.metrics) + 1
    lines = [
        f"{t.caption}.",
        "",
        _pipes(head),
        "|" + "---|" * (len(head) - right) + "---:|" * right,
    ]
    for row in t.rows:
        values = [f"**{c}**" if best else c for c, best in zip(_cells(row), row.best, strict=True)]
        front = [names.value(t.panel, row.panel)] if t.panel else []
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


def on_terminal(t: Table, width: int = 80) -> list[RichTable]:
    """For rich's console, `width` columns wide; the best in bold.

    Where that is too narrow, rules break at their commas, and metrics stand in tables below each other. Nothing else is
    broken and nothing cut: a table that still does not fit is wider than `width`, to be printed with crop=False.
    """
    panel = [_column(names.name(t.panel), [names.value(t.panel, row.panel) for row in t.rows])] if t.panel else []
    seeds = _column("seeds", [str(max(row.seeds)) for row in t.rows])
    cells = [[_cells(row)[m].replace(" (", "\n(") for row in t.rows] for m in range(len(t.metrics))]
    metrics = [_column(names.name(metric), column) for metric, column in zip(t.metrics, cells, strict=True)]
    rule = _column("rule", [row.label for row in t.rows])
    if _width([*panel, rule, seeds, max(metrics, key=lambda m: m.width)]) > width:
        rule = _column("rule", [row.label.replace(", ", ",\n") for row in t.rows])
    front = [*panel, rule, seeds]
    made: list[list[int]] = []
    for m in range(len(metrics)):
        if made and _width([*front, *(metrics[i] for i in made[-1]), metrics[m]]) <= width:
            made[-1].append(m)
        else:
            made.append([m])
    return [_drawn(t, front, [(metrics[m], [row.best[m] for row in t.rows]) for m in some]) for some in made]


@dataclass(frozen=True)
class _Column:
    head: str
    cells: list[str]
    width: int


def _column(head: str, cells: list[str]) -> _Column:
    return _Column(head, cells, max(cell_len(line) for text in (head, *cells) for line in text.split("\n")))


def _width(columns: Sequence[_Column]) -> int:
    return 1 + sum(3 + column.width for column in columns)  # an edge, and a blank to either side


def _drawn(t: Table, front: Sequence[_Column], metrics: Sequence[tuple[_Column, list[bool]]]) -> RichTable:
    """`metrics`: each with which rows are best."""
    shown = RichTable(width=_width([*front, *(column for column, _ in metrics)]))
    for column in front:
        shown.add_column(escape(column.head), no_wrap=True, justify="right" if column.head == "seeds" else "left")
    for column, _ in metrics:
        shown.add_column(escape(column.head), no_wrap=True, justify="right")
    for i, row in enumerate(t.rows):
        if i and row.panel != t.rows[i - 1].panel:
            shown.add_section()
        values = [f"[bold]{column.cells[i]}[/bold]" if best[i] else column.cells[i] for column, best in metrics]
        shown.add_row(*(escape(column.cells[i]) for column in front), *values)
    return shown
