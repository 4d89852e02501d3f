"""What comes from somebody else is never executed, and what somebody else wrote is never written over."""

import contextlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from torch import nn
from torch.fx.graph_module import reduce_graph_module

from commands import config, faults, settings
from impatient import files, records
from impatient.aggregators.base import Aggregator
from impatient.app import folder as run_folder
from impatient.app.build import target_faults
from impatient.app.run import metrics_of
from impatient.checks import ConfigError
from impatient.data.partition import base as partition
from impatient.lit.checkpoint import AtomicCheckpointIO, read_header
from impatient.lit.csv_logger import CSVMetrics


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
    found = target_faults(group, {"_target_": target}, nn.Module if group == "model" else Aggregator)
    assert found[0].startswith(f"{group}._target_={target}: must be ")


@pytest.mark.parametrize("target", ["torch.load", "logging.FileHandler", "torchvision.datasets.utils.download_url"])
@pytest.mark.parametrize("where", ["init", "init.1", "init.a", "init.a.0.b"])
def test_targets_inside_are_looked_at_too(target: str, where: str) -> None:
    """However deep: what makes files or opens pickles is no part of a rule, be it a class or say what it returns."""
    bad = {"_target_": target}
    inner = {"init": bad, "init.1": [1, bad], "init.a": {"a": bad}, "init.a.0.b": {"a": [{"b": bad}]}}[where]
    (fault,) = target_faults("algo", {"_target_": "impatient.aggregators.mifa.MIFA", "init": inner}, Aggregator)
    assert fault.startswith(f"algo.{where}._target_={target}: must be impatient.aggregators.base.Aggregator")


def test_a_model_is_not_made_of_text(tmp_path: Path) -> None:
    """torch.fx has a function that says it returns a module, and executes the imports that it is given."""
    text = f"import pathlib; pathlib.Path({str(tmp_path / 'executed')!r}).touch()\n"
    body = {"_code": "def forward(self, x):\n    return x\n"}
    with contextlib.suppress(AttributeError):  # it wants more of the body, too late
        reduce_graph_module(body, text)
    assert (tmp_path / "executed").exists()
    node = {"_target_": "torch.fx.graph_module.reduce_graph_module", "body": body, "import_block": text}
    assert target_faults("model", node, nn.Module)[0].endswith("or a function that is annotated to return one")


def test_what_users_name_is_still_taken() -> None:
    """A class, a function annotated to return one, and modules inside of modules."""
    assert torchvision.models.resnet18.__annotations__["return"]
    assert target_faults("model", {"_target_": "torchvision.models.resnet18", "num_classes": 3}, nn.Module) == []
    layer = {"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 3}
    assert target_faults("model", {"_target_": "torch.nn.Sequential", "_args_": [layer]}, nn.Module) == []


def test_eval_executes_nothing_of_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    bomb = tmp_path / "bomb.pt"
    bomb.write_bytes(pickle.dumps(Bomb(tmp_path / "executed")))
    torch.save({"global_step": 3, "impatient": {"identity": {}}}, tmp_path / "checkpoints/last.ckpt")
    foreign = config()
    foreign["model"] = {"_target_": "torch.load", "f": str(bomb), "weights_only": False}
    with pytest.raises(ConfigError, match=r"model\._target_=torch\.load: must be torch\.nn\.modules\.module\.Module"):
        metrics_of(written(foreign, tmp_path) / "checkpoints/last.ckpt")
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
    precious, link = tmp_path / "precious", tmp_path / "run/last.ckpt"
    precious.write_text("kept")
    link.parent.mkdir()
    link.symlink_to(precious)
    AtomicCheckpointIO().save_checkpoint({"a": 1}, link)
    assert precious.read_text() == "kept"
    assert torch.load(link) == {"a": 1}


# Folders --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ckpt_path", [None, "last"])
@pytest.mark.parametrize("name", ["config.yaml", "metrics.csv", "summary.json", "checkpoints", ".hydra"])
def test_a_folder_of_other_things_is_not_written_into(tmp_path: Path, name: str, ckpt_path: str | None) -> None:
    (tmp_path / name).mkdir() if "." not in name[1:] else (tmp_path / name).write_text("precious")
    asked = settings(f"ckpt_path={ckpt_path or 'null'}", run_dir=str(tmp_path))
    with pytest.raises(
        ConfigError, match=f"has a {name} and no overrides.json, so it is no run's; name another folder"
    ):
        run_folder.checkpoint_of(asked)
    # A run that was killed before its first checkpoint goes on, if asked to.
    (tmp_path / "overrides.json").write_text("[]")
    if ckpt_path is None:
        with pytest.raises(ConfigError, match="holds a run already"):
            run_folder.checkpoint_of(asked)
    else:
        assert run_folder.checkpoint_of(asked) is None


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


def test_a_checkpoint_of_another_run_into_a_third_ones_folder(tmp_path: Path) -> None:
    """Or into a folder of other things: its rows, its config and its checkpoints would be written over."""
    for run in ("other", "third"):
        (tmp_path / run / "checkpoints").mkdir(parents=True)
        (tmp_path / run / "overrides.json").write_text("[]")
        (tmp_path / run / "checkpoints/best.ckpt").touch()
    other, own = tmp_path / "other/checkpoints/best.ckpt", tmp_path / "third/checkpoints/best.ckpt"
    with pytest.raises(ConfigError, match=r"is another run's, and .*third has a overrides\.json already"):
        run_folder.checkpoint_of(settings(f"ckpt_path='{other}'", run_dir=str(tmp_path / "third")))
    assert run_folder.checkpoint_of(settings(f"ckpt_path='{own}'", run_dir=str(tmp_path / "third"))) == own
    assert run_folder.checkpoint_of(settings(f"ckpt_path='{other}'", run_dir=str(tmp_path / "new"))) == other


# A run's folder that somebody sent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arg",
    [
        "--config-dir=/tmp",
        "-m",
        "hydra/launcher=joblib",
        "hydra.sweep.dir=/tmp/elsewhere",
        "++hydra.job_logging.handlers.file.filename=/tmp/elsewhere",
        "+hydra.callbacks.x._target_=os.mkdir",
        "~hydra",
        "paths.run_dir=/tmp/elsewhere",
        5,
        None,
        ["rounds=3"],
    ],
)
def test_saved_overrides_are_about_the_run_alone(tmp_path: Path, arg: Any) -> None:
    """They come before one's own: a flag, a program or a log file of somebody else's choice must not."""
    resumed = [f"hydra.run.dir={tmp_path}", "ckpt_path=last"]
    (tmp_path / "overrides.json").write_text(json.dumps(["rounds=5", "~algo.init", "+hydrant=1"]))
    assert run_folder.with_saved_overrides(resumed) == [
        *("rounds=5", "~algo.init", "+hydrant=1", "hydra.mode=RUN"),
        *resumed,
    ]
    (tmp_path / "overrides.json").write_text(json.dumps(["rounds=5", arg]))
    with pytest.raises(SystemExit, match=r"overrides\.json: cannot be read"):
        run_folder.with_saved_overrides(resumed)


