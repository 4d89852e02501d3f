"""Weights & Biases: on by default, and never asks."""

import hashlib
import json
import logging
import netrc
import os
import re
import secrets
from pathlib import Path
from typing import Any

import wandb
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from impatient import files
from impatient.checks import ConfigError, check, number, one_of
from impatient.plots.groups import setting

log = logging.getLogger(__name__)


class WandbMetrics(WandbLogger):
    """Lightning's W&B logger with `round` as the axis of everything.

    mode: online | offline | disabled, or None: what WANDB_MODE says, else online where there is an API key
    (WANDB_API_KEY or a netrc entry), else offline. The run's id is kept in the run folder, so that a resumed run stays
    the same W&B run. A server that does not take the run within `patience` seconds leaves it offline, with a warning;
    at the end uploads get 60 s. What was not sent lies in the run folder, for `wandb sync`.
    """

    def __init__(
        self, folder: str, project: str, mode: str | None = None, patience: float = 8.0, **kwargs: Any
    ) -> None:
        mode = mode or os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")
        check(one_of("mode", mode, ("online", "offline", "disabled")), number("patience", patience, 1, 600))
        if mode == "online" and not has_key():
            raise ConfigError("mode=online: there is no API key; run `wandb login`, or use mode=offline")
        url = os.environ.get("WANDB_BASE_URL")
        if url and not re.match(r"https?://\w", url):
            raise ConfigError(f"mode: WANDB_BASE_URL={url} is no URL; write https://…, unset it, or use logger=csv")
        self.folder = Path(folder)
        kept = self.folder / "wandb_id"
        run_id = kept.read_text(encoding="utf-8", errors="replace").strip() if kept.exists() else ""
        if not re.fullmatch(r"[\w-]{1,64}", run_id):  # none yet, or a torn one
            run_id = secrets.token_hex(4)
        settings = wandb.Settings(quiet=True, init_timeout=patience, finish_timeout=60)
        super().__init__(save_dir=folder, project=project, id=run_id, mode=mode, settings=settings, **kwargs)
        self._wandb_init.pop("anonymous")  # Lightning passes what W&B now warns of
        self.kept, self.run_id = kept, run_id

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The W&B run, made at the first call."""
        if self._experiment is None and self._wandb_init["mode"] == "online":
            try:
                self._experiment = wandb.init(**self._wandb_init)
            except wandb.Error as error:  # no network, no such server, a wrong key: no reason not to train
                why = str(error).splitlines()[0][:150]
                log.warning("W&B takes no run (%s): offline; send it later with `wandb sync`", why)
                self._wandb_init["mode"] = "offline"
                wandb.teardown()  # its service holds the run's id
        return super().experiment

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """The config; what differs by its seeds alone is one group, where none is given."""
        if self._wandb_init.get("group") is None:
            self._wandb_init["group"] = group_of(params)
        super().log_hyperparams(params)

    @rank_zero_only
    def begin(self, columns: list[str], round: int) -> None:
        """Make `round` the axis; remember the id."""
        files.write(self.kept, self.run_id)
        self.experiment.define_metric("round")
        self.experiment.define_metric("*", step_metric="round")

    @rank_zero_only
    def end(self, summary: dict[str, Any]) -> None:
        """The hashes of what was drawn, beside the last metrics, which W&B keeps by itself."""
        self.experiment.summary.update({key: value for key, value in summary.items() if key.startswith("hash/")})

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        """One call a round; the axis is the metric `round`, so W&B's own step counter is left alone."""
        super().log_metrics(dict(metrics))


def group_of(config: dict[str, Any]) -> str:
    """The W&B group: seeds of one setting are drawn together, as they are by src/plot.py."""
    core = json.dumps(setting(config), sort_keys=True, default=str)
    digest = hashlib.blake2b(core.encode(), digest_size=3).hexdigest()
    choices = config.get("choices") or {}
    return "-".join([*(str(choices[key]) for key in ("data", "algo") if key in choices), digest])


def has_key() -> bool:
    """Whether W&B would find an API key without asking."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    url = os.environ.get("WANDB_BASE_URL")
    hosts = [url.split("://")[-1].strip("/")] if url else ["api.wandb.ai", "api.forge.coreweave.com"]
    try:
        known = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return False
    return any(known.authenticators(host) for host in hosts)
