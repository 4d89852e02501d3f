"""What is said of overrides at which Hydra stops: the value, the nearest name, the way out."""

import importlib

import pytest

import build
from composed import all_faults
from overrides import group_faults


@pytest.mark.parametrize("value", ["null", "3", "nan", "true", "[1]", "[null]", "${..}"])
def test_a_group_that_is_given_no_choice(value: str) -> None:
    (fault,) = group_faults([f"algo={value}", "num_clients=3", "model=cnn"])
    assert fault.startswith(f"algo={value}: names no choice; there are fedavg_all, ")


@pytest.mark.parametrize(
    "override",
    [
        "algo=mifa",
        "algo=[mifa]",
        "~algo",
        "~algo=mifa",
        "algo={init: zero}",
        "algo=mifa,fedavg_is",
        "algo=${data}",
        "x=${",
    ],
)
def test_what_hydra_deals_with_itself(override: str) -> None:
    assert group_faults([override]) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("algo.ini=zero", "algo.ini: unknown key; did you mean init?"),
        ("algo={inti: zero}", "algo.inti: unknown key; did you mean init?"),
        ("availabilty.pmin=2", "availabilty: unknown key; did you mean availability?"),
        ("~algo.nit", "algo.nit: unknown key; did you mean init?"),
        ("hydra.run.dri=x", "hydra.run.dri: unknown key; did you mean dir?"),
        ("algo=fedavg_is algo.init=zero", "algo.init: unknown key; known: none"),
        (
            "algo=${data}",
            "algo=${data}: In 'train': Could not find 'algo/digits' Available options in 'algo': fedavg_all",
        ),
        ("algo=mfia", "algo=mfia: no such choice; did you mean mifa? there are fedavg_all, "),
        ("algo=mifa,fedavg", "algo=fedavg: no such choice; did you mean fedavg_is? there are fedavg_all, "),
        ("rounds", "rounds: is no override (missing EQUAL at '<EOF>'); write key=value"),
        ("rounds=[1", "rounds=[1: is no override ("),
        # A key that one of the swept rules lacks, typed with -m or in a sweep of one's own.
        ("algo=mifa,fedavg_is algo.init=zero", "algo.init: unknown key with algo=fedavg_is; run those apart"),
        ("sweep=joblib algo=mifa,fedavg_is algo.init=zero", "algo.init: unknown key with algo=fedavg_is; run those"),
        (
            "sweep=figure2_mnist algo.init=zero",
            "algo.init: unknown key with algo=fedavg_biased or algo=fedavg_is or algo=fedavg_sampling or "
            "algo=fedavg_sampling_all; run those apart",
        ),
    ],
)
def test_the_nearest_name(line: str, fault: str) -> None:
    (found,) = all_faults(line.replace("{inti: zero}", "{inti:zero}").split(), "train")
    assert found.startswith(fault)


