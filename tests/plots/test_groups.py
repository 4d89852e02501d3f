"""Which runs are seeds of one setting, and what the settings are called."""

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_folder import config, write

from impatient.plots.comparison import comparisons
from impatient.plots.groups import Group, data_set, flat, group, label, natural, setting
from impatient.plots.runs import Run, read


def runs(folder: Path, *configs: dict[str, Any]) -> list[Run]:
    made = [read(write(folder / str(i), {"train/loss": [1.0] * 4}, cfg))[0] for i, cfg in enumerate(configs)]
    assert all(made)
    return [run for run in made if run is not None]


def labels(folder: Path, *configs: dict[str, Any], panel: str | None = None) -> list[str]:
    return [g.label for g in label(group(runs(folder, *configs))[0], panel)]


def test_seeds_paths_and_lengths_make_no_other_setting() -> None:
    first = config("fedavg_sampling", 0)
    same = config("fedavg_sampling", 7, rounds=9, paths__run_dir="/else", threads=4, eval_every=1, save_every=3,
                  trainer__devices=2, logger__csv="x", callbacks__x=1, ckpt_path="last", data__cache_dir="/tmp",
                  choices__logger="csv", engine={"chunk": 8})  # fmt: skip
    assert setting(first) | {"engine": {}} == setting(same)
    for key, value in [("num_clients", 5), ("client__lr", 0.1), ("algo__cohort_size", 10), ("weights", "samples")]:
        assert setting(config("fedavg_sampling", **{key: value})) != setting(first)


def test_where_a_named_data_set_lies_does_not_matter() -> None:
    def there(root: str, **more: str) -> dict[str, Any]:
        return setting(config(data={"root": root, **more}))

    assert there("/a", name="mnist") == there("/b", name="mnist") != there("/b", name="cifar10")
    assert there("/a") != there("/b")


def test_runs_of_a_setting_are_together_and_a_double_is_named(tmp_path: Path) -> None:
    made = runs(tmp_path, *[config("mifa", s) for s in (0, 1, 2)], config("fedavg_is", 0), config("mifa", 1))
    os.utime(made[1].folder / "metrics.csv", (1, 1))
    groups, notes = group(made)
    assert [[r.folder.name for r in g.runs] for g in groups] == [["0", "2", "4"], ["3"]]
    assert len(notes) == 1
    assert notes[0].startswith(f"{made[1].folder}: same setting and seeds as {made[4].folder}")


def test_the_papers_names_in_the_papers_order(tmp_path: Path) -> None:
    configs = [
        config("fedavg_sampling", algo__cohort_size=100),
        config("fedavg_is"),
        config("fedavg_sampling"),
        config("mifa"),
        config("fedavg_biased"),
    ]
    assert labels(tmp_path, *configs) == ["MIFA", "biased FedAvg", "FedAvg-IS", "FedAvg S = 50", "FedAvg S = 100"]


def test_a_rule_of_ones_own_goes_by_its_choice(tmp_path: Path) -> None:
    own = {"algo": {"_target_": "mine.My", "scale": 1}}
    assert labels(tmp_path / "a", config() | own | {"choices": {"algo": "my_rule"}}) == ["my_rule"]
    assert labels(tmp_path / "b", config() | own | {"choices": {}}) == ["My"]


def test_only_what_differs_is_said(tmp_path: Path) -> None:
    configs = [config(), config(algo__init="zero"), config("fedavg_is")]
    assert labels(tmp_path / "a", *configs) == ["MIFA, init = wait_all", "MIFA, init = zero", "FedAvg-IS"]
    configs = [config(client__lr=0.5), config(client__lr=0.1, server={"lr": 2.0})]
    assert labels(tmp_path / "b", *configs) == ["MIFA, client.lr = 0.1, server.lr = 2.0", "MIFA, client.lr = 0.5"]


def test_another_choice_is_named_by_it(tmp_path: Path) -> None:
    iid = config(partition={"_target_": "impatient.data.partition.iid.IID"}, choices__partition="iid")
    assert labels(tmp_path, config(), iid) == ["MIFA, partition iid", "MIFA, partition two_class"]


def test_panels_hold_what_the_labels_then_do_not_say(tmp_path: Path) -> None:
    made = runs(tmp_path, config(availability__pmin=0.2), config(), config("fedavg_is"))
    groups, _ = group(made)
    assert [comparisons(some, panels=panels)[0][0].panel for some, panels in ((made, "auto"), (made[1:], "auto"),
            (made, None))] == ["availability.pmin", None, None]  # fmt: skip
    assert [(g.label, g.panel) for g in label(groups, "availability.pmin")] == [
        ("MIFA", 0.1), ("FedAvg-IS", 0.1), ("MIFA", 0.2)]  # fmt: skip
    assert [g.label for g in label(groups)] == ["MIFA, p_min = 0.1", "MIFA, p_min = 0.2", "FedAvg-IS, p_min = 0.1"]


def test_a_list_may_make_the_panels(tmp_path: Path) -> None:
    groups, _ = group(runs(tmp_path, *[config(availability__p=[0.1, p]) for p in (0.2, 0.3)]))
    assert [g.panel for g in label(groups, "availability.p")] == ["[0.1, 0.2]", "[0.1, 0.3]"]


def test_numbers_stand_in_their_order(tmp_path: Path) -> None:
    said = labels(tmp_path, *[config(client__epochs=e) for e in (10, 2, 1)])
    assert said == ["MIFA, epochs = 1", "MIFA, epochs = 2", "MIFA, epochs = 10"]
    assert sorted(["a 1e-05", "a 0.5", "a 0.25", "b"], key=natural) == ["a 1e-05", "a 0.25", "a 0.5", "b"]


def test_equal_labels_are_told_apart() -> None:
    long = [0.1] * 50
    some = [Group({"availability": {"p": [*long, end]}}, [Run(Path("x"), {}, pd.DataFrame())]) for end in (0.2, 0.3)]
    first, second = (g.label for g in label(some))
    assert first != second
    assert first.endswith("… (1)")


def test_runs_without_a_config_go_by_their_folder(tmp_path: Path) -> None:
    made = runs(tmp_path, config(), config())
    bare = [Run(r.folder, {}, r.table) for r in made]
    assert [g.label for g in label(group(bare)[0])] == ["0", "1"]


@pytest.mark.parametrize(
    ("changes", "name"),
    [({}, "digits"), ({"choices": {}}, "digits"), ({"choices": {}, "data__name": "mnist"}, "mnist")],
)
def test_the_data_sets_name(tmp_path: Path, changes: dict[str, Any], name: str) -> None:
    assert data_set(runs(tmp_path, config(**changes))[0]) == name


def test_flat() -> None:
    assert flat({"a": {"b": 1, "c": {}}, "d": [2]}) == {"a.b": 1, "a.c": {}, "d": [2]}
