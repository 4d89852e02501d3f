"""Run folders as train.py leaves them, by hand."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

CONFIG: dict[str, Any] = {
    "num_clients": 4,
    "rounds": 4,
    "eval_every": 2,
    "seed": 0,
    "seeds": {"partition": 0, "cohort": 0},
    "threads": 1,
    "paths": {"run_dir": "/somewhere"},
    "data": {"_target_": "impatient.data.digits.Digits"},
    "client": {"lr": 0.5, "epochs": 2, "steps": None, "batch_size": 2},
    "availability": {"_target_": "impatient.availability.label_bernoulli.LabelBernoulli", "pmin": 0.1},
    "partition": {"_target_": "impatient.data.partition.two_class.TwoClass", "classes_per_client": 2},
    "algo": {"_target_": "impatient.aggregators.mifa.MIFA", "init": "wait_all"},
    "choices": {"algo": "mifa", "data": "digits", "availability": "label_bernoulli", "partition": "two_class"},
}

ALGOS: dict[str, dict[str, Any]] = {
    "mifa": CONFIG["algo"],
    "fedavg_biased": {"_target_": "impatient.aggregators.fedavg_biased.FedAvgBiased"},
    "fedavg_is": {"_target_": "impatient.aggregators.fedavg_is.FedAvgIS"},
    "fedavg_sampling": {
        "_target_": "impatient.aggregators.fedavg_sampling.FedAvgSampling",
        "cohort_size": 50,
        "seed": 0,
    },
}


def config(algo: str = "mifa", seed: int = 0, **changes: Any) -> dict[str, Any]:
    """A resolved config; changes by dotted key, written with __ for the dot."""
    made = copy.deepcopy(CONFIG)
    made["seed"] = made["seeds"]["partition"] = made["seeds"]["cohort"] = seed
    made["algo"], made["choices"]["algo"] = copy.deepcopy(ALGOS[algo]), algo
    if "seed" in made["algo"]:
        made["algo"]["seed"] = seed
    for key, value in changes.items():
        node = made
        *path, last = key.split("__")
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return made


def write(
    folder: Path,
    columns: dict[str, Sequence[Any]],
    cfg: dict[str, Any] | None = None,
    finished: bool = True,
    tail: str = "",
) -> Path:
    """metrics.csv from columns (round is added; None is an empty cell), config.yaml, summary.json."""
    folder.mkdir(parents=True)
    length = len(next(iter(columns.values())))
    table: dict[str, Sequence[Any]] = {"round": range(length), **columns}
    lines = [",".join(table)]
    lines += [",".join("" if v is None else str(v) for v in row) for row in zip(*table.values(), strict=True)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n" + tail)
    (folder / "config.yaml").write_text(yaml.safe_dump(config() if cfg is None else cfg))
    if finished:
        (folder / "summary.json").write_text(json.dumps({"round": length - 1}))
    return folder
