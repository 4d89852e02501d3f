"""Run folders → figures and tables.

python src/plot.py logs/multiruns/figure2_mnist
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("IMPATIENT_ROOT", str(Path(__file__).resolve().parents[1]))

import hydra
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

import door
from impatient.checks import ConfigError, check, flag, integer, one_of
from impatient.plots import classes, lines, participation, partition, staleness, style
from impatient.plots import runs as reading
from impatient.plots import table as tables
from impatient.plots.curves import AXES
from impatient.plots.groups import STATISTICS
from impatient.plots.runs import Run
from impatient.plots.sheets import Sheet, remarks, sheets

KINDS = ("curves", "participation", "staleness", "classes", "partition")
FORMATS = ("png", "pdf", "svg")


def validate(cfg: dict[str, Any]) -> None:
    """Raise one ConfigError with everything that is wrong in the settings."""
    texts = [cfg["metrics"]] if isinstance(cfg["metrics"], str) else cfg["metrics"]
    check(
        one_of("kind", cfg["kind"], KINDS),
        one_of("x", cfg["x"], tuple(AXES)),
        one_of("unfinished", cfg["unfinished"], ("draw", "drop")),
        flag("logx", cfg["logx"]),
        flag("logy", cfg["logy"]),
        None if cfg["at"] is None else integer("at", cfg["at"], 0),
        None if isinstance(cfg["panels"], str | None) else f"panels={cfg['panels']}: give one config key, auto or null",
        None if texts is None or isinstance(texts, list) else f"metrics={texts}: give a list, such as [train/loss]",
        *(one_of("formats", suffix, FORMATS) for suffix in cfg["formats"] or [None]),
    )


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
    return {"participation": participation, "staleness": staleness, "classes": classes, "partition": partition}[
        kind
    ].draw(sheet)


def plot(cfg: dict[str, Any], console: Console) -> list[Path]:
    """Write and print everything the settings ask for. Returns the files; raises ConfigError where there is none."""
    validate(cfg)
    folders = [cfg["runs"]] if isinstance(cfg["runs"], str) else list(cfg["runs"] or [])
    metrics = [cfg["metrics"]] if isinstance(cfg["metrics"], str) else cfg["metrics"]
    runs, notes = read_all(folders, cfg["unfinished"])
    kind = cfg["kind"]
    panels = cfg["panels"] if kind in ("curves", "classes") else None
    made, more = sheets(runs, metrics, panels, STATISTICS.get(kind, ()))
    notes += more
    out = Path(cfg["out"] or Path(next(f for f in folders if Path(f).is_dir())) / "plots")
    written: list[Path] = []
    failed: list[str] = []
    with style.styled():
        for sheet in made:
            stem = f"_{sheet.data}" if len(made) > 1 else ""
            if kind == "curves":
                notes += remarks(sheet)
            try:
                figure, more = draw(kind, sheet, cfg)
                notes += more
                if kind == "curves":
                    t, more = tables.table(sheet, cfg["at"])
                    notes += more
            except ConfigError as error:
                failed += error.faults
                continue
            _folder(out)
            written += style.save(figure, out, f"{kind}{stem}", cfg["formats"])
            if kind == "curves":
                for suffix, text in (("md", tables.markdown(t)), ("csv", tables.as_csv(t))):
                    path = out / f"table{stem}.{suffix}"
                    path.write_text(text)
                    written.append(path)
                console.print(tables.on_terminal(t))
    for note in dict.fromkeys([*notes, *(failed if written else [])]):
        console.print(f"warning: {note}", soft_wrap=True, highlight=False, markup=False)
    if not written:
        raise ConfigError(*failed)
    return written


def _folder(out: Path) -> None:
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
    """The arguments with folders (no `=` in them, or there is such a folder) gathered into runs=[…]."""
    folders = [arg for arg in args if not arg.startswith("-") and ("=" not in arg or Path(arg).is_dir())]
    rest = [arg for arg in args if arg not in folders]
    quoted = ",".join("'" + folder.replace("'", r"\'").replace("${", r"\${") + "'" for folder in folders)
    return [f"runs=[{quoted}]", *rest] if folders else rest


if __name__ == "__main__":
    sys.argv = [sys.argv[0], *with_folders(sys.argv[1:])]
    door.enter(main)
