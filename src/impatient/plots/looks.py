"""Which line looks how, and the legend that says so."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from impatient.plots import style
from impatient.plots.groups import Group, natural

GREY = "#555555"


@dataclass(frozen=True)
class Looks:
    """of: each label's colour, dashes and marker; entries: the legend's blocks of (text, look, labels it is for)."""

    of: dict[str, dict[str, Any]]
    entries: list[list[tuple[str, dict[str, Any], list[str]]]]


def looks(groups: Sequence[Group], points: bool = False) -> Looks:
    """A look a label; where rules are crossed with other settings, colours follow the rules alone.

    Crossed: several rules, all with something beside the rule in their labels, and at least two rules share such a
    thing. Then colour and marker say the rule and dashes the rest, and the legend has an entry a rule and one a rest.
    With more rests than dashes, or with points only, markers say the rest too.
    """
    pairs = {g.label: (g.rule, g.rest) for g in groups}
    rules = list(dict.fromkeys(rule for rule, _ in pairs.values()))
    rests = sorted({rest for _, rest in pairs.values()}, key=natural)
    room = len(style.MARKERS) * (1 if points else len(style.DASHES))
    crossed = 1 < len(rules) <= len(style.COLOURS) and 1 < len(rests) <= room and all(rests)
    if not crossed or len(rests) == len(pairs):
        of = {label: style.line(i) for i, label in enumerate(pairs)}
        return Looks(of, [[(label, look, [label]) for label, look in of.items()]])
    told_by = ["marker"] if points else ["linestyle"] if len(rests) <= len(style.DASHES) else ["linestyle", "marker"]
    own = {rest: {key: style.line(j)[key] for key in told_by} for j, rest in enumerate(rests)}
    # In the legend a rule has no sign of any rest, and a rest none of any rule.
    bare = {"linestyle": "-", "marker": "o" if points else ""}
    by_rule, by_rest = [], []
    for i, rule in enumerate(rules):
        look = style.line(i) | {key: bare[key] for key in told_by}
        by_rule.append((rule, look, [label for label, pair in pairs.items() if pair[0] == rule]))
    for rest, look in own.items():
        by_rest.append((rest, bare | {"color": GREY} | look, [label for label, p in pairs.items() if p[1] == rest]))
    of = {label: style.line(rules.index(rule)) | own[rest] for label, (rule, rest) in pairs.items()}
    return Looks(of, [by_rule, by_rest])


def grid(made: Looks, drawn: Collection[str], room: int) -> list[list[tuple[str, dict[str, Any]]]]:
    """The legend's rows for the labels in `drawn`, all of one length; each block begins a row.

    room: characters that a row holds, the line before each text counted as nine of them.
    """
    blocks = [[(text, look) for text, look, who in block if set(who) & set(drawn)] for block in made.entries]
    longest = max(len(text) for block in blocks for text, _ in block)
    columns = max(1, min(max(map(len, blocks)), room // (longest + 9)))
    rows = [block[i : i + columns] for block in blocks for i in range(0, len(block), columns)]
    blank: tuple[str, dict[str, Any]] = ("", {"linestyle": "", "marker": ""})
    return [row + [blank] * (columns - len(row)) for row in rows]


def legend(figure: Figure, rows: Sequence[Sequence[tuple[str, dict[str, Any]]]], points: bool = False) -> None:
    """Below the axes; matplotlib fills columns first."""
    flat: Iterable[tuple[str, dict[str, Any]]] = [entry for column in zip(*rows, strict=True) for entry in column]
    look = {"linestyle": ""} if points else {}
    handles = [Line2D([], [], label=style.typeset(text), **(kept | look)) for text, kept in flat]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(rows[0]),
                  handlelength=1.2 if points else 3.2, columnspacing=1.4)  # fmt: skip
