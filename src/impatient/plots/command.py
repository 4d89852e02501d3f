"""What `python src/plot.py` does: reads the runs, draws a figure for each data set, writes files, prints the table."""

import logging
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console

from impatient import files
from impatient.checks import ConfigError
from impatient.plots import classes, curves, participation, partition, runs, staleness, style
from impatient.plots.comparison import Comparison, beginning, comparisons, remarks
from impatient.plots.groups import STATISTICS
from impatient.plots.settings import TAKEN_BY, Settings, checked
from impatient.plots.table import as_csv, markdown, on_terminal, table


def plot(given: dict[str, Any], console: Console | None = None) -> list[Path]:
    """Write and print everything the settings ask for. Returns the files; raises ConfigError where there is none."""
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every glyph
    console, settings = console or Console(), checked(given)
    kind = settings.kind
    found, notes = runs.read_all(settings.runs, settings.unfinished)
    notes = settings.ignored() + notes
    metrics, panels = (getattr(settings, key) if kind in TAKEN_BY[key] else None for key in ("metrics", "panels"))
    made, more = comparisons(found, metrics, panels, STATISTICS.get(kind, ()))
    notes += more
    out = Path(str(settings.out or Path(next(f for f in settings.runs if Path(f).is_dir())) / "plots"))
    written: list[Path] = []
    failed: list[str] = []
    begun: list[str] = []
    for one in made:
        suffix = f"_{one.data}" if len(made) > 1 else ""
        beside, texts = None, {}
        try:
            with style.styled():
                figure, more = draw(one, settings)
                notes += more
                if kind == "curves":
                    notes += remarks(one)
                    begun.append(beginning(one))
                    beside, more = table(one, settings.at)
                    notes += more
                    texts = {f"table{suffix}.md": markdown(beside), f"table{suffix}.csv": as_csv(beside)}
                with warnings.catch_warnings(record=True) as caught:
                    warnings.filterwarnings("always", "Glyph")
                    written += save(out, figure, f"{kind}{suffix}", settings.formats, texts)
        except ConfigError as error:
            failed += error.faults
            continue
        if any("missing from font" in str(warning.message) for warning in caught):
            notes.append(f"{kind}: a name has characters that the figure's font lacks; they show as boxes")
        if beside is not None:
            console.print(beside.caption, style="italic", highlight=False, markup=False, soft_wrap=True)
            for piece in on_terminal(beside, console.width):
                console.print(piece, crop=False, no_wrap=True)
    say = partial(console.print, soft_wrap=True, highlight=False, markup=False)
    for note in dict.fromkeys([*notes, *(failed if written else [])]):
        say(f"warning: {note}")
    if not written:
        raise ConfigError(*failed)
    for text in filter(None, begun):
        say(f"note: {text}")
    for path in written:
        say(f"written: {path}")
    return written


def draw(one: Comparison, settings: Settings) -> tuple[Figure, list[str]]:
    """The figure of the kind that is asked for, and notes."""
    if settings.kind == "curves":
        return curves.draw(one, settings.x, settings.logx, settings.logy)
    if settings.kind == "classes":
        return classes.draw(one, settings.at)
    return {"participation": participation, "staleness": staleness, "partition": partition}[settings.kind].draw(one)


def save(out: Path, figure: Figure, stem: str, formats: Sequence[str], texts: dict[str, str]) -> list[Path]:
    """Write the figure as `stem`, and the texts under their names. Returns the files; raises ConfigError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(f"out={out}: is a file; name a folder") from None
    except OSError as error:
        raise ConfigError(f"out={out}: cannot be made ({error.strerror}); name another folder") from error
    try:
        written = style.save(figure, out, stem, formats)
        for name, text in texts.items():
            files.write(out / name, text, shared=True)
            written.append(out / name)
    except OSError as error:
        path = Path(error.filename2 or error.filename or out)
        path = out if path.name.startswith(".") else path  # the name of an unfinished file says nothing
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another folder with out=…") from error
    return written
