"""What a study leaves behind: a table, findings and a picture, written and printed."""

import contextlib
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from impatient import files

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
    "savefig.dpi": 130,
    "pdf.fonttype": 42,
}


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
    def wanted(self) -> str:
        """The interval, in words."""
        if np.isinf(self.low):
            return f"at most {text(self.high)}"
        return f"at least {text(self.low)}" if np.isinf(self.high) else f"{text(self.low)} to {text(self.high)}"


@dataclass(frozen=True)
class Outcome:
    """A study's table, its findings and its picture."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    findings: Sequence[Finding]
    figure: Figure = field(repr=False)


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw as all pictures here are drawn."""
    with mpl.rc_context(STYLE):
        yield


def panels(count: int, height: float = 2.7) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels side by side; no global state, no window."""
    figure = Figure(figsize=(3.3 * count + 0.2, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(1, count, i + 1) for i in range(count)]


def label(axes: Axes, title: str, x: str, y: str, log: str = "") -> None:
    """Title and axes; log names those that are logarithmic."""
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """The exponent e of y ~ x^e, by least squares in the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def text(value: Any) -> str:
    """Four significant digits for a number; empty for None."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def write(outcome: Outcome, folder: Path, name: str, notes: Sequence[str]) -> list[Path]:
    """<name>.md, .csv, .png and .pdf in the folder; notes go to the end of the Markdown file."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{ending}" for ending in ("md", "csv", "png", "pdf")]
    lines = [_row(outcome.columns), _row(["---"] * len(outcome.columns)), *map(_row, outcome.rows), ""]
    lines += [_row(HEAD), _row(["---"] * 4), *map(_row, _verdicts(outcome)), "", *notes, ""]
    files.write(paths[0], "\n".join(lines), shared=True)
    table = io.StringIO()
    csv.writer(table).writerows([outcome.columns, *outcome.rows])
    files.write(paths[1], table.getvalue(), shared=True)
    for path, metadata in ((paths[2], None), (paths[3], {"CreationDate": None})):
        with files.whole(path, shared=True) as file:
            outcome.figure.savefig(file, format=path.suffix[1:], metadata=metadata)
    return paths


def show(outcome: Outcome, title: str) -> None:
    """Print the table and the findings."""
    console = Console(width=max(Console().width, 110))  # narrower, and a table of numbers breaks
    for head, columns, rows in ((title, outcome.columns, outcome.rows), ("findings", HEAD, _verdicts(outcome))):
        table = Table(title=head, title_justify="left")
        for at, column in enumerate(columns):
            table.add_column(column, justify="right" if at else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(text, row))
        console.print(table)


HEAD = ("claim", "measured", "wanted", "holds")


def _verdicts(outcome: Outcome) -> list[tuple[str, float, str, bool]]:
    return [(f.claim, f.measured, f.wanted, f.holds) for f in outcome.findings]


def _row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(text, cells))} |"
