"""The table beside the curves: mean ± std over seeds, as Markdown, CSV and on the terminal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from impatient.plots import names
from impatient.plots.bands import mean_std, value_at
from impatient.plots.comparison import Comparison, reaching


@dataclass(frozen=True)
class Table:
    """A row a setting. caption: what the numbers are; numbers: as CSV; texts: as Markdown, the best within ** and **.

    texts: indexed by the values of the panels' key; columns: the panels' key, rule, seeds, then a column a metric.
    numbers: NaN where there is no value, and for the std of one seed.
    """

    caption: str
    numbers: pd.DataFrame
    texts: pd.DataFrame


def table(made: Comparison, at: int | None = None) -> tuple[Table, list[str]]:
    """Each metric as last evaluated at or before round `at`, by default the last round that every run has; and notes.

    Best is the mean that is lowest (a loss or objective) or highest (an accuracy) among the settings of a panel; other
    metrics have no best. A setting none of whose runs gets as far as `at` has no value.

    Raises ConfigError where no run gets as far.
    """
    _, at, notes = reaching(made.groups, made.metrics, at, f"the table of {made.data}")
    rows = []
    for g in made.groups:
        values: dict[str, float] = {}
        for metric in made.metrics:
            each = [value_at(run, metric, at) for run in g.runs if run.last >= at and len(run.evaluated(metric))]
            mean, std = mean_std(each or [math.nan])
            values |= {f"{metric} mean": float(mean), f"{metric} std": float(std), f"{metric} seeds": len(each)}
        panel = {made.panel: g.panel} if made.panel else {}
        seeds = max(values[f"{metric} seeds"] for metric in made.metrics)
        rows.append({"data": made.data, **panel, "rule": g.label, "seeds": seeds, "round": at, **values})
    numbers = pd.DataFrame(rows, dtype=object)
    caption = f"{made.data}, after round {at}: mean ± standard deviation over seeds"
    return Table(caption, numbers, in_words(numbers, made.panel, made.metrics)), notes


def in_words(numbers: pd.DataFrame, panel: str | None, metrics: Sequence[str]) -> pd.DataFrame:
    """A Table's texts."""
    panels = list(numbers[panel]) if panel else [None] * len(numbers)
    texts = pd.DataFrame({"rule": numbers["rule"], "seeds": numbers["seeds"].map(str)})
    if panel:
        texts.insert(0, names.name(panel), [names.value(panel, value) for value in panels])
    for metric in metrics:
        words = metric.split("/")
        sign = 1 if "acc" in words else -1 if any("loss" in w or w == "objective" for w in words) else math.nan
        score = sign * numbers[f"{metric} mean"].astype(float)
        peers = score.groupby([str(value) for value in panels])
        best = (score == peers.transform("max")) & (peers.transform("count") > 1)
        columns = [numbers[f"{metric} {what}"] for what in ("mean", "std", "seeds")]
        texts[names.name(metric)] = [
            f"**{text}**" if bold else text
            for text, bold in zip(map(cell, *columns, numbers["seeds"]), best, strict=True)
        ]
    return texts.set_axis(panels)


def cell(mean: float, std: float, seeds: int = 0, of: int = 0) -> str:
    """0.4283 ± 0.0010 (1 of 3 seeds); four significant digits where that would say nothing; — for no value."""
    form = "{:.4f}" if 1e-3 <= abs(mean) < 1e4 or mean == 0 else "{:.4g}"
    text = form.format(mean) if math.isfinite(mean) else "—"
    if math.isfinite(mean) and math.isfinite(std):
        text += f" ± {form.format(std) if std else '0'}"
    return text + (f" ({seeds} of {of} seeds)" if 0 < seeds < of else "")


def markdown(t: Table) -> str:
    """A caption and a pipe table; the best in bold."""
    lines = [list(t.texts), *t.texts.itertuples(index=False)]
    head, *body = ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines]
    left = list(t.texts).index("seeds")
    rule = "|" + "---|" * left + "---:|" * (len(lines[0]) - left)
    return "\n".join([f"{t.caption}.", "", head, rule, *body, ""])


def as_csv(t: Table) -> str:
    """In full precision."""
    return t.numbers.to_csv(index=False, lineterminator="\n")


def on_terminal(t: Table, width: int = 80) -> list[RichTable]:
    """For rich's console, `width` columns wide; the best in bold.

    Where that is too narrow, rules break at their commas, and metrics stand in tables below each other. Nothing else is
    broken and nothing cut: a table that still does not fit is wider than `width`, to be printed with crop=False.
    """
    texts = t.texts.copy()
    before = list(texts).index("seeds") + 1
    front, metrics = list(texts)[:before], list(texts)[before:]
    texts[metrics] = texts[metrics].replace(r" \(", "\n(", regex=True)

    def fit(*some: str) -> bool:
        return (_drawn(texts[[*front, *some]]).width or 0) <= width

    if not all(map(fit, metrics)):
        texts["rule"] = texts["rule"].str.replace(", ", ",\n")
    pieces: list[list[str]] = []
    for metric in metrics:
        if pieces and fit(*pieces[-1], metric):
            pieces[-1].append(metric)
        else:
            pieces.append([metric])
    return [_drawn(texts[front + piece]) for piece in pieces]


def _drawn(texts: pd.DataFrame) -> RichTable:
    """As wide as it needs to be, with a line between panels."""
    shown = RichTable()
    for i, head in enumerate(texts):
        shown.add_column(escape(head), no_wrap=True, justify="left" if i < list(texts).index("seeds") else "right")
    panels = list(texts.index)
    for i, line in enumerate(texts.itertuples(index=False)):
        if i and panels[i] != panels[i - 1]:
            shown.add_section()
        shown.add_row(*(f"[bold]{escape(t[2:-2])}[/bold]" if t.startswith("**") else escape(t) for t in line))
    shown.width = Console(width=10**6).measure(shown).maximum
    return shown
