"""Runs that repeat one setting with other seeds, as groups; and the label that tells a group from the others."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from impatient.plots import names

if TYPE_CHECKING:  # training asks for `setting` alone, and should not wait for pandas
    from impatient.plots.runs import Run

APART = ("seed", "seeds", "paths", "ckpt_path", "callbacks", "logger", "trainer", "choices",
         "rounds", "eval_every", "save_every")  # fmt: skip
"""Keys that make no other setting: how a run is repeated, kept and watched, and for how long it goes on."""

IRRELEVANT = {
    "engine": ("chunk",),  # where the arithmetic is done, not which
    "memory": ("device", "limit_gb"),
    "algo": ("seed",),
    "data": ("cache_dir",),
}
"""Keys below others that make no other setting either."""

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

SAID = {"fedavg_sampling": ("cohort_size",), "fedavg_sampling_all": ("cohort_size",)}
"""Keys of algo that the name says already."""


@dataclass(frozen=True)
class Group:
    """The runs of one setting, one for each seed; panel: the value of the panel's key.

    rule and rest make the label in the legend: the rule's name, and what else tells the group apart, or "".
    """

    setting: dict[str, Any]
    runs: list["Run"]
    rule: str = ""
    rest: str = ""
    panel: Any = None

    @property
    def label(self) -> str:
        """Rule and rest."""
        return ", ".join(filter(None, (self.rule, self.rest)))

    def choice(self, node: str) -> str:
        """What stood on the command line for a config group; its class where that is not known."""
        run = self.runs[0]
        target = str(run.config_value(f"{node}._target_") or "").split(".")[-1]
        return str(run.config_value(f"choices.{node}") or target)


def setting(config: Mapping[str, Any], only: Sequence[str] = ()) -> dict[str, Any]:
    """The config without seeds, paths, and what only watches or prolongs the run; of the keys in `only` if given.

    A data set's folder counts only where nothing else names the data set.
    """
    kept = {k: v for k, v in config.items() if k not in (*APART, "threads") and (not only or k in only)}
    for key, drop in IRRELEVANT.items():
        if isinstance(node := kept.get(key), dict):
            named = ("root",) if key == "data" and node.get("name") else ()
            kept[key] = {k: v for k, v in node.items() if k not in (*drop, *named)}
    return kept


def data_set(run: "Run") -> str:
    """The choice of data, or the name of its class."""
    choice = run.config_value("choices.data") or run.config_value("data.name")
    return str(choice or str(run.config_value("data._target_") or "unknown").split(".")[-1].lower())


def group(runs: Sequence["Run"], only: Sequence[str] = ()) -> tuple[list[Group], list[str]]:
    """Runs of equal settings together, in the order in which they came; notes on what was put aside.

    Of two runs with the same setting and seeds one is no further evidence: the longer one counts, then the newer.
    """
    groups: dict[str, Group] = {}
    for run in runs:
        kept = setting(run.config, only) or {"folder": run.folder.name}
        groups.setdefault(as_text(kept), Group(kept, [])).runs.append(run)
    notes = []
    for one in groups.values():
        best: dict[str, Run] = {}
        for run in sorted(one.runs, key=lambda r: (len(r.table), (r.folder / "metrics.csv").stat().st_mtime)):
            seeds = as_text([run.config.get("seed"), run.config.get("seeds")])
            if (other := best.get(seeds)) and not only:
                notes.append(f"{other.folder}: same setting and seeds as {run.folder}, which is used instead")
            best[seeds] = run
        one.runs[:] = [run for run in one.runs if run in best.values()]
    return list(groups.values()), notes


def as_text(value: Any) -> str:
    """Equal for equal values."""
    return json.dumps(value, sort_keys=True, default=str)


def flat(node: Any, path: str = "") -> dict[str, Any]:
    """{"availability.pmin": 0.1, …} of nested dicts."""
    if not (isinstance(node, dict) and node):
        return {path: node}
    return {k: v for name, child in node.items() for k, v in flat(child, f"{path}.{name}".lstrip(".")).items()}


def label(groups: Sequence[Group], panel: str | None = None) -> list[Group]:
    """The groups with label and panel, in the order of the legend.

    A label is the rule's name and the keys in which this group differs from others of the same choice; a whole config
    group that was chosen otherwise (partition=iid) is named by its choice. Equal labels in one panel are numbered.
    """
    flats = [flat(g.setting) for g in groups]
    differ = {key: _differing(key, flats) for key in dict.fromkeys(k for f in flats for k in f) if key != panel}
    short = Counter(key.split(".")[-1] for key, who in differ.items() if any(who))
    labelled = []
    for i, (g, f) in enumerate(zip(groups, flats, strict=True)):
        said = [f"algo.{key}" for key in ("_target_", *SAID.get(g.choice("algo"), ()))] + ["folder"]
        words = [_word(key, f[key], g, short) for key, who in differ.items() if who[i] and key not in said]
        rule = _rule(g)
        if not (rule or words):  # figures in which the rule plays no part
            rule = g.choice("availability" if "availability" in g.setting else "partition") or "all runs"
        value = f.get(panel) if panel else None
        value = as_text(value) if isinstance(value, list | dict) else value
        labelled.append(replace(g, rule=rule, rest=", ".join(words), panel=value))
    places = [(g.label, as_text(g.panel)) for g in labelled]
    for i, place in enumerate(places):
        if places.count(place) > 1:
            g, number = labelled[i], f" ({places[: i + 1].count(place)})"
            labelled[i] = replace(g, rest=g.rest + number) if g.rest else replace(g, rule=g.rule + number)
    return sorted(labelled, key=lambda g: (_panel_order(g.panel), _rule_order(g), natural(g.label)))


def _differing(key: str, flats: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each group whether `key` tells it from another one; keys of a chosen thing only among equal choices."""
    target = f"{key.rpartition('.')[0]}._target_"
    values: dict[Any, set[str]] = {}
    for f in flats:
        values.setdefault(key == target or f.get(target), set()).add(as_text(f.get(key)))
    return [key in f and len(values[key == target or f.get(target)]) > 1 for f in flats]


def _word(key: str, value: Any, g: Group, short: Mapping[str, int]) -> str:
    node, _, last = key.rpartition(".")
    if last == "_target_":
        return f"{node} {g.choice(node)}"
    return f"{names.KEYS.get(key) or (last if short[last] == 1 else key)} = {names.value(key, value)}"


def _rule(g: Group) -> str:
    if "algo" not in g.setting:
        return str(g.setting.get("folder", ""))
    choice, algo = g.choice("algo"), g.setting["algo"]
    try:
        return NAMES.get(choice, choice).format(**algo if isinstance(algo, dict) else {})
    except KeyError:
        return choice


def natural(text: str) -> list[tuple[int, float, str]]:
    """A key for sorting in which 2 comes before 10."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)", text)
    return [(0, float(part), "") if i % 2 else (1, 0.0, part) for i, part in enumerate(parts)]


def _panel_order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, str(value)


def _rule_order(g: Group) -> tuple[int, float]:
    """The paper's order, cohorts by size; rules that it has not come after."""
    choice, algo = g.choice("algo"), g.setting.get("algo")
    choice = choice.removesuffix("_all") if "sampling" in choice else choice
    size = algo.get("cohort_size") if isinstance(algo, dict) else None
    return list(NAMES).index(choice) if choice in NAMES else len(NAMES), float(size or 0)
