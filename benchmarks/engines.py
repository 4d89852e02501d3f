"""How long the clients' half of one round takes: each engine beside a naive twin and beside the arithmetic limit.

python benchmarks/engines.py --threads 1 --workloads W1 W2 W3

All variants are interleaved in one process; the table shows the least of --repeats times and ratios of them. Fails when
an engine and the loop disagree.
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from workloads import SGD, Workload, default_data_dir, workload

from impatient.engine.linear import Linear, closed_form
from impatient.engine.local import Engine, Work
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap
from impatient.messages import ClientPlan

CHUNK = 10


class PerSample(Dataset):
    """A client's samples as most published code serves them: one by one, through PIL and a transform."""

    def __init__(self, work: Workload, own: torch.Tensor) -> None:
        self.x, self.y = work.dataset.x[own], work.dataset.y[own]
        steps = [transforms.ToPILImage(), transforms.ToTensor()]
        self.transform = transforms.Compose([*steps, transforms.Normalize(work.dataset.mean, work.dataset.std)])

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.x[i]), int(self.y[i])


def naive(work: Workload, epochs: int) -> None:
    """Module, DataLoader, transform, SGD, and a metric read back every step."""
    module, criterion = work.task.model.module, nn.CrossEntropyLoss()
    start = {name: p.clone() for name, p in module.state_dict().items()}
    for i in work.ids.tolist():
        module.load_state_dict(start)
        loader = DataLoader(PerSample(work, torch.from_numpy(work.clients.indices[i])), batch_size=100, shuffle=True)
        optimizer = torch.optim.SGD(module.parameters(), lr=SGD.lr, weight_decay=SGD.weight_decay)
        correct = total = 0.0
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                out = module(x)
                loss = criterion(out, y)
                loss.backward()
                optimizer.step()
                correct += (out.argmax(1) == y).sum().item()
                total += loss.item()
    module.load_state_dict(start)


def resident(work: Workload, epochs: int) -> None:
    """The plain loop over resident tensors: module, optim.SGD, no loader."""
    module, task = work.task.model.module, work.task
    start = {name: p.clone() for name, p in module.state_dict().items()}
    for index, count in zip(work.batches.index, work.batches.count.tolist(), strict=True):
        module.load_state_dict(start)
        optimizer = torch.optim.SGD(module.parameters(), lr=SGD.lr, weight_decay=SGD.weight_decay)
        for batch, size in zip(index, count, strict=True):
            x, y = task.batch(batch[:size])
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimizer.step()
    module.load_state_dict(start)


def limit(work: Workload, epochs: int) -> None:
    """The same samples through one shared model, ten clients' batches at a time, contiguous, channels last."""
    module = work.task.model.module
    size = min(CHUNK, len(work.ids)) * 100
    x, y = work.inputs, work.task.y
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    for at in range(0, work.num_samples, size):
        some = slice(at, min(at + size, work.num_samples))
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x[some]), y[some]).backward()
        optimizer.step()


def with_engine(engine: Engine) -> Callable[[Workload, int], torch.Tensor]:
    """A chunked round of one engine; gives back the updates [A, P]."""

    def run(work: Workload, epochs: int) -> torch.Tensor:
        params, out = work.task.model.get(), []
        for at in range(0, len(work.ids), CHUNK):
            some = slice(at, at + CHUNK)
            index, count = work.batches.index[some], work.batches.count[some]
            told = Work(work.ids[some], index, count, SGD.lr, SGD, 0, 0)
            out.append(engine.run(work.task, params, ClientPlan(), told).update)
        return torch.cat(out)

    return run


def agree(name: str, data_dir: Path) -> None:
    """Raise SystemExit where an engine and its slow twin differ by more than 1e-10 in float64."""
    work = workload(name, data_dir, 3, 1, torch.float64)
    twin = with_engine(Loop())(work, 1)
    for engine in engines(work):
        gap = float((with_engine(engine)(work, 1) - twin).abs().max())
        if not gap <= 1e-10:
            raise SystemExit(f"{name}: {type(engine).__name__} and the loop differ by {gap:.1e} in float64")


def engines(work: Workload) -> list[Engine]:
    """Those that can run this model."""
    return [Loop(), Vmap(), *([Linear()] if closed_form(work.task.model) else [])]


def draw(table: dict[str, dict[str, float]], path: Path) -> None:
    """Speed-up over naive, a panel for each workload."""
    figure, axes = plt.subplots(1, len(table), figsize=(3.2 * len(table), 2.6), squeeze=False, layout="constrained")
    for axis, (name, speedup) in zip(axes[0], table.items(), strict=True):
        colours = ["0.6" if variant in ("naive", "resident", "limit") else "tab:blue" for variant in speedup]
        bars = axis.barh(list(speedup), list(speedup.values()), color=colours)
        axis.bar_label(bars, fmt="%.2g", padding=2)
        axis.invert_yaxis()
        axis.margins(x=0.18)
        axis.set(title=name, xlabel="times as fast as naive")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=["W1", "W2", "W3"], choices=["W1", "W2", "W3"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data-dir", type=Path, default=default_data_dir())
    parser.add_argument("--figure", type=Path, help="also draw the speed-ups into this file")
    args = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    torch.set_num_threads(args.threads)
    print(f"{platform.machine()}, torch {torch.__version__}, {args.threads} thread(s), least of {args.repeats}")
    for name in args.workloads:
        agree(name, args.data_dir)
        active, epochs = {"W1": (38, 2), "W2": (10, 1), "W3": (4, 1)}[name]
        work = workload(name, args.data_dir, active, epochs)
        variants: dict[str, Callable[[Workload, int], object]] = {"naive": naive, "resident": resident}
        variants |= {type(engine).__name__.lower(): with_engine(engine) for engine in engines(work)}
        variants["limit"] = limit
        times: dict[str, list[float]] = {variant: [] for variant in variants}
        for repeat in range(args.repeats + 1):
            for variant, run in variants.items():
                started = time.perf_counter()
                run(work, epochs)
                if repeat:  # the first is a warm-up
                    times[variant].append(time.perf_counter() - started)
        best = {variant: min(values) for variant, values in times.items()}
        print(f"\n{name}: {work.data}, {active} clients, {work.num_samples} samples, P = {work.task.model.num_params}")
        print(f"{'':10}{'ms':>10}{'x naive':>10}{'x limit':>10}")
        for variant, value in best.items():
            print(f"{variant:10}{value * 1e3:10.1f}{best['naive'] / value:10.2f}{value / best['limit']:10.2f}")
        table[name] = {variant: best["naive"] / value for variant, value in best.items()}
    if args.figure:
        draw(table, args.figure)


if __name__ == "__main__":
    main()
