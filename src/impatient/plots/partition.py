"""kind=partition: how many samples of which class each device holds."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from impatient.checks import ConfigError
from impatient.plots import records, style
from impatient.plots.sheets import Sheet

MOST = 4


def order(labels: np.ndarray) -> np.ndarray:
    """Counts [N, C] → devices by the class of which they hold most, then by how much of it."""
    largest = labels.argmax(1)
    return np.lexsort((-labels.max(1), largest))


def draw(sheet: Sheet) -> tuple[Figure, list[str]]:
    """The figure and notes: above, samples of each device; below, of which class, where clients.csv tells it.

    Of several seeds the first is shown. Raises ConfigError where no run has clients.csv or partition.json.
    """
    shown: list[tuple[str, np.ndarray, records.ClientTable | None]] = []
    notes = []
    for g in sheet.groups:
        run = g.runs[0]
        if (sizes := records.sizes(run.folder)) is None or not len(sizes):
            notes.append(f"{g.label}: neither clients.csv nor partition.json in {run.folder}")
            continue
        table = records.clients(run.folder)
        if table is None:
            notes.append(f"{g.label}: no clients.csv in {run.folder}, so no classes (callbacks.record writes it)")
        elif not table.classes:
            table = None  # a task without classes
        if len(g.runs) > 1:
            notes.append(f"{g.label}: {len(g.runs)} runs, the partition of {run.folder} is drawn")
        shown.append((f"{g.label}, seed {run.config_value('seeds.partition')}", sizes, table))
    if not shown:
        raise ConfigError(*notes)
    if len(shown) > MOST:
        notes.append(f"{len(shown)} partitions, the first {MOST} are drawn; give fewer folders for the others")
        shown = shown[:MOST]
    classes = any(table is not None for _, _, table in shown)
    counts = [table.labels[table.labels > 0] for _, _, table in shown if table is not None]
    same = len({int(n) for held in counts for n in held}) == 1  # then a bar of colours would say nothing
    top = not classes or any(len(set(sizes)) > 1 for _, sizes, _ in shown)
    height = (0.8 if top else 0) + (2.4 if classes else 1) + 0.4
    figure = Figure(figsize=(3.6 * len(shown) + 0.4, height), layout="constrained")
    rows = [1] * top + [2.4] * classes
    axes = figure.subplots(len(rows), len(shown), squeeze=False, sharex="col", height_ratios=rows)
    most = max((held.max() for held in counts if len(held)), default=1)
    image: Any = None
    for column, (label, sizes, table) in enumerate(shown):
        by = order(table.labels) if table is not None else np.arange(len(sizes))
        last = axes[-1, column]
        if top:
            axes[0, column].bar(np.arange(len(sizes)), sizes[by], width=1.0, color="#999999", linewidth=0)
        axes[0, column].set_title(style.typeset(f"{label}{in_words(sizes, table)}"))
        last.set_xlabel("device, by its largest class" if table is not None else "device")
        if table is not None:
            cells = np.ma.masked_equal(table.labels[by].T, 0)
            image = last.imshow(cells, cmap="Blues" if same else "viridis_r", vmin=0, vmax=most, aspect="auto",
                                interpolation="nearest")  # fmt: skip
            last.set_yticks(np.arange(len(table.classes)), [style.typeset(name) for name in table.classes])
        elif classes:
            last.remove()
    if top:
        axes[0, 0].set_ylabel("samples")
    if image is not None:
        axes[-1, 0].set_ylabel("class")
    if image is not None and not same:
        figure.colorbar(image, ax=list(axes[-1]), label="samples", pad=0.02, ticks=style.whole_numbers())
    return figure, notes


def in_words(sizes: np.ndarray, table: records.ClientTable | None) -> str:
    """What is the same all over: samples a device, and of each class that a device holds; "" where nothing is."""
    words = []
    if len(set(sizes)) == 1:
        words.append(f"{sizes[0]} samples a device")
    if table is not None and len(held := set(table.labels[table.labels > 0])) == 1:
        words.append(f"{min(held)} of each class it holds" if words else f"{min(held)} samples of each class held")
    return "\n" + ", ".join(words) if words else ""
