"""Run folders → figures and tables.

python src/plot.py logs/multiruns/figure2_mnist
"""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from impatient import files
from impatient.app.cli import enter, quoted, split_paths
from impatient.checks import ConfigError, check, flag, integer, one_of
from impatient.plots import classes, lines, participation, partition, staleness, style
from impatient.plots import runs as reading
from impatient.plots import table as tables
from impatient.plots.curves import AXES
from impatient.plots.groups import STATISTICS
from impatient.plots.runs import Run
from impatient.plots.sheets import Sheet, beginning, remarks, sheets

KINDS = ("curves", "participation", "staleness", "classes", "partition")
FORMATS = ("png", "pdf", "svg")
TAKEN = {
    "metrics": (None, ("curves",)),
    "x": ("round", ("curves",)),
    "logx": (False, ("curves",)),
    "logy": (False, ("curves",)),
    "panels": ("auto", ("curves", "classes")),
    "at": (None, ("curves", "classes")),
}
"""The settings that not every kind of figure takes: the default, the kinds that take it."""


def validate(cfg: dict[str, Any]) -> None:
    """Raise one ConfigError with everything that is wrong in the settings."""
    check(
        _texts("runs", cfg["runs"], "logs/multiruns/<folder>"),
        None if cfg["out"] is None or str(cfg["out"]).strip() else "out=: is empty; name a folder, or leave it at null",
        None if not isinstance(cfg["out"], dict | list) else f"out={cfg['out']}: must be one folder",
        one_of("kind", cfg["kind"], KINDS),
        one_of("x", cfg["x"], tuple(AXES)),
        one_of("unfinished", cfg["unfinished"], ("draw", "drop")),
        flag("logx", cfg["logx"]),
        flag("logy", cfg["logy"]),
        None if cfg["at"] is None else integer("at", cfg["at"], 0),
        None if isinstance(cfg["panels"], str | None) else f"panels={cfg['panels']}: give one config key, auto or null",
        _texts("metrics", cfg["metrics"], "train/loss"),
        _texts("formats", cfg["formats"], "png"),
        None if listed(cfg["formats"]) else f"formats=[]: name at least one of {', '.join(FORMATS)}",
        *(one_of("formats", suffix, FORMATS) for suffix in listed(cfg["formats"]) if isinstance(suffix, str)),
    )


def _texts(name: str, value: Any, example: str) -> str | None:
    """Say that `value` is neither null, a text, nor a list of texts; None if it is one of them."""
    good = isinstance(value, str | list | None) and all(isinstance(one, str) for one in listed(value))
    return None if good else f"{name}={_shown(value)}: give a list of names, such as {name}=[{example}]"


def listed(value: Any) -> list[Any]:
    """Null, one thing or a list of things as a list."""
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def ignored(cfg: dict[str, Any]) -> list[str]:
    """A note on each setting that was set and that this kind of figure does not take."""
    return [
        f"{key}={_shown(cfg[key])}: kind={cfg['kind']} does not take {key}, kind={' and kind='.join(kinds)} "
        f"{'does' if len(kinds) == 1 else 'do'}; left out of account"
        for key, (default, kinds) in TAKEN.items()
        if cfg["kind"] not in kinds and cfg[key] not in (default, None)
    ]


