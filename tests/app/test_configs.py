"""Every config composes and validates, heads included; every fault is found, named, and found before data is read."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir

from commands import CONFIGS, config, faults
from impatient.aggregators.mifa import MIFA
from impatient.app import build
from impatient.checks import ConfigError
from impatient.lit.wandb_logger import group_of
from impatient.messages import ClientSettings

YAMLS = sorted(p for p in CONFIGS.rglob("*.yaml"))
SHIPPED = [p for p in YAMLS if p.parent.name not in ("hydra", "configs", "study")]
NEEDED = {"trace": ["availability.path={mask}"], "image_folder": ["data.root=."], "file": ["partition.path={split}"]}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "mask.csv").write_text("\n".join([",".join(["1"] * 100)] * 3))
    (tmp_path / "split.json").write_text(str([[i] for i in range(100)]))
    return {"mask": str(tmp_path / "mask.csv"), "split": str(tmp_path / "split.json")}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: f"{p.parent.name}={p.stem}")
def test_every_choice_validates(path: Path, files: dict[str, str]) -> None:
    extra = [text.format(**files) for text in NEEDED.get(path.stem, [])]
    if path.stem == "none":
        extra.append("data=quadratic")
    cfg = config(f"{path.parent.name}={path.stem}", *extra)
    if cfg["trainer"]["accelerator"] == "gpu" and not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="No supported gpu backend found!; trainer=cpu runs anywhere") as caught:
            build.validated(cfg)
        assert len(caught.value.faults) == 1
    else:
        build.validated(cfg)


def commands(path: Path) -> list[list[str]]:
    """The command lines in a yaml's head comment."""
    head = "\n".join(line for line in path.read_text().splitlines() if line.startswith("#"))
    return [shlex.split(c) for c in re.findall(r"python src/train\.py([^\n]*)", head)]


@pytest.mark.parametrize("path", [p for p in SHIPPED if p.parent.name != "paths"], ids=lambda p: p.stem)
def test_heads_name_commands_that_compose(path: Path) -> None:
    assert commands(path), f"{path} names no command"
    for command in commands(path):
        overrides = [arg for arg in command if not arg.startswith("hydra.")]
        if any(arg.startswith("sweep=") for arg in overrides):  # a multirun composes each of its jobs
            overrides = [arg.split(",")[0] for arg in overrides]
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            compose("train", overrides=overrides)


def test_data_brings_the_papers_settings_and_the_command_line_wins() -> None:
    cfg = config("data=cifar10", "availability.pmin=0.2")
    assert cfg["model"]["_target_"].endswith("LeNet5")
    client = cfg["client"]
    assert (cfg["rounds"], cfg["num_clients"], client["lr"], client["lr_decay"]) == (2000, 100, 0.1, "inverse")
    assert (client["weight_decay"], client["batch_size"], client["epochs"]) == (0.001, 100, 2)
    cfg = config("data=cifar10", "model=cnn", "rounds=7", "client.lr=0.3")
    assert cfg["model"]["_target_"].endswith("CNN")
    assert (cfg["rounds"], cfg["client"]["lr"]) == (7, 0.3)
    assert config("data=mnist")["rounds"] == 200


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["availability.pmin=-0.1"], r"availability\.pmin=-0\.1: must be a number in \[0, 1\]"),
        (["availability.pmin=1.5"], r"availability\.pmin=1\.5: must be"),
        (["availability.pmin=nan"], r"availability\.pmin=nan: must be"),
        (["availability.pmin=two"], r"availability\.pmin=two: must be .* not str"),
        (["availability.formula=other"], "code, printed"),
        (["algo.init=never"], "wait_all, zero, average_seen"),
        (["algo=fedavg_sampling", "algo.cohort_size=101"], r"algo\.cohort_size=101.*num_clients=100"),
        (["partition.classes_per_client=11"], "classes_per_client=11.*10 classes"),
        (["num_clients=5000"], "5000.*1347"),
        (["num_clients=0"], r"num_clients=0: must be greater than or equal to 1"),
        (["rounds=ten"], "rounds=ten"),
        (["client.lr=0"], r"client\.lr=0: must be a number > 0"),
        (["client.epochs=null"], "give one of them"),
        (["client.lr_decay=linear"], "inverse, inverse_sqrt, none"),
        (["memory.dtype=int8"], "float32, bfloat16, float64"),
        (["memory.device=moon"], "memory.device=moon"),
        (["engine.name=fast"], "auto, loop, vmap, linear"),
        (["weights=all"], "must be 'equal' or 'samples'"),
        (["on_bad_update=ignore"], "must be 'fail' or 'skip'"),
        (["+algo.inti=zero"], r"algo\.inti: unknown key; did you mean init\?"),
        (["+num_client=3"], r"num_client: unknown key; did you mean num_clients\?"),
        (["server.lr=-1"], "server"),
        (["+trainer.strategy=fsdp"], r"trainer\.strategy=fsdp"),
        (["trainer.max_epochs=3"], r"trainer\.max_epochs=3"),
        (["seed=-1"], r"seed=-1: must be greater than or equal to 0"),
        (["availability=bernoulli", "availability.p=[0.1,0.2]"], r"^availability\.p: has 2 entries for num_clients"),
        (["availability=markov", "availability.correlation=1"], r"availability\.correlation=1: must be below 1"),
        (["data=quadratic", "availability=label_bernoulli"], r"^availability\.label: this data has no classes"),
        (["availability=bernoulli", "availability.p_range=[0.9,0.1]"], "low is above high"),
        (["model._target_=nowhere.Net"], r"model\._target_=nowhere\.Net: cannot be used \(No module named 'nowhere'\)"),
        (["algo._target_=impatient.aggregators.mifa.MFA"], r"did you mean impatient\.aggregators\.mifa\.MIFA\?"),
        (["algo._target_=impatient.agregators.mifa.MIFA"], "No module named 'impatient.agregators'"),
        (["algo._target_=impatient.aggregators.mifa.MIFA.x"], "'MIFA' has no attribute 'x'"),
        (["algo._target_="], "algo._target_=: cannot be used"),
    ],
)  # fmt: skip
def test_faults_name_value_and_reason(overrides: Sequence[str], said: str) -> None:
    found = faults(*overrides)
    assert any(re.search(said, fault) for fault in found), found


