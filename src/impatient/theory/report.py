"""What a study leaves behind: a table, findings and a picture, written and printed."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from impatient import files

if TYPE_CHECKING:  # drawing is imported where it is done
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, "Color universal design", 2008: told apart by every kind of colour vision.
BLUE, RED, GREEN, ORANGE, SKY, PINK, BLACK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000"
COLOURS = (BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
NAMES = {"mifa": "MIFA", "fedavg_biased": "biased FedAvg", "fedavg_is": "importance sampling"}
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}
HEAD = ("claim", "measured", "wanted", "holds")


@dataclass(frozen=True)
class Finding:
    """One claim and the number that bears on it: it holds if low ≤ measured ≤ high."""

    claim: str
    measured: float
    low: float = -float("inf")
    high: float = float("inf")

    @property
    def holds(self) -> bool:
        """Whether the number is where the claim wants it."""
        return bool(self.low <= self.measured <= self.high)

    @property
    def cells(self) -> tuple[str, float, str, bool]:
        """Its row under HEAD."""
        if np.isinf(self.low):
            wanted = f"at most {text(self.high)}"
        else:
            wanted = f"at least {text(self.low)}" if np.isinf(self.high) else f"{text(self.low)} to {text(self.high)}"
        return self.claim, self.measured, wanted, self.holds


@dataclass(frozen=True)
class Outcome:
    """A study's table, its findings and its picture."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    findings: Sequence[Finding]
    figure: "Figure" = field(repr=False)


def panels(count: int, height: float = 2.7) -> tuple["Figure", "list[Axes]"]:
    """A figure of `count` panels side by side; no global state, no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.3 * count + 0.2, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def label(axes: "Axes", title: str, x: str, y: str, log: str = "") -> None:
    """Title and axes; log names those that are logarithmic."""
    axes.set(title=title, xlabel=x, ylabel=y, **{f"{axis}scale": "log" for axis in log})


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """The exponent e of y ~ x^e, by least squares in the logarithms."""
    from scipy.stats import linregress

    return float(linregress(np.log(x), np.log(y)).slope)


def text(value: Any) -> str:
    """Four significant digits for a number; empty for None."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def write(outcome: Outcome, folder: Path, name: str, notes: Sequence[str]) -> None:
    """<name>.md, .csv, .png and .pdf in the folder; notes go to the end of the Markdown file."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for columns, rows in _tables(outcome):
        lines += [f"| {' | '.join(map(text, cells))} |" for cells in (columns, ["---"] * len(columns), *rows)] + [""]
    files.write(folder / f"{name}.md", "\n".join([*lines, *notes, ""]), shared=True)
    table = io.StringIO()
    csv.writer(table).writerows([outcome.columns, *outcome.rows])
    files.write(folder / f"{name}.csv", table.getvalue(), shared=True)
    for kind, metadata in (("png", None), ("pdf", {"CreationDate": None})):
        # Fonts as TrueType: journals take no Type 3.
        with mpl.rc_context({"pdf.fonttype": 42}), files.whole(folder / f"{name}.{kind}", shared=True) as file:
            outcome.figure.savefig(file, format=kind, metadata=metadata)


def show(outcome: Outcome, title: str) -> None:
    """Print the table and the findings."""
    console = Console(width=max(Console().width, 110))  # narrower, and a table of numbers breaks
    for head, (columns, rows) in zip((title, "findings"), _tables(outcome), strict=True):
        table = Table(title=head, title_justify="left")
        for at, column in enumerate(columns):
            table.add_column(column, justify="right" if at else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(text, row))
        console.print(table)


def _tables(outcome: Outcome) -> list[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
    return [(outcome.columns, outcome.rows), (HEAD, [finding.cells for finding in outcome.findings])]