@pytest.mark.parametrize("text", ["null", "{}", '"rounds=5"', "[" * 100_000])
def test_saved_overrides_that_are_no_list(tmp_path: Path, text: str) -> None:
    (tmp_path / "overrides.json").write_text(text)
    with pytest.raises(SystemExit, match=r"overrides\.json: cannot be read"):
        run_folder.with_saved_overrides([f"hydra.run.dir={tmp_path}", "ckpt_path=last"])


@pytest.mark.parametrize(
    "ref", ["${oc.env:SECRET}", "${oc.decode:${oc.env:SECRET}}", "${..seed}", "a ${oc.env:SECRET}"]
)
def test_a_foreign_config_asks_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    (tmp_path / "config.yaml").write_text(f"data: {{root: '{ref}'}}\n")
    with pytest.raises(ConfigError, match=r"config\.yaml: data\.root=.*: must be a value") as caught:
        records.config_of(tmp_path / "config.yaml")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        # Nine times nine times … : a few hundred bytes that are 10^9 words.
        "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10))]),
        "a: !!python/object/apply:os.getcwd []",
        "[" * 1500,
        "a: [1",
        "\0",
        "- a",
    ],
)
def test_a_config_that_no_run_wrote(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml: (cannot be read|is not the config of a run)"):
        records.config_of(tmp_path / "config.yaml")


def test_a_config_that_is_torn_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("a: [1")
    with pytest.raises(ConfigError, match=r"config\.yaml: cannot be read .*; remove the file to go on without it"):
        run_folder.keep_what_was(settings(run_dir=str(tmp_path)), 3)


def test_what_runs_write_is_read_back(tmp_path: Path) -> None:
    assert records.config_of(written(config(), tmp_path) / "config.yaml") == config()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"memory": "none"}, "is not the config of a run"),
        ({"data": None}, "is not the config of a run"),
        ({"trainer": {"precision": 17}}, r"trainer"),
    ],
)
def test_eval_says_what_is_wrong_with_a_foreign_config(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    cfg = config()
    changed = {k: {**cfg[k], **v} if isinstance(v, dict) else v for k, v in change.items()}
    (tmp_path / "checkpoints").mkdir()
    torch.save({"global_step": 3, "impatient": {"identity": {}}}, tmp_path / "checkpoints/last.ckpt")
    with pytest.raises(ConfigError, match=said):
        metrics_of(written({**cfg, **changed}, tmp_path) / "checkpoints/last.ckpt")


def test_eval_asks_for_nothing_of_the_machine_that_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for its accelerator, its ranks or its key: the first fault is that the checkpoint is another run's."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    cfg = config()
    cfg["trainer"] |= {"accelerator": "gpu", "devices": 2, "strategy": "ddp", "max_steps": 7}
    cfg["logger"]["wandb"]["mode"] = "online"
    cfg["callbacks"]["mine"] = {"_target_": "not_here.Mine"}
    (tmp_path / "checkpoints").mkdir()
    torch.save({"global_step": 3, "impatient": {"identity": {}}}, tmp_path / "checkpoints/last.ckpt")
    with pytest.raises((ConfigError, KeyError)) as caught:
        metrics_of(written(cfg, tmp_path) / "checkpoints/last.ckpt")
    assert "trainer" not in str(caught.value)
    assert "mode" not in str(caught.value)
    assert "mine" not in str(caught.value)


@pytest.mark.parametrize("name", ["train.log", ".hydra"])
def test_hydras_files_are_no_links(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "precious")
    with pytest.raises(ConfigError, match=f"{name} is a link"), run_folder.claimed(tmp_path):
        pytest.fail("claimed")


@pytest.mark.parametrize("folder", ["~", "~/runs/mine", "'~'", "~me/x"])
@pytest.mark.parametrize("key", ["hydra.run.dir", "hydra.sweep.dir"])
def test_no_folder_is_called_tilde(folder: str, key: str) -> None:
    """The shell does not expand it there, and whoever removes a folder of that name removes another."""
    with pytest.raises(SystemExit, match=r"a folder of the name ~; write \$HOME"):
        run_folder.with_saved_overrides([f"{key}={folder}"])


@pytest.mark.parametrize(
    "part",
    [
        *(".config.yaml.part", ".metrics.csv.part", ".last.ckpt.part", ".participation.csv.part"),
        *(".clients.csv.part", ".partition.json.part"),
    ],
)
def test_nothing_is_written_through_a_link(tmp_path: Path, part: str) -> None:
    """Whoever sent a folder knows the names of the files that are written first and then renamed."""
    (tmp_path / "run").mkdir()
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "run" / part).symlink_to(precious)
    files.write(tmp_path / "run/config.yaml", "new")
    CSVMetrics(str(tmp_path / "run")).begin(["round"], 0)
    AtomicCheckpointIO().save_checkpoint({"a": 1}, tmp_path / "run/last.ckpt")
    records.begin_masks(tmp_path / "run", 0)
    records.write_clients(tmp_path / "run", [1], None, ["a"], np.ones((1, 1), dtype=np.int64))
    partition.save(tmp_path / "run/partition.json", [np.array([0])])
    assert precious.read_text() == "kept"
    assert (tmp_path / "run/config.yaml").read_text() == "new"
    assert not [path for path in (tmp_path / "run").iterdir() if path.is_symlink() or path.name.startswith(".")]


