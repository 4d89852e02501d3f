"""What this machine has left."""

from collections.abc import Iterator
from pathlib import Path

import torch


def free_bytes(device: str = "cpu", root: str = "/") -> int | None:
    """What can still be taken of a device's memory; None where nobody tells.

    On Linux the smallest of MemAvailable and what the process' control groups (a container, a Slurm job) have left, of
    either version; what the kernel keeps of files it would give back first.
    """
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(device)[0]
    free = [1024 * value for key, value in _numbers(Path(root, "proc/meminfo")) if key == "MemAvailable:"]
    for line in _lines(Path(root, "proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            home, names = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            home = "sys/fs/cgroup/memory"
        else:
            continue
        # Every group above sets a limit, too. In a container its own group is mounted as the uppermost.
        group = Path(root, home, path.strip("/"))
        for folder in (group, *group.parents[: len(Path(path).parts) - 1]):
            limit, used = (" ".join(_lines(folder / name)) for name in names[:2])
            if limit.isdigit() and used.isdigit():
                files = dict(_numbers(folder / "memory.stat")).get(names[2], 0)
                free.append(int(limit) - int(used) + files)
    return max(0, min(free)) if free else None


def _numbers(path: Path) -> Iterator[tuple[str, int]]:
    for line in _lines(path):
        key, value, *_ = [*line.split(), "", ""]
        if value.isdigit():
            yield key, int(value)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
