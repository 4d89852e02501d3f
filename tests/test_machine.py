"""Free memory, by what Linux says of the machine and of the groups that a process is in."""

from pathlib import Path

import pytest

from impatient.machine import free_bytes


def machine(root: Path, files: dict[str, str]) -> str:
    for name, text in {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def group(path: str, limit: str, used: int, files: int = 0) -> dict[str, str]:
    """cgroup v2, https://docs.kernel.org/admin-guide/cgroup-v2.html#memory"""
    texts = {"max": limit, "current": str(used), "stat": f"anon {used - files}\ninactive_file {files}\n"}
    return {f"sys/fs/cgroup{path}/memory.{name}": f"{text}\n" for name, text in texts.items()}


def test_this_one() -> None:
    free = free_bytes()
    assert free is None or 50e6 < free < 1e14
    assert (free is not None) == Path("/proc/meminfo").exists()


def test_no_groups(tmp_path: Path) -> None:
    assert free_bytes(root=machine(tmp_path, {})) == 8_192_000
    assert free_bytes(root=str(tmp_path / "not Linux")) is None


@pytest.mark.parametrize(
    ("groups", "free"),
    [
        (group("/job/step", "5000000", 1_000_000), 4_000_000),
        (group("/job/step", "max", 1_000_000), 8_192_000),  # no limit
        (group("/job", "3000000", 1_000_000) | group("/job/step", "5000000", 500_000), 2_000_000),  # the job's own
        (group("", "2000000", 1_500_000), 500_000),  # a container: its group is mounted as the uppermost
        (group("/job/step", "5000000", 4_000_000, files=3_000_000), 4_000_000),  # files that would be given back
        (group("/job/step", "1000", 2_000), 0),
        (group("/job/other", "1000", 500), 8_192_000),
    ],
)
def test_groups(tmp_path: Path, groups: dict[str, str], free: int) -> None:
    assert free_bytes(root=machine(tmp_path, {"proc/self/cgroup": "0::/job/step\n", **groups})) == free


def test_groups_of_version_1(tmp_path: Path) -> None:
    """https://docs.kernel.org/admin-guide/cgroup-v1/memory.html"""
    home = "sys/fs/cgroup/memory/slurm/job_1"
    files = {
        "proc/self/cgroup": "4:memory:/slurm/job_1\n1:cpu,cpuacct:/\n0::/\n",
        f"{home}/memory.limit_in_bytes": "5000000\n",
        f"{home}/memory.usage_in_bytes": "3000000\n",
        f"{home}/memory.stat": "inactive_file 7\ntotal_inactive_file 1000000\n",
    }
    assert free_bytes(root=machine(tmp_path, files)) == 3_000_000
