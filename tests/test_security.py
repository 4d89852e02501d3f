"""What comes from somebody else is never executed, and what somebody else wrote is never written over."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import nn

import eval as evaluation
import resume
from faults import node_faults
from impatient.aggregators.base import Aggregator
from impatient.checks import ConfigError
from impatient.lit.checkpoint import read_header
from test_configs import config, faults


class Bomb:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return self.path.touch, ()


def test_the_bomb_is_live(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()


# Targets of a config that came with somebody's run, as src/eval.py meets them -----------------------------------------


@pytest.mark.parametrize(
    "target", ["torch.load", "numpy.load", "os.getcwd", "builtins.print", "logging.config.fileConfig", "code.interact"]
)
@pytest.mark.parametrize("group", ["data", "partition", "availability", "algo", "client", "server", "model"])
def test_a_target_is_looked_at_before_it_is_called(group: str, target: str) -> None:
    found = node_faults(group, {"_target_": target}, nn.Module if group == "model" else Aggregator)
    assert found[0].startswith(f"{group}._target_={target}: must be ")


@pytest.mark.parametrize("inner", [{"init": {"_target_": "torch.load"}}, {"init": [1, {"_target_": "torch.load"}]}])
def test_targets_inside_are_looked_at_too(inner: dict[str, Any]) -> None:
    (fault,) = node_faults("algo", {"_target_": "impatient.aggregators.mifa.MIFA", **inner}, Aggregator)
    assert fault.startswith("algo.init")
    assert "_target_=torch.load: must be a class" in fault


def test_what_users_name_is_still_taken() -> None:
    """A class, a function annotated to return one, and modules inside of modules."""
    assert torchvision.models.resnet18.__annotations__["return"]
    assert node_faults("model", {"_target_": "torchvision.models.resnet18", "num_classes": 3}, nn.Module) == []
    layer = {"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 3}
    assert node_faults("model", {"_target_": "torch.nn.Sequential", "_args_": [layer]}, nn.Module) == []


def test_eval_executes_nothing_of_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    bomb = tmp_path / "bomb.pt"
    bomb.write_bytes(pickle.dumps(Bomb(tmp_path / "executed")))
    torch.save({"global_step": 3, "impatient": {"identity": {}}}, tmp_path / "checkpoints/last.ckpt")
    foreign = config()
    foreign["model"] = {"_target_": "torch.load", "f": str(bomb), "weights_only": False}
    with pytest.raises(ConfigError, match=r"model\._target_=torch\.load: must be torch\.nn\.modules\.module\.Module"):
        evaluation.evaluate(written(foreign, tmp_path), tmp_path / "checkpoints/last.ckpt", None)
    assert not (tmp_path / "executed").exists()


def written(cfg: dict[str, Any], folder: Path) -> Path:
    from omegaconf import OmegaConf

    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(cfg)))
    return folder


# Checkpoints ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_a_checkpoint_with_code_in_it_is_refused(tmp_path: Path, how: str) -> None:
    path, content = tmp_path / "last.ckpt", {"global_step": Bomb(tmp_path / "executed")}
    torch.save(content, path) if how == "torch" else path.write_bytes(pickle.dumps(content))
    with pytest.raises(ConfigError, match=r"last\.ckpt: is no whole checkpoint"):
        read_header(path)
    assert not (tmp_path / "executed").exists()


def test_a_save_does_not_follow_a_link(tmp_path: Path) -> None:
    from impatient.lit.checkpoint import AtomicCheckpointIO

    precious, link = tmp_path / "precious", tmp_path / "run/last.ckpt"
    precious.write_text("kept")
    link.parent.mkdir()
    link.symlink_to(precious)
    AtomicCheckpointIO().save_checkpoint({"a": 1}, link)
    assert precious.read_text() == "kept"
    assert torch.load(link) == {"a": 1}


# Folders --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ckpt_path", [None, "last"])
@pytest.mark.parametrize("name", ["config.yaml", "metrics.csv", "summary.json", "checkpoints"])
def test_a_folder_of_other_things_is_not_written_into(tmp_path: Path, name: str, ckpt_path: str | None) -> None:
    (tmp_path / name).mkdir() if name == "checkpoints" else (tmp_path / name).write_text("precious")
    cfg = {"paths": {"run_dir": str(tmp_path)}, "ckpt_path": ckpt_path, "save_every": 10}
    with pytest.raises(
        ConfigError, match=f"has a {name} and no overrides.json, so it is no run's; name another folder"
    ):
        resume.checkpoint_of(cfg)
    # A run that was killed before its first checkpoint goes on, if asked to.
    (tmp_path / "overrides.json").write_text("[]")
    if ckpt_path is None:
        with pytest.raises(ConfigError, match="holds a run already"):
            resume.checkpoint_of(cfg)
    else:
        assert resume.checkpoint_of(cfg) is None


@pytest.mark.parametrize(
    "override",
    [
        "callbacks.checkpoint.folder=/tmp/elsewhere",
        "callbacks.checkpoint.folder=${paths.run_dir}",
        "callbacks.record.folder=${paths.run_dir}/../other",
        "logger.csv.folder=elsewhere",
        "logger.wandb.folder=/",
    ],
)
def test_files_of_a_run_lie_in_its_folder(override: str) -> None:
    key = override.partition("=")[0]
    (fault,) = faults(override)
    assert fault.startswith(f"{key}=")
    assert fault.endswith("; set hydra.run.dir to another folder")