def _shown(value: Any) -> str:
    """As on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(_shown, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read_all(folders: list[str], unfinished: str) -> tuple[list[Run], list[str]]:
    """The runs that can be drawn, and notes on all others. Raises ConfigError where there is none."""
    found, notes = reading.find(folders)
    runs = []
    for folder in found:
        run, why = reading.read(folder)
        notes += why
        if run is not None and (run.finished or unfinished == "draw"):
            runs.append(run)
        elif run is not None:
            notes.append(f"{folder}: left out (unfinished=drop)")
    if not runs:
        raise ConfigError(*notes)
    return runs, notes


def draw(kind: str, sheet: Sheet, cfg: dict[str, Any]) -> tuple[Any, list[str]]:
    """The figure of a kind and notes."""
    if kind == "curves":
        return lines.draw(sheet, cfg["x"], cfg["logx"], cfg["logy"])
    if kind == "classes":
        return classes.draw(sheet, cfg["at"])
    return {"participation": participation, "staleness": staleness, "partition": partition}[kind].draw(sheet)


def plot(cfg: dict[str, Any], console: Console) -> list[Path]:
    """Write and print everything the settings ask for. Returns the files; raises ConfigError where there is none."""
    validate(cfg)
    folders = listed(cfg["runs"])
    metrics = None if cfg["metrics"] is None else listed(cfg["metrics"])
    runs, notes = read_all(folders, cfg["unfinished"])
    notes = ignored(cfg) + notes
    kind = cfg["kind"]
    takes = {key: kind in kinds for key, (_, kinds) in TAKEN.items()}
    panels = cfg["panels"] if takes["panels"] else None
    made, more = sheets(runs, metrics if takes["metrics"] else None, panels, STATISTICS.get(kind, ()))
    notes += more
    out = Path(str(cfg["out"] or Path(next(f for f in folders if Path(f).is_dir())) / "plots"))
    written: list[Path] = []
    failed: list[str] = []
    begun: list[str] = []
    with style.styled():
        for sheet in made:
            stem = f"_{sheet.data}" if len(made) > 1 else ""
            try:
                figure, more = draw(kind, sheet, cfg)
                notes += more
                t = None
                if kind == "curves":
                    notes += remarks(sheet)
                    begun.append(beginning(sheet))
                    t, more = tables.table(sheet, cfg["at"])
                    notes += more
                with warnings.catch_warnings(record=True) as caught:
                    warnings.filterwarnings("always", "Glyph")
                    written += save(out, f"{kind}{stem}", figure, cfg["formats"], f"table{stem}", t)
                if any("missing from font" in str(one.message) for one in caught):
                    notes.append(f"{kind}: a name has characters that the figure's font lacks; they show as boxes")
            except ConfigError as error:
                failed += error.faults
                continue
            if t is not None:
                show(t, console)
    for note in dict.fromkeys([*notes, *(failed if written else [])]):
        console.print(f"warning: {note}", soft_wrap=True, highlight=False, markup=False)
    for text in filter(None, begun if written else []):
        console.print(f"note: {text}", soft_wrap=True, highlight=False, markup=False)
    if not written:
        raise ConfigError(*failed)
    return written


def show(t: tables.Table, console: Console) -> None:
    """The table on the terminal, in as many pieces as its width needs."""
    console.print(t.caption, style="italic", highlight=False, markup=False, soft_wrap=True)
    for piece in tables.on_terminal(t, console.width):
        console.print(piece, crop=False, no_wrap=True)


def save(out: Path, stem: str, figure: Any, formats: str | list[str], table: str, t: tables.Table | None) -> list[Path]:
    """Write the figure as `stem`, the table as `table`. Returns the files; raises ConfigError where one cannot be."""
    _folder(out)
    try:
        written = style.save(figure, out, stem, listed(formats))
        for suffix, text in [("md", tables.markdown(t)), ("csv", tables.as_csv(t))] if t is not None else []:
            path = out / f"{table}.{suffix}"
            files.write(path, text, shared=True)
            written.append(path)
    except OSError as error:
        path = Path(error.filename2 or error.filename or out)
        path = out if path.name.startswith(".") else path  # the name of an unfinished file says nothing
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another folder with out=…") from error
    return written


def _folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ConfigError(f"out={out}: is a file; name a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK)
    except OSError as error:
        raise ConfigError(f"out={out}: cannot be made ({error.strerror}); name another folder") from error
    if not writable:
        raise ConfigError(f"out={out}: cannot be written to; name another folder")


@hydra.main(version_base="1.3", config_path="../configs", config_name="plot")
def main(cfg: DictConfig) -> None:
    """Draw and print; where nothing can be drawn, one message and exit status 1."""
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every glyph
    console = Console()
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    try:
        written = plot(plain, console)
    except ConfigError as error:
        print("nothing to draw:", *error.faults, sep="\n  ", file=sys.stderr)
        sys.exit(1)
    for path in written:
        console.print(f"written: {path}", soft_wrap=True, highlight=False, markup=False)


def with_folders(args: list[str]) -> list[str]:
    """The arguments with folders gathered into runs=[…]."""
    folders, rest = split_paths(args)
    return [f"runs=[{','.join(map(quoted, folders))}]", *rest] if folders else rest


if __name__ == "__main__":
    enter(main, with_folders(sys.argv[1:]))
