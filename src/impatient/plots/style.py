"""How every figure looks: for print, small and grey, and for all eyes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from impatient.files import whole
from impatient.plots import names

# Okabe and Ito, Color Universal Design (2008), without yellow, which is too light for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
# Dashes as (offset, (on, off, …)) in line widths; five against seven colours: 35 pairs before one returns.
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "axes.formatter.limits": (-3, 5),
    "pdf.fonttype": 42,
    "path.simplify": True,
}


def typeset(text: str) -> str:
    """Any text as a figure shows it: p_min as a symbol, dollar signs as themselves."""
    return re.sub(r"\bp_min\b", lambda _: r"$p_{\min}$", text.replace("$", r"\$"))


def name(key: str) -> str:
    """A metric's or key's name on an axis."""
    return typeset(names.name(key))


def title(key: str, value: Any) -> str:
    """A panel's title; of a class path the class."""
    return f"{name(key)} = {typeset(names.value(key, value))}"


@contextmanager
def styled() -> Iterator[None]:
    """Figures made and saved inside look as they should; nothing else in the process changes."""
    with matplotlib.rc_context(SETTINGS):
        yield


def line(index: int) -> dict[str, Any]:
    """Colour, dashes and marker of the index-th label."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[index % len(DASHES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def whole_numbers() -> MaxNLocator:
    """Ticks of an axis that counts: 0, 10, 20, … rather than 0, 6, 12, …"""
    return MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True)


def save(figure: Figure, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Write <stem>.<format> for each format; each file is there in full or not at all."""
    written = []
    for suffix in formats:
        path = folder / f"{stem}.{suffix}"
        with whole(path, shared=True) as file:
            metadata = {"CreationDate": None} if suffix == "pdf" else None
            figure.savefig(file, format=suffix, dpi=200, metadata=metadata)
        written.append(path)
    return written
