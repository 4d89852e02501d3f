"""metrics.csv: one row a round, written at once, never lost on resume."""

import csv
import io
import logging
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from impatient import files
from impatient.checks import ConfigError

log = logging.getLogger(__name__)


class CSVMetrics(Logger):
    """Columns are fixed at the start; a metric that a round does not have is an empty cell.

    On resume, rows of rounds that will be run again and a torn last line are cut before appending.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.path = Path(folder) / "metrics.csv"
        self.columns: list[str] = []

    @property
    def name(self) -> str:
        """The kind of logger."""
        return "csv"

    @property
    def version(self) -> str:
        """A run folder holds one run."""
        return ""

    @rank_zero_only
    def begin(self, columns: Sequence[str], round: int) -> None:
        """Start the file, or keep its complete rows of rounds before `round`."""
        self.columns = list(columns)
        kept = self._rows_before(round) if round else []
        if len(kept) < round:
            log.warning("%s has %d of the %d rounds that were done; the others are lost", self.path, len(kept), round)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.write(self.path, "".join([_line(self.columns), *map(_line, kept)]))

    def _rows_before(self, round: int) -> list[list[str]]:
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        try:
            rows = list(csv.DictReader(line for line in lines if line.endswith("\n")))
        except csv.Error as error:
            raise ConfigError(f"{self.path}: is no table ({error}); remove it to go on without its rows") from error
        before = {str(t) for t in range(round)}
        return [[row.get(c) or "" for c in self.columns] for row in rows if row.get("round") in before]

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append one row, in one write."""
        if not self.columns:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line([_cell(metrics.get(c)) for c in self.columns]))

    @rank_zero_only
    def save(self) -> None:
        """Have the rows on the disk itself, not only with the operating system."""
        if self.path.exists():
            with self.path.open("a", encoding="utf-8") as file:
                os.fsync(file.fileno())

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """The config stands in config.yaml."""


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) or not math.isnan(value) else "nan"


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()
