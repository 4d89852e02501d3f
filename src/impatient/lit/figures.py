"""A run's own curves, drawn when it ends, and sent to W&B where that is on."""

import logging
from collections.abc import Sequence
from pathlib import Path

import lightning as L
import wandb
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import WandbLogger

from impatient.checks import ConfigError
from impatient.plots import curves, runs, staleness, style
from impatient.plots.comparison import comparisons

log = logging.getLogger(__name__)


class Figures(Callback):
    """plots/curves and plots/staleness in the run's folder, as files and as W&B images under figures/.

    A figure that cannot be drawn or written costs a warning, never the run.
    """

    def __init__(self, folder: str, formats: Sequence[str] = ("png", "pdf")) -> None:
        self.folder, self.formats = Path(folder), list(formats)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Draw; the last row is written by now."""
        if not trainer.is_global_zero:
            return
        logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every glyph
        try:
            pictures = draw(self.folder, self.formats)
        except (ConfigError, OSError) as error:
            log.warning("no figures: %s", error)
            return
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                images = {f"figures/{path.stem}": wandb.Image(str(path)) for path in pictures}
                logger.experiment.log({**images, "round": trainer.global_step - 1})


def draw(folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write the figures of the run in `folder`. Returns its PNG files; raises ConfigError where none can be drawn."""
    run, notes = runs.read(folder, ended=False)
    if run is None:
        raise ConfigError(*notes)
    (made,), _ = comparisons([run])
    out = folder / "plots"
    out.mkdir(exist_ok=True)
    written: list[Path] = []
    with style.styled():
        for kind, (figure, _) in (("curves", curves.draw(made)), ("staleness", staleness.draw(made))):
            written += style.save(figure, out, kind, ["png", *(f for f in formats if f != "png")])
    return [path for path in written if path.suffix == ".png"]