def test_a_rule_may_refuse_the_clients_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(rule: MIFA, num_clients: int, client: ClientSettings) -> list[str]:
        return [f"client.momentum={client.momentum}: of {num_clients}"] if client.momentum else []

    monkeypatch.setattr(MIFA, "check", check)
    assert faults("client.momentum=0.9") == ["client.momentum=0.9: of 100"]
    build.validated(config())


def test_what_the_process_cannot_tell_is_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MIFA, "knowledge", frozenset({"prob", "period"}))
    cfg = config("num_clients=10")
    with pytest.raises(ConfigError) as caught:
        build.federation(*build.validated(cfg))
    assert caught.value.faults == [
        "algo: this rule must know period, which this availability process does not; use another rule"
    ]


def test_all_faults_come_at_once() -> None:
    found = faults("availability.pmin=2", "client.lr=-1", "client.momentum=7", "algo.init=x", "rounds=0", "+foo=1")
    assert len(found) == 6


def identity(*overrides: str) -> dict[str, str]:
    settings, made = build.validated(config(*overrides))
    return build.module(settings, made, build.federation(settings, made)).identity


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        (["algo=fedavg_is"], {"algo"}),
        (["num_clients=11"], {"num_clients", "partition"}),
        (["partition=iid"], {"partition"}),
        (["+model.input_shape=[1,8,8]"], {"model"}),
        (["server=adam"], {"server"}),
        (["weights=samples"], {"weights"}),  # the running mean has them in it
        (["data.noise=2"], {"data"}),
        (["rounds=7", "client.lr=0.1", "availability.p=0.5", "memory.device=cpu", "engine.name=loop"], set()),
    ],
)
def test_what_a_checkpoint_cannot_be_resumed_under(changed: list[str], keys: set[str]) -> None:
    base = ["data=quadratic"] if "data.noise=2" in changed or not keys else ["num_clients=10"]
    was, now = identity(*base), identity(*base, *changed)
    assert {key for key in was if was[key] != now[key]} == keys


def test_a_model_must_have_one_output_a_class() -> None:
    """More would crash the engine in the first round, or count as classes that nobody has."""
    with pytest.raises(ConfigError, match=r"model: gives outputs \(11,\) where the data has 10 classes"):
        identity("+model.num_classes=11")


def test_loggers_callbacks_and_trainer_are_tried_as_well() -> None:
    found = faults(
        "logger.wandb.mode=onlin", "callbacks.checkpoint.mode=x", "trainer.accelerator=abacus", "client.lr=-1"
    )
    assert [fault.split("=")[0].split(":")[0] for fault in found] == [
        "client.lr", "callbacks.checkpoint.mode", "logger.wandb.mode", "trainer",
    ]  # fmt: skip


def test_the_machine_is_judged_only_where_the_run_is_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login node has neither the accelerator nor the memory of the nodes that it sends jobs to."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("impatient.data.dataset.free_bytes", lambda: 1)
    assert [fault.split("=")[0].split(":")[0] for fault in faults("data=quadratic", "trainer=gpu", "client.lr=-1")] == [
        "client.lr", "num_clients", "trainer",
    ]  # fmt: skip
    build.validated(config("data=quadratic", "trainer=gpu"), here=False)
    with pytest.raises(ConfigError) as caught:
        build.validated(config("data=quadratic", "trainer=gpu", "client.lr=-1"), here=False)
    assert caught.value.faults == ["client.lr=-1: must be a number > 0"]


def test_a_users_own_model_by_target_alone() -> None:
    cfg = config("model._target_=torchvision.models.resnet18", "++model.weights=null")
    build.validated(cfg)


def test_seeds_of_one_setting_share_a_wandb_group() -> None:
    def group(*overrides: str) -> str:
        return group_of(config(*overrides) | {"choices": {"data": "digits", "algo": "fedavg_sampling"}})

    first = group("algo=fedavg_sampling", "seed=0")
    assert first == group("algo=fedavg_sampling", "seed=1", "save_every=3")
    assert first != group("algo=fedavg_sampling", "algo.cohort_size=20")
    assert first.startswith("digits-fedavg_sampling-")