def test_all_at_once() -> None:
    faults = all_faults(["algo.ini=zero", "partition.kind=3", "hydra.sweeper.param=3"], "train")
    assert [fault.split(":")[0] for fault in faults] == ["algo.ini", "partition.kind", "hydra.sweeper.param"]


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        # What Hydra cannot compose hides no bad value beside it.
        ("availability.pmin=abc roundss=3", ["roundss:", "availability.pmin=abc:"]),
        ("rounds=??? client.lr=-1", ["rounds:", "client.lr=-1:"]),
        ("rounds=${nope} client.lr=${foo} eval_every=-1", ["rounds:", "client.lr:", "eval_every=-1:"]),
        ("+rounds=3 client.lr=-1", ["+rounds=3: is there already", "client.lr=-1:"]),
        ("hydra.job.num=abc client.lr=-1", ["hydra.job.num=abc:", "client.lr=-1:"]),
        ("logger.wandb.mode=onlin roundss=1", ["roundss:", "logger.wandb.mode=onlin: must be one of online"]),
        ("x=[ client.lr=-1", ["x=[:", "client.lr=-1:"]),
        ("algo=3 client.lr=-1", ["algo=3:", "client.lr=-1:"]),
        # A misspelt choice counts as the nearest one.
        ("algo=mfia rounds=abc algo.ini=1 algo.init=q", ["algo=mfia:", "algo.ini:", "rounds=abc:", "algo.init=q:"]),
        # What an unknown one would bring is not known: nothing is said of keys that it may have.
        ("algo=nosuch rounds=abc algo.cohort_size=3 client.lr=0", ["algo=nosuch:", "rounds=abc:", "client.lr=0:"]),
        ("data=nosuch client.steps=0 partition.x=1 rounds=0", ["data=nosuch:", "rounds=0:"]),
        # Of every job of a sweep.
        ("algo=glob(fed*) roundss=3 client.lr=0", ["roundss:", "client.lr=0:"]),
        ("algo=glob(zz*) roundss=3", ["algo=glob(zz*): chooses nothing that there is", "roundss: unknown key"]),
        ("rounds=3,??? roundss=3", ["roundss:", "rounds: is missing"]),
        ("hydra/launcher=basic,nix rounds=0", ["rounds=0:", "In 'hydra/config': Could not find 'hydra/launcher/nix'"]),
        ("seed=0,1 roundss=3 client.lr=-1,1,-2", ["roundss:", "client.lr=-1:", "client.lr=-2:"]),
        ("sweep=figure2_mnist roundss=3 client.lr=-1", ["roundss:", "client.lr=-1:"]),
    ],
)
def test_bad_values_beside(line: str, keys: list[str]) -> None:
    found = all_faults(line.split(), "train", judge=build.value_faults)
    assert [fault[: len(key)] for fault, key in zip(found, keys, strict=True)] == keys


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("server.momentum=.9", True),
        ("callbacks.mine=x", True),
        ("hydra.job.env_set.X=1", True),
        ("logger.wandb.tags=[a]", True),
        ("logger.csv.tags=[a]", False),
        ("algo.cohort_size=3", False),
        ("trainer.gradient_clip_val=1", False),
        ("roundss=3", False),
        ("algoo=mifa", False),
        ("hydra.run.dri=x", False),
    ],
)
def test_adding_is_proposed_where_it_is_possible(override: str, hint: bool) -> None:
    key = override.partition("=")[0]
    (found,) = all_faults([override], "train")
    assert found.endswith(f"; +{key}=… adds it") == hint
    # True is true: with the plus it is taken.
    added = all_faults([f"+{override}", "rounds=0"], "train", judge=build.value_faults)
    assert not hint or not [fault for fault in added if "momentum" in fault or "hydra" in fault], added


def test_several_values_want_m() -> None:
    (fault,) = all_faults(["seed=0,1"], "train", multirun=False)
    assert fault == "seed=0,1: has several values; add -m to run each, or write a list in brackets"
    assert all_faults(["seed=0,1"], "train", multirun=True) == []
    assert all_faults(["seed=0,1", "sweep=joblib"], "train", multirun=False) == []


@pytest.mark.parametrize("line", ["rounds=3", "algo=fedavg_is", "rounds=1,2", "+algo.x=1", "++algo.x=1"])
def test_nothing_is_made_up(line: str) -> None:
    assert all_faults([line], "train") == []


@pytest.mark.parametrize(
    ("script", "line", "keys"),
    [
        ("check", "algo.foo=3 num_clients=x algo.init=q", ["algo.foo:", "num_clients=x:", "algo.init=q:"]),
        (
            "theory",
            "study.foo=1 seed=x study.repeats=a",
            ["study.foo:", "study.repeats=a: must be a valid integer", "seed="],
        ),
    ],
)
def test_other_entry_points_likewise(script: str, line: str, keys: list[str]) -> None:
    judge = importlib.import_module(script).faults_in
    found = all_faults(line.split(), script, judge=judge)
    assert [fault[: len(key)] for fault, key in zip(found, keys, strict=True)] == keys
