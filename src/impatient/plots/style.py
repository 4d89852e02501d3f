"""How every figure looks, for print and for colour-blind eyes: settings, text, colours and dashes, legend, files."""

import re
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from impatient.files import whole
from impatient.plots import names
from impatient.plots.groups import Group, natural

# Okabe and Ito, Color Universal Design (2008), without yellow, which is too light for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
# Dashes as (offset, (on, off, …)) in line widths; five against seven colours: 35 pairs before one returns.
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

FREE = (-np.inf, np.inf)

SETTINGS: dict[Any, Any] = {
    "font.size": 8,  # of axes' labels and legends too
    "axes.titlesize": 8,
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 7),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "axes.formatter.limits": (-3, 5),
    "pdf.fonttype": 42,
}


def styled() -> AbstractContextManager[None]:
    """Figures made and saved inside look as they should; nothing else in the process changes."""
    return matplotlib.rc_context(SETTINGS)


def typeset(text: str) -> str:
    """Any text as a figure shows it: p_min as a symbol, dollar signs as themselves."""
    return re.sub(r"\bp_min\b", lambda _: r"$p_{\min}$", text.replace("$", r"\$"))


def title(key: str, value: Any) -> str:
    """A panel's title; of a class path the class."""
    return typeset(f"{names.name(key)} = {names.value(key, value)}")


def line(index: int) -> dict[str, Any]:
    """Colour, dashes and marker of the index-th label."""
    cycles = {"color": COLOURS, "linestyle": DASHES, "marker": MARKERS}
    return {key: values[index % len(values)] for key, values in cycles.items()}


def draw_band(
    ax: Axes, band: pd.DataFrame, look: dict[str, Any], step: bool = False, limits: tuple[float, float] = FREE
) -> None:
    """The mean as a line and, of several seeds, a band of one standard deviation to either side.

    step: both hold from one x to the next; limits: values that the band does not leave.
    """
    x, mean, std = (each.to_numpy() for each in (band.index, band["mean"], band["std"]))
    ax.plot(x, mean, drawstyle="steps-post" if step else "default", **look)
    if np.isfinite(std).any():
        low, high = (np.clip(mean + sign * std, *limits) for sign in (-1, 1))
        kind: Any = "post" if step else None
        ax.fill_between(x, low, high, step=kind, color=look["color"], alpha=0.18, linewidth=0)


Look = dict[str, Any]


@dataclass(frozen=True)
class Legend:
    """looks: each label's colour, dashes and marker; parts: the entries of the legend that tell what a label is.

    blocks: the entries, text and look, of which each block begins a row.
    """

    looks: dict[str, Look]
    parts: dict[str, tuple[str, ...]]
    blocks: list[dict[str, Look]]

    def rows(self, drawn: Collection[str], room: int) -> list[list[tuple[str, Look]]]:
        """The entries for the labels in `drawn`, in rows of one length.

        room: characters that a row holds, the line before each text counted as nine of them.
        """
        texts = {text for label in drawn for text in self.parts[label]}
        blocks = [[(text, look) for text, look in block.items() if text in texts] for block in self.blocks]
        columns = max(1, min(max(map(len, blocks)), room // (max(map(len, texts)) + 9)))
        rows = [block[i : i + columns] for block in blocks for i in range(0, len(block), columns)]
        blank: tuple[str, Look] = ("", {"linestyle": "", "marker": ""})
        return [row + [blank] * (columns - len(row)) for row in rows]


def legend(groups: Sequence[Group], points: bool = False) -> Legend:
    """A look a label; where rules are crossed with other settings, colours follow the rules alone.

    Crossed: several rules, all with something beside the rule in their labels, and at least two rules share such a
    thing. Then colour and marker say the rule and dashes the rest, and the legend has an entry a rule and one a rest.
    With more rests than dashes, or with points only, markers say the rest too.
    """
    pairs = {g.label: (g.rule, g.rest) for g in groups}
    rules = {rule: line(i) for i, rule in enumerate(dict.fromkeys(rule for rule, _ in pairs.values()))}
    rests = {rest: line(i) for i, rest in enumerate(sorted({rest for _, rest in pairs.values()}, key=natural))}
    room = len(MARKERS) * (1 if points else len(DASHES))
    crossed = 1 < len(rules) <= len(COLOURS) and 1 < len(rests) <= room and all(rests)
    if not crossed or len(rests) == len(pairs):
        looks = {label: line(i) for i, label in enumerate(pairs)}
        return Legend(looks, {label: (label,) for label in pairs}, [looks])
    told_by = ["marker"] if points else ["linestyle"] if len(rests) <= len(DASHES) else ["linestyle", "marker"]
    rests = {rest: {key: look[key] for key in told_by} for rest, look in rests.items()}
    looks = {label: rules[rule] | rests[rest] for label, (rule, rest) in pairs.items()}
    # In the legend a rule has no sign of any rest, and a rest none of any rule.
    bare = {"color": "#555555", "linestyle": "-", "marker": "o" if points else ""}
    bare_rules = {rule: look | {key: bare[key] for key in told_by} for rule, look in rules.items()}
    return Legend(looks, dict(pairs), [bare_rules, {rest: bare | look for rest, look in rests.items()}])


def draw_legend(figure: Figure, rows: Sequence[Sequence[tuple[str, Look]]], **every: Any) -> None:
    """Below the axes; matplotlib fills columns first. every: what all signs have in common."""
    entries = [entry for column in zip(*rows, strict=True) for entry in column]
    handles = [Line2D([], [], label=typeset(text), **(look | every)) for text, look in entries]
    length = 1.2 if every.get("linestyle") == "" else 3.2
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(rows[0]), handlelength=length, columnspacing=1.4
    )


def whole_numbers() -> MaxNLocator:
    """Ticks of an axis that counts: 0, 10, 20, … rather than 0, 6, 12, …"""
    return MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True)


def save(figure: Figure, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Write <stem>.<format> for each format; each file is there in full or not at all."""
    written = [folder / f"{stem}.{suffix}" for suffix in formats]
    for path, suffix in zip(written, formats, strict=True):
        with whole(path, shared=True) as file:
            figure.savefig(file, format=suffix, dpi=200, metadata={"CreationDate": None} if suffix == "pdf" else None)
    return written
