"""Imports point down only; Lightning lives in lit/ and app/, Hydra in app/ and the entry points."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "impatient"
FILES = sorted(PACKAGE.rglob("*.py"))
BASE = {"messages", "flat", "rng", "checks", "ranks", "machine", "files"}
ROOMS = {"aggregators", "availability", "data", "engine", "models", "server"}


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_point_down(file: Path) -> None:
    names = imported(file)
    tops = {name.split(".")[0] for name in names}
    room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert "pytorch_lightning" not in tops
    assert not any(name.startswith("hydra._internal") for name in names)
    if room != "app":
        assert not tops & {"hydra", "omegaconf"}
    if room not in ("lit", "app"):
        assert not tops & {"lightning", "wandb"}
    ours = {name.split(".")[1] for name in names if name.startswith("impatient.")}
    if room in BASE:
        assert ours <= BASE
    if room in ROOMS:
        assert ours <= BASE | {room}, f"{room} imports {ours - BASE - {room}}"
    if room not in ("lit", "app"):
        assert "lit" not in ours
    assert room == "app" or "app" not in ours


def test_rules_are_named_in_their_own_files_only() -> None:
    rules = {f.stem for f in (PACKAGE / "aggregators").glob("*.py")} - {"__init__", "base"}
    for file in FILES:
        for name in imported(file):
            if file.parent.name != "aggregators" and name.startswith("impatient.aggregators."):
                assert name.split(".")[-1] not in rules, file
