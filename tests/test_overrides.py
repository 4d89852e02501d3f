"""What is said of overrides at which Hydra stops: the value, the nearest name, the way out."""

import pytest

from overrides import composition_faults, group_faults


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
        ("algo.ini=zero", "algo.ini: unknown key; did you mean init?; +algo.ini=… adds it"),
        ("algo={inti: zero}", "algo.inti: unknown key; did you mean init?"),
        ("availabilty.pmin=2", "availabilty: unknown key; did you mean availability?"),
        ("~algo.nit", "algo.nit: unknown key; did you mean init?"),
        ("hydra.run.dri=x", "hydra.run.dri: unknown key; did you mean dir?"),
        ("algo=fedavg_is algo.init=zero", "algo.init: unknown key; known: none"),
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
    (found,) = composition_faults(line.replace("{inti: zero}", "{inti:zero}").split(), "train")
    assert found.startswith(fault)


def test_all_at_once() -> None:
    faults = composition_faults(["algo.ini=zero", "partition.kind=3", "hydra.sweeper.param=3"], "train")
    assert [fault.split(":")[0] for fault in faults] == ["algo.ini", "partition.kind", "hydra.sweeper.param"]


@pytest.mark.parametrize(
    "line", ["rounds=3", "algo=fedavg_is", "rounds=1,2", "+algo.x=1", "++algo.x=1", "algo=${data}"]
)
def test_nothing_is_made_up(line: str) -> None:
    assert composition_faults([line], "train") == []
