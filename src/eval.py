"""A checkpoint → the same metrics as in training.

python src/eval.py logs/runs/<folder>
"""

import logging
import sys
import warnings
from pathlib import Path

import hydra
import lightning as L
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig

import build
import door
import resume
from arguments import quoted, split_paths
from impatient import tables
from impatient.checks import ConfigError
from impatient.lit.checkpoint import read_header

log = logging.getLogger("impatient")


def locate(run: str | None, ckpt_path: str | None) -> tuple[Path, Path]:
    """The run's folder and the checkpoint. Raises ConfigError for one that is not there."""
    if (run is None) == (ckpt_path is None):
        raise ConfigError("give a run's folder, or ckpt_path=<file>: python src/eval.py logs/runs/<folder>")
    ckpt = Path(run) / "checkpoints" / "last.ckpt" if run else Path(str(ckpt_path))
    folder = Path(run) if run else ckpt.parent.parent
    missing = [path for path in (folder / "config.yaml", ckpt) if not path.is_file()]
    if missing:
        raise ConfigError(*(f"{path}: there is no such file; name the folder of a run" for path in missing))
    read_header(ckpt)
    return folder, ckpt


def evaluate(folder: Path, ckpt: Path, data_dir: str | None) -> dict[str, float]:
    """The metrics of one checkpoint of the run in `folder`."""
    config = resume.read_config(folder / "config.yaml")
    if not all(isinstance(config.get(key), dict) for key in ("data", "memory", "trainer")):
        raise ConfigError(f"{folder / 'config.yaml'}: is not the config of a run")
    if data_dir is not None and "root" in config["data"]:
        config["data"]["root"] = data_dir
        if "cache_dir" in config["data"]:  # of the machine that trained
            config["data"]["cache_dir"] = None
    # No round is run, and this machine need not be the one that trained.
    config["trainer"] |= {"max_steps": config.get("rounds"), "accelerator": "auto", "devices": 1, "strategy": "auto"}
    config["logger"] = config["callbacks"] = {}
    config["memory"]["device"] = "auto"
    parts = build.validate(config)
    torch.set_num_threads(config["threads"])
    dm = build.datamodule(config, parts)
    module = build.round_module(config, parts, dm)
    try:
        trainer = L.Trainer(
            accelerator="auto",
            precision=config["trainer"].get("precision"),
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except (ValueError, MisconfigurationException) as error:
        raise ConfigError(f"trainer: {error}") from error
    trainer.test(module, datamodule=dm, ckpt_path=ckpt, verbose=False)
    return module.evaluated


@hydra.main(version_base="1.3", config_path="../configs", config_name="eval")
def main(cfg: DictConfig) -> None:
    """Evaluate and print; a user's mistake is one message and exit status 1."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*treespec")  # Lightning 2.6 asks torch 2.14 in an old way
    warnings.filterwarnings("ignore", ".*callbacks used to create the checkpoint.*")
    try:
        folder, ckpt = locate(cfg.run, cfg.ckpt_path)
        tables.show_metrics(f"{ckpt}", evaluate(folder, ckpt, cfg.data_dir))
    except ConfigError as error:
        door.show_faults(error)
        sys.exit(1)


if __name__ == "__main__":
    paths, rest = split_paths(sys.argv[1:])
    if len(paths) > 1:
        sys.exit(f"{paths[1]}: one run at a time, by its folder or by one checkpoint")
    named = [f"{'ckpt_path' if path.endswith('.ckpt') else 'run'}={quoted(path)}" for path in paths]
    sys.argv = [sys.argv[0], *named, *rest]
    door.enter(main)
