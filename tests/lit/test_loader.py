"""What the loader yields is what the round uses: exact in any precision, and asked for once."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.availability.bernoulli import Bernoulli
from impatient.messages import Population

THIRDS = [(i + 1) / 11 for i in range(10)]  # no multiple of 1/2^k, which a narrow dtype would keep


class Sees(FedAvgIS):
    """Keeps what it is told on the side."""

    def __init__(self) -> None:
        self.infos: list[Any] = []

    def select(self, state: Any, info: Any) -> Tensor:
        self.infos.append(info)
        return super().select(state, info)


class Partial(Bernoulli):
    """Knows more than is asked for; some answers are lost, and some devices stop early. Counts the questions."""

    def __init__(self) -> None:
        super().__init__(THIRDS)
        self.asked: list[tuple[str, int]] = []

    def setup(self, population: Population, seed: int) -> None:
        super().setup(population, seed)
        self.population = population

    def mask(self, round: int) -> Tensor:
        self.asked.append(("mask", round))
        return super().mask(round)

    def knows(self, round: int) -> dict[str, Tensor]:
        self.asked.append(("knows", round))
        return {"prob": self.p, "correlation": torch.zeros(10)}

    def returns(self, round: int) -> Tensor:
        self.asked.append(("returns", round))
        return torch.arange(10) % 2 == 0

    def work(self, round: int) -> Tensor:
        self.asked.append(("work", round))
        return torch.full((10,), 0.1, dtype=torch.float64)


@pytest.mark.parametrize("precision", ["64-true", "32-true", "bf16-true"])
def test_the_loader_yields_what_the_rule_is_told(fit: Callable[..., Any], precision: str) -> None:
    rule, process = Sees(), Partial()
    run = fit(6, rule, process, precision=precision)
    for t, info in enumerate(rule.infos):
        assert info.knows.keys() == {"prob"}  # as asked for
        assert info.knows["prob"].tolist() == THIRDS
        assert info.knows["prob"].dtype == info.weight.dtype == torch.float64
        assert torch.equal(info.available, Bernoulli.mask(process, t))
    for what in ("mask", "knows", "returns", "work"):
        assert [t for name, t in process.asked if name == what][:6] == list(range(6))
    for t, row in enumerate(run.rows()):
        there = Bernoulli.mask(process, t)
        assert int(row["available"]) == int(there.sum())
        assert int(row["active"]) == int(there[::2].sum())
        # 650 float32 parameters: down to whom it was sent, up from whom it came back.
        assert int(row["comm/down_bytes"]) == 2600 * int(row["available"])
        assert int(row["comm/up_bytes"]) == 2600 * int(row["active"])
        assert row["bad_updates"] == "0"


def test_the_process_is_told_whom_it_is_about(fit: Callable[..., Any]) -> None:
    process = Partial()
    dm = fit(1, FedAvgIS(), process).dm
    labels = [dm.data.y[torch.from_numpy(own)].bincount(minlength=10) for own in dm.clients.indices]
    assert torch.equal(process.population.counts, torch.stack(labels))
    assert process.population.sizes.tolist() == [len(own) for own in dm.clients.indices]


def test_the_process_is_asked_by_the_loader_alone(fit: Callable[..., Any]) -> None:
    process = Partial()
    fit(4, FedAvgIS(), process)
    assert [t for name, t in process.asked if name == "mask"] == [0, 1, 2, 3]
