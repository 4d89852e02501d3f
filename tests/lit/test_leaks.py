"""A long run keeps no more than a short one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest

from impatient.aggregators.mifa import MIFA


class Watch(L.Callback):
    """Resident megabytes and open files of this process, after each round."""

    def __init__(self) -> None:
        self.megabytes: list[float] = []
        self.files: list[int] = []

    def on_train_batch_end(self, *args: Any) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.megabytes.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        self.files.append(len(os.listdir("/proc/self/fd")))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages in /proc")
def test_memory_and_files_are_flat(fit: Callable[..., Any]) -> None:
    watch = Watch()
    fit(2000, MIFA("zero"), n=100, eval_every=10, save_every=10, callbacks=(watch,))
    # 100 rounds of warm-up. A row of metrics kept by mistake would be some 3 kB a round: 6 MB.
    assert watch.megabytes[-1] - watch.megabytes[100] < 4
    assert max(watch.files[100:]) == min(watch.files[100:])
