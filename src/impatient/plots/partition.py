"""kind=partition: how many samples of which class each device holds."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import clients, style
from impatient.plots.comparison import Comparison

MOST = 4


def order(labels: np.ndarray) -> np.ndarray:
    """Counts [N, C] → devices by the class of which they hold most, then by how much of it."""
    return np.lexsort((-labels.max(1), labels.argmax(1)))


def draw(made: Comparison) -> tuple[Figure, list[str]]:
    """The figure and notes: above, samples of each device; below, of which class, where clients.csv tells it.

    Of several seeds the first is shown. Raises ConfigError where no run has clients.csv or partition.json.
    """
    shown: list[tuple[str, np.ndarray, np.ndarray, list[str]]] = []  # title, samples [N], counts [N, C], classes
    notes = []
    for g in made.groups:
        run = g.runs[0]
        sizes, table = clients.sizes(run.folder), clients.read(run.folder)
        if sizes is None or not len(sizes):
            notes.append(f"{g.label}: neither clients.csv nor partition.json in {run.folder}")
            continue
        if table is None:
            notes.append(f"{g.label}: no clients.csv in {run.folder}, so no classes (callbacks.record writes it)")
        if len(g.runs) > 1:
            notes.append(f"{g.label}: {len(g.runs)} runs, the partition of {run.folder} is drawn")
        labels = table.labels if table is not None else pd.DataFrame(index=range(len(sizes)))
        title = f"{g.label}, seed {run.config_value('seeds.partition')}"
        shown.append((title, sizes, labels.to_numpy(int), list(labels)))
    if not shown:
        raise ConfigError(*notes)
    if len(shown) > MOST:
        notes.append(f"{len(shown)} partitions, the first {MOST} are drawn; give fewer folders for the others")
        shown = shown[:MOST]
    held = {int(n) for _, _, counts, _ in shown for n in counts[counts > 0]}
    classes = any(names for *_, names in shown)
    top = not classes or any(len(set(sizes)) > 1 for _, sizes, _, _ in shown)
    size = (3.6 * len(shown) + 0.4, (0.8 if top else 0) + (2.4 if classes else 1) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    rows = [1] * top + [2.4] * classes
    axes = figure.subplots(len(rows), len(shown), squeeze=False, sharex="col", height_ratios=rows)
    image: Any = None
    for column, (title, sizes, counts, names) in zip(axes.T, shown, strict=True):
        first, last = column[0], column[-1]
        by = order(counts) if names else np.arange(len(sizes))
        if top:
            first.bar(np.arange(len(sizes)), sizes[by], width=1.0, color="#999999", linewidth=0)
        first.set_title(style.typeset(title + in_words(sizes, counts)))
        last.set_xlabel("device, by its largest class" if names else "device")
        if names:
            image = last.imshow(np.ma.masked_equal(counts[by].T, 0), vmin=0, vmax=max(held, default=1), aspect="auto",
                                cmap="Blues" if len(held) == 1 else "viridis_r", interpolation="nearest")  # fmt: skip
            last.set_yticks(np.arange(len(names)), list(map(style.typeset, names)))
        elif classes:
            last.remove()
    if top:
        axes[0, 0].set_ylabel("samples")
    if classes:
        axes[-1, 0].set_ylabel("class")
    if classes and len(held) != 1:  # else a bar of colours would say nothing
        figure.colorbar(image, ax=list(axes[-1]), label="samples", pad=0.02, ticks=style.whole_numbers())
    return figure, notes


def in_words(sizes: np.ndarray, counts: np.ndarray) -> str:
    """What is the same all over: samples a device, and of each class that a device holds; "" where nothing is."""
    words = [f"{sizes[0]} samples a device"] if len(set(sizes)) == 1 else []
    if len(held := set(counts[counts > 0])) == 1:
        words.append(f"{min(held)} of each class it holds" if words else f"{min(held)} samples of each class held")
    return "\n" + ", ".join(words) if words else ""
