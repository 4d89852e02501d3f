"""The words of a command line, as Hydra reads them."""

from pathlib import Path

import pytest

from commands import python
from impatient.app import folder
from impatient.app.cli import quoted, split_paths
from impatient.app.folder import value_of


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (["key=/a/b"], "/a/b"),
        (["key='/a b=1'"], "/a b=1"),
        (['key="/a b"'], "/a b"),
        ([r"key=/a\ b\=1"], "/a b=1"),
        (["+key=/a", "key=/b"], "/b"),
        (["key="], ""),
        (["hydra.run.dir=${paths.log_dir}/x", "paths.log_dir=/logs"], "/logs/x"),
        (["hydra.run.dir=${nothing.there}/x"], None),
        (["key=a,b"], None),
        (["key=null"], None),
        (["key=[a"], None),
        (["other=/a", "--key=/a", "-m"], None),
    ],
)
def test_the_value_of_a_key(typed: list[str], value: str | None) -> None:
    key = "hydra.run.dir" if "hydra" in typed[0] else "key"
    assert value_of(typed, key) == value


@pytest.mark.parametrize("text", ["a b", "it's", "a=1,b", "c\\", "\\'", "[x]"])
def test_quotes_give_the_text_back(text: str) -> None:
    assert value_of([f"key={quoted(text)}"], "key") == text


def test_paths_are_what_has_no_sign_or_is_there(tmp_path: Path) -> None:
    run = tmp_path / "algo=mifa,seed=0"
    run.mkdir()
    assert split_paths(["-m", "a/b", "x=1", str(run)]) == (["a/b", str(run)], ["-m", "x=1"])


@pytest.mark.parametrize("form", ["'{}'", '"{}"', "{}"])
def test_the_saved_overrides_of_a_folder_in_quotes(tmp_path: Path, form: str) -> None:
    (tmp_path / "overrides.json").write_text('["client.lr=0.3"]')
    typed = [f"hydra.run.dir={form.format(tmp_path)}", "ckpt_path='last'"]
    assert folder.with_saved_overrides(typed) == ["client.lr=0.3", "hydra.mode=RUN", *typed]


def test_no_run_to_resume_and_no_settings_of_one(tmp_path: Path) -> None:
    """As after a kill before the run wrote what it was asked for: the defaults would be another experiment."""
    typed = [f"hydra.run.dir={tmp_path}", "ckpt_path=last"]
    for short in (typed, [*typed, "rounds=9"]):
        with pytest.raises(SystemExit, match="holds no run yet; name a run's folder, or give the whole command again"):
            folder.with_saved_overrides(short)
    assert folder.with_saved_overrides([*typed, "algo=mifa"]) == [*typed, "algo=mifa"]


def test_one_run_at_a_time() -> None:
    assert "b: one run at a time" in python("eval.py", "a", "b", code=1)
