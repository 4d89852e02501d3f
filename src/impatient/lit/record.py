"""Who the clients are and who took part, kept in the run's folder for src/plot.py."""

from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback

from impatient import records


class Record(Callback):
    """clients.csv at the start, a row of participation.csv after every round; on resume its later rows are cut."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write who holds what, and begin the masks at the round where the run stands."""
        if not trainer.is_global_zero:
            return
        dm: Any = trainer.datamodule  # type: ignore[attr-defined]
        prob = dm.availability.stationary()
        names = [name.replace("/", "-") for name in dm.data.classes]  # as in the columns test/acc/<class>
        self.folder.mkdir(parents=True, exist_ok=True)
        records.write_clients(
            self.folder, dm.clients.sizes, None if prob is None else prob.tolist(), names, dm.clients.labels
        )
        records.begin_masks(self.folder, trainer.global_step)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """One row: who was there, and who reported."""
        module: Any = pl_module
        if trainer.is_global_zero:
            available = batch.available.cpu().numpy()
            reported = np.zeros_like(available)
            reported[module.reported.cpu().numpy()] = True
            records.append_masks(self.folder, int(batch.round), available, reported)
