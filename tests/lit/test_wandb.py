"""W&B never asks, stays one run, and only the first rank speaks for it."""

from pathlib import Path

import pytest
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from impatient.checks import ConfigError
from impatient.lit.wandb_logger import WandbMetrics, has_key


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", "/nonexistent/netrc")


def test_without_a_key_it_is_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_key()
    assert WandbMetrics(str(tmp_path), "p")._wandb_init["mode"] == "offline"
    with pytest.raises(ConfigError, match="wandb login"):
        WandbMetrics(str(tmp_path), "p", mode="online")
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    assert WandbMetrics(str(tmp_path), "p")._wandb_init["mode"] == "online"


def test_an_address_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "notaurl")
    with pytest.raises(ConfigError, match="WANDB_BASE_URL=notaurl is no URL"):
        WandbMetrics(str(tmp_path), "p")


@pytest.mark.parametrize("text", ["", "a/b", "\0", "x" * 65])
def test_an_id_that_is_none_is_made_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "wandb_id").write_text(text)
    assert WandbMetrics(str(tmp_path), "p").run_id.isalnum()


def test_the_folders_run_is_taken_up_again(tmp_path: Path) -> None:
    (tmp_path / "wandb_id").write_text("abcd1234")
    assert WandbMetrics(str(tmp_path), "p").run_id == "abcd1234"


def test_other_ranks_leave_the_id_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    WandbMetrics(str(tmp_path), "p").begin(["round"], 0)
    assert not (tmp_path / "wandb_id").exists()
