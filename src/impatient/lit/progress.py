"""Progress: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from multiprocessing import parent_process
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from impatient.checks import check, number


class RoundProgress(ProgressBar):
    """Round, active devices, loss and accuracy.

    Without a terminal, and in a process that shares it with others: a line every `seconds`, and one at the end, each
    after the `label`.
    """

    label = ""

    def __init__(self, seconds: float = 10.0) -> None:
        super().__init__()
        check(number("seconds", seconds, 0))
        self.seconds = seconds
        self.enabled = True
        self.bar: Progress | None = None

    def disable(self) -> None:
        """Print nothing."""
        self.enabled = False

    def enable(self) -> None:
        """Print again."""
        self.enabled = True

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Open the bar."""
        self.printed = time.monotonic()
        console = Console(file=sys.stdout)
        if self.enabled and trainer.is_global_zero and console.is_terminal and parent_process() is None:
            self.bar = Progress(
                TextColumn("round"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(), console=console,
            )  # fmt: skip
            self.bar.start()
            self.task = self.bar.add_task("", total=trainer.max_steps, completed=trainer.global_step, text="")

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *args: Any) -> None:
        """One more round."""
        if not self.enabled or not trainer.is_global_zero:
            return
        row = getattr(pl_module, "row", {}) | getattr(pl_module, "evaluated", {})
        if self.bar is not None:
            self.bar.update(self.task, completed=trainer.global_step, text=describe(row))
        elif trainer.global_step == trainer.max_steps or time.monotonic() - self.printed >= self.seconds:
            self.printed = time.monotonic()
            # In one piece, the end of the line with it: others may write to the same terminal.
            line = f"{self.label}round {trainer.global_step}/{trainer.max_steps}  {describe(row)}\n"
            print(line, end="", flush=True)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Close the bar."""
        self._close()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Leave the terminal as it was."""
        self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def describe(row: dict[str, float]) -> str:
    """active 37  loss 0.42  acc 0.89, as far as the row has them."""
    parts = [f"active {row['active']:3d}"] if "active" in row else []
    parts += [f"{name} {row[key]:.4f}" for name, key in (("loss", "train/loss"), ("acc", "test/acc")) if key in row]
    return "  ".join(parts)