def test_the_lock_is_no_link(tmp_path: Path) -> None:
    """It is emptied before it is written."""
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(ConfigError, match="symbolic links"), run_folder.claimed(tmp_path):
        pytest.fail("claimed")
    assert (tmp_path / "precious").read_text() == "kept"


def test_the_config_that_was_is_kept_and_not_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "run/config.before_round_3.yaml").symlink_to(precious)
    was = written(config(), tmp_path / "run") / "config.yaml"
    text = was.read_text()
    run_folder.keep_what_was(settings("eval_every=77", run_dir=str(tmp_path / "run")), 3)
    assert precious.read_text() == "kept"
    assert (tmp_path / "run/config.before_round_3.yaml").read_text() == text


@pytest.mark.parametrize("cell", ["²", "9" * 5000, "-1", "1.0", "\udcff", ""])
def test_odd_rows_of_metrics_are_left_out(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(f"round,x\n0,a\n{cell},b\n1,c\n".encode(errors="surrogateescape"))
    CSVMetrics(str(tmp_path)).begin(["round", "x"], 2)
    assert path.read_text() == "round,x\n0,a\n1,c\n"


def test_metrics_that_are_no_table_are_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("round\n" + "x" * 200_000 + "\n")
    with pytest.raises(ConfigError, match=r"metrics\.csv: is no table"):
        CSVMetrics(str(tmp_path)).begin(["round"], 2)


@pytest.mark.parametrize(
    "header", [{"global_step": "3"}, {"global_step": -1}, {"global_step": True}, {"impatient": {"identity": 5}}]
)
def test_a_checkpoint_whose_head_is_none(tmp_path: Path, header: dict[str, Any]) -> None:
    torch.save({"global_step": 3, "impatient": {"identity": {}}, **header}, tmp_path / "last.ckpt")
    with pytest.raises(ConfigError, match="is no whole checkpoint of a run"):
        read_header(tmp_path / "last.ckpt")
