"""The clients' half of a round on a GPU: each engine at several chunk sizes.

python benchmarks/gpu.py --data-dir data

38 of 100 and 380 of 1,000 clients, one epoch. Milliseconds are the least of --repeats; the ratio is to the loop.
"""

import argparse
import time
from pathlib import Path

import torch
from workloads import SGD, Workload, default_data_dir, workload

from impatient.engine.linear import Linear, closed_form
from impatient.engine.local import Engine, Work
from impatient.engine.loop import Loop
from impatient.engine.vmap import Vmap
from impatient.messages import ClientPlan


def once(engine: Engine, work: Workload, chunk: int, device: torch.device) -> float:
    """Seconds of one round."""
    params = work.task.model.get()
    _wait(device)
    started = time.perf_counter()
    for at in range(0, len(work.ids), chunk):
        some = slice(at, at + chunk)
        index, count = work.batches.index[some], work.batches.count[some]
        engine.run(work.task, params, ClientPlan(), Work(work.ids[some], index, count, SGD.lr, SGD, 0, 0))
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=["W1", "W2", "W3", "W4"], choices=["W1", "W2", "W3", "W4"])
    parser.add_argument("--clients", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--chunks", nargs="+", type=int, default=[8, 32, 128])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data-dir", type=Path, default=default_data_dir())
    args = parser.parse_args()
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU that torch can use: not measured")
    print(torch.cuda.get_device_name() if device.type == "cuda" else "CPU", f"torch {torch.__version__}")
    print(f"{'':4}{'clients':>8}  {'engine':8}{'chunk':>6}{'ms':>10}{'x loop':>8}")
    for name in args.workloads:
        for n in args.clients:
            work = workload(name, args.data_dir, int(0.38 * n), 1, device=device, num_clients=n)
            fast: list[Engine] = [Vmap(), *([Linear()] if closed_form(work.task.model) else [])]
            plans: list[tuple[Engine, int]] = [(Loop(), n), *((engine, c) for engine in fast for c in args.chunks)]
            loop = 0.0
            for engine, chunk in plans:
                best = min([once(engine, work, chunk, device) for _ in range(args.repeats + 1)][1:])
                loop = loop or best
                kind = type(engine).__name__.lower()
                print(f"{name:4}{n:8}  {kind:8}{chunk:6}{best * 1e3:10.1f}{loop / best:8.2f}", flush=True)


if __name__ == "__main__":
    main()
