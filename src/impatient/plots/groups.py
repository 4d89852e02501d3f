"""Which runs are seeds of one setting, and how the settings are told apart in words."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from impatient.plots import names
from impatient.plots.runs import Run

APART = ("seed", "seeds", "paths", "ckpt_path", "callbacks", "logger", "trainer", "choices",
         "rounds", "eval_every", "save_every")  # fmt: skip
"""Keys that make no other setting: how a run is repeated, kept and watched, and for how long it goes on."""

MACHINE = {"threads", "engine.chunk", "memory.device", "memory.limit_gb"}
"""Keys that say where the arithmetic is done, not which."""

PROCESS = ("data", "num_clients", "partition", "availability")
STATISTICS = {"participation": (), "classes": (), "staleness": PROCESS, "partition": PROCESS[:3]}
"""The keys on which each kind of figure depends, where that is not the whole setting."""

NAMES = {
    "mifa": "MIFA",
    "fedavg_biased": "biased FedAvg",
    "fedavg_all": "FedAvg over all N",
    "fedavg_is": "FedAvg-IS",
    "fedavg_sampling": "FedAvg S = {cohort_size}",
    "fedavg_sampling_all": "FedAvg S = {cohort_size}",
}
"""The names in the paper's figure, by the choice of algo; any other rule goes by its choice."""

SAID = {"mifa": (), "fedavg_sampling": ("cohort_size",), "fedavg_sampling_all": ("cohort_size",)}
"""Keys of algo that the name says already."""


@dataclass(frozen=True)
class Group:
    """The runs of one setting, one for each seed; panel: the value of the panel's key.

    label: as in the legend: the rule, then whatever else tells it apart (rest), "" where nothing does.
    """

    setting: dict[str, Any]
    runs: list[Run]
    rule: str = ""
    rest: str = ""
    panel: Any = None

    @property
    def label(self) -> str:
        """Rule and rest."""
        return ", ".join(text for text in (self.rule, self.rest) if text)

    @property
    def key(self) -> str:
        """Equal for equal settings."""
        return json.dumps(self.setting, sort_keys=True, default=str)


def setting(config: Mapping[str, Any], only: Sequence[str] = ()) -> dict[str, Any]:
    """The config without seeds, paths, and what only watches or prolongs the run; of the keys in `only` if given.

    A data set's folder counts only where nothing else names the data set.
    """
    kept = {k: v for k, v in config.items() if k not in (*APART, *MACHINE) and (not only or k in only)}
    for node in ("engine", "memory"):
        if isinstance(kept.get(node), dict):
            kept[node] = {k: v for k, v in kept[node].items() if f"{node}.{k}" not in MACHINE}
    if isinstance(kept.get("algo"), dict):
        kept["algo"] = {k: v for k, v in kept["algo"].items() if k != "seed"}
    if isinstance(data := kept.get("data"), dict):
        drop = {"cache_dir", "root"} if data.get("name") else {"cache_dir"}
        kept["data"] = {k: v for k, v in data.items() if k not in drop}
    return kept


def data_set(run: Run) -> str:
    """The choice of data, or the name of its class."""
    choice = run.config_value("choices.data") or run.config_value("data.name")
    return str(choice or str(run.config_value("data._target_") or "unknown").split(".")[-1].lower())


def group(runs: Sequence[Run], only: Sequence[str] = ()) -> tuple[list[Group], list[str]]:
    """Runs of equal settings together, in the order in which they came; notes on what was put aside.

    Of two runs with the same setting and seeds one is no further evidence: the longer one counts, then the newer.
    """
    made: dict[str, Group] = {}
    for run in runs:
        kept = setting(run.config, only) or {"folder": run.folder.name}
        one = Group(kept, [])
        made.setdefault(one.key, one).runs.append(run)
    notes = []
    for one in made.values():
        best: dict[str, Run] = {}
        for run in sorted(one.runs, key=lambda r: (len(r), (r.folder / "metrics.csv").stat().st_mtime)):
            if (other := best.pop(run.seeds, None)) is not None and not only:
                notes.append(f"{other.folder}: same setting and seeds as {run.folder}, which is used instead")
            best[run.seeds] = run
        one.runs[:] = [run for run in one.runs if run in best.values()]
    return list(made.values()), notes


def flat(node: Any, path: str = "") -> dict[str, Any]:
    """{"availability.pmin": 0.1, …} of nested dicts."""
    if isinstance(node, dict) and node:
        return {
            k: v for name, child in node.items() for k, v in flat(child, f"{path}.{name}" if path else name).items()
        }
    return {path: node}


def panel_key(groups: Sequence[Group], wanted: str | None) -> str | None:
    """The key whose values make the columns; "auto" is availability.pmin where the groups differ in it."""
    if wanted != "auto":
        return wanted
    values = {json.dumps(flat(g.setting).get("availability.pmin")) for g in groups}
    return "availability.pmin" if len(values) > 1 else None


def label(groups: Sequence[Group], panel: str | None = None) -> list[Group]:
    """The groups with label and panel, in the order of the legend.

    A label is the rule's name and the keys in which this group differs from others of the same choice; a whole config
    group that was chosen otherwise (partition=iid) is named by its choice. Equal labels stand in different panels only.
    """
    flats = [flat(g.setting) for g in groups]
    words: list[list[str]] = [[] for _ in groups]
    keys = list(dict.fromkeys(key for f in flats for key in f))
    shown = {key: _differing(key, flats) for key in keys if key != panel}
    short = Counter(key.split(".")[-1] for key, who in shown.items() if any(who))
    for key, who in shown.items():
        for i in range(len(groups)):
            if who[i] and not _in_name(key, groups[i]):
                words[i].append(_word(key, flats[i].get(key), groups[i], short))
    labelled = []
    for one, f, extra in zip(groups, flats, words, strict=True):
        value = f.get(panel) if panel else None
        rule = _rule(one) or ("" if extra else _process(one))
        labelled.append(Group(one.setting, one.runs, rule, ", ".join(extra), value))
    return sorted(_told_apart(labelled), key=lambda g: (_panel_order(g.panel), _rule_order(g), natural(g.label)))


def natural(text: str) -> list[tuple[int, float, str]]:
    """A key for sorting in which 2 comes before 10."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)", text)
    return [(0, float(part), "") if i % 2 else (1, 0.0, part) for i, part in enumerate(parts)]


def _differing(key: str, flats: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each group whether `key` tells it from another one; keys of a chosen thing only among equal choices."""
    node = key.rsplit(".", 1)[0] if "." in key else ""
    target = f"{node}._target_"
    result = []
    for f in flats:
        peers = [g for g in flats if key == target or g.get(target) == f.get(target)]
        values = {json.dumps(g.get(key), sort_keys=True, default=str) for g in peers}
        result.append(key in f and len(values) > 1)
    return result


def _in_name(key: str, one: Group) -> bool:
    if key in ("algo._target_", "folder"):
        return True
    head, _, tail = key.partition(".")
    return head == "algo" and tail in SAID.get(_choice(one, "algo"), ())


def _word(key: str, value: Any, one: Group, short: Mapping[str, int]) -> str:
    node, _, last = key.rpartition(".")
    if last == "_target_":
        return f"{node} {_choice(one, node)}"
    name = names.KEYS.get(key) or (last if short[last] == 1 else key)
    return f"{name} = {names.value(key, value)}"


def _choice(one: Group, node: str) -> str:
    """What stood on the command line for a config group; its class where that is not known."""
    run = one.runs[0]
    target = str(run.config_value(f"{node}._target_") or "").split(".")[-1]
    return str(run.config_value(f"choices.{node}") or target)


def _process(one: Group) -> str:
    """For figures in which the rule plays no part: what was chosen as availability, or as partition."""
    return _choice(one, "availability" if "availability" in one.setting else "partition") or "all runs"


def _rule(one: Group) -> str:
    if "algo" not in one.setting:
        return str(one.setting.get("folder", ""))
    choice = _choice(one, "algo")
    algo = one.setting["algo"] if isinstance(one.setting["algo"], dict) else {}
    try:
        return NAMES.get(choice, choice).format(**algo)
    except KeyError:
        return choice


def _told_apart(groups: Sequence[Group]) -> list[Group]:
    """Number the labels that would be equal in one panel."""
    count = Counter((g.label, json.dumps(g.panel, default=str)) for g in groups)
    seen: Counter[tuple[str, str]] = Counter()
    result = []
    for g in groups:
        key = (g.label, json.dumps(g.panel, default=str))
        seen[key] += 1
        if count[key] > 1:
            number = f" ({seen[key]})"
            g = replace(g, rest=g.rest + number) if g.rest else replace(g, rule=g.rule + number)
        result.append(g)
    return result


def _panel_order(value: Any) -> tuple[bool, float, str]:
    number = float(value) if isinstance(value, int | float) else 0.0
    return not isinstance(value, int | float), number, str(value)


def _rule_order(one: Group) -> tuple[int, float]:
    """The paper's order, cohorts by size; rules that it has not come after."""
    choice = _choice(one, "algo").removesuffix("_all") if "sampling" in _choice(one, "algo") else _choice(one, "algo")
    algo = one.setting.get("algo")
    size = algo.get("cohort_size", 0) if isinstance(algo, dict) else 0
    return list(NAMES).index(choice) if choice in NAMES else len(NAMES), float(size or 0)
