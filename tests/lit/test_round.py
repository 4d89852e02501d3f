"""The round inside Lightning: against an independent numpy twin, and against what a user may rely on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from reference import trajectory
from torch import Tensor

from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_is import FedAvgIS
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.aggregators.mifa import MIFA
from impatient.availability.always import Always
from impatient.availability.base import Availability
from impatient.availability.bernoulli import Bernoulli
from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.engine.auto import EngineChoice
from impatient.engine.local import LocalSGD


class Given(Availability):
    """The masks of a table, then everybody."""

    def __init__(self, table: list[list[int]]) -> None:
        self.table = torch.tensor(table, dtype=torch.bool)

    def mask(self, round: int) -> Tensor:
        return self.table[round] if round < len(self.table) else torch.ones(self.num_clients, dtype=torch.bool)


@pytest.mark.parametrize("engine", ["loop", "vmap"])
@pytest.mark.parametrize(
    ("name", "rule"), [("mifa", MIFA("zero")), ("biased", FedAvgBiased()), ("is", FedAvgIS())], ids=lambda v: str(v)
)
def test_full_batch_equals_numpy(fit: Callable[..., Any], name: str, rule: Any, engine: str) -> None:
    sgd = LocalSGD(lr=0.5, batch_size=10_000, epochs=3, weight_decay=1e-2)
    start = fit(1, FedAvgBiased(), Bernoulli(0.0), name="start", sgd=sgd)  # nobody comes: the model as initialised
    run = fit(20, rule, name=engine, sgd=sgd, engine=EngineChoice(engine, 3))

    data, dm = run.dm.data, run.dm
    # Written out anew: (pixel/255 - mean)/std, and a column of ones for the bias.
    x = (data.x.numpy().reshape(len(data.x), -1) / 255 - data.mean[0]) / data.std[0]
    x = np.hstack([x, np.ones((len(x), 1))])
    flat = start.weights.numpy()
    w = np.hstack([flat[:640].reshape(10, 64), flat[640:, None]])
    masks = np.stack([dm.availability.mask(t).numpy() for t in range(20)])
    assert 0 < masks.mean() < 1
    own = dm.clients.indices
    w = trajectory(
        name, w, [x[i] for i in own], [data.y.numpy()[i] for i in own], masks, dm.availability.prob(0).numpy(),
        0.5, 3, 1e-2,
    )  # fmt: skip
    np.testing.assert_allclose(run.weights.numpy(), np.hstack([w[:, :64].ravel(), w[:, 64]]), rtol=0, atol=1e-10)


def test_every_rule_sees_the_same_world(fit: Callable[..., Any]) -> None:
    runs = [fit(6, rule, name=type(rule).__name__) for rule in (MIFA(), FedAvgBiased(), FedAvgIS(), FedAvgSampling(3))]
    summaries = [run.module.summary() for run in runs]
    for key in ("hash/partition", "hash/masks", "hash/batches"):
        assert len({s[key] for s in summaries}) == 1
    other = fit(6, seed=1, name="other").module.summary()
    for key in ("hash/partition", "hash/masks", "hash/batches"):
        assert other[key] != summaries[0][key]


def test_evaluating_changes_nothing(fit: Callable[..., Any]) -> None:
    often, seldom = fit(11, name="often"), fit(11, name="seldom", eval_every=5)
    assert torch.equal(often.weights, seldom.weights)
    evaluated = [row["round"] for row in seldom.rows() if row["test/acc"]]
    assert evaluated == ["4", "9", "10"]  # every fifth, and the last


def test_pmin_one_is_always(fit: Callable[..., Any]) -> None:
    a = fit(5, availability=LabelBernoulli(pmin=1.0), name="one")
    b = fit(5, availability=Always(), name="always")
    assert torch.equal(a.weights, b.weights)


def test_loop_and_vmap_train_the_same_model(fit: Callable[..., Any]) -> None:
    a, b = (fit(10, name=e, engine=EngineChoice(e, 4)) for e in ("loop", "vmap"))
    torch.testing.assert_close(a.weights, b.weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_an_empty_round_holds_the_model_and_counts(fit: Callable[..., Any], momentum: float) -> None:
    make = lambda params: torch.optim.SGD(params, lr=1.0, momentum=momentum)  # noqa: E731
    full, empty = [1] * 10, [0] * 10
    run = fit(4, FedAvgBiased(), Given([full, empty, full, full]), server=make)
    rows = run.rows()
    assert [row["update"] for row in rows] == ["1", "1", "2", "3"]
    assert [row["active"] for row in rows] == ["10", "0", "10", "10"]
    assert rows[1]["test/loss"] == rows[0]["test/loss"]
    assert run.trainer.global_step == 4
    assert (run.folder / "checkpoints/last.ckpt").exists()


def test_mifa_steps_with_its_memory_in_an_empty_round(fit: Callable[..., Any]) -> None:
    run = fit(2, MIFA("zero"), Given([[1] * 10, [0] * 10]))
    rows = run.rows()
    assert rows[1]["active"] == "0"
    assert rows[1]["update"] == "2"
    assert rows[1]["test/loss"] != rows[0]["test/loss"]


def test_nobody_ever(fit: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    run = fit(5, FedAvgBiased(), Bernoulli(0.0))
    assert "round 4: held for 5 rounds, nobody is there; the run ends with the model as it was init" in caplog.text
    assert {row["test/loss"] for row in run.rows()} == {run.rows()[0]["test/loss"]}
    assert run.trainer.global_step == 5


def test_whom_the_rule_waits_for_is_said(fit: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    never = [[1] * 7 + [0] + [1, 1]] * 60
    fit(60, MIFA(), Given(never))
    waiting = [r.getMessage() for r in caplog.records if "waiting for" in r.getMessage()]
    assert waiting == [
        "round 49: held for 50 rounds, waiting for device(s) 7",
        "round 59: held for 60 rounds, waiting for device(s) 7; the run ends with the model as it was initialised: it "
        "needs more rounds",
    ]


def test_one_update_is_enough(fit: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    fit(5, FedAvgBiased(), Given([[1] * 10, *[[0] * 10] * 4]))
    assert "initialised" not in caplog.text


def test_clocks(fit: Callable[..., Any]) -> None:
    # Device 9 is late by two rounds: MIFA waits, and its learning rate waits with it, eta_k = eta_0/(k + 1).
    late = [[1] * 9 + [0]] * 2
    rates = [float(row["lr"]) for row in fit(5, MIFA(), Given(late)).rows()]
    assert rates == [0.5, 0.5, 0.5, 0.25, 0.5 / 3]
    by_round = LocalSGD(lr=0.5, batch_size=5, lr_clock="round")
    rates = [float(row["lr"]) for row in fit(5, MIFA(), Given(late), sgd=by_round, name="round").rows()]
    assert rates == [0.5, 0.25, 0.5 / 3, 0.125, 0.1]


def test_client_loader_yields_the_client_s_own(fit: Callable[..., Any]) -> None:
    dm = fit(1).dm
    x, y = next(iter(dm.client_loader(3, batch_size=1000)))
    assert torch.equal(x, dm.data.x[dm.clients.indices[3]])
    assert len(set(y.tolist())) == 2


def test_bytes_under_the_rule_s_protocol(fit: Callable[..., Any]) -> None:
    run = fit(3, MIFA("zero"))
    model = 650 * 4  # 65 inputs with the bias, 10 classes, float32
    for row in run.rows():
        assert int(row["comm/up_bytes"]) == int(row["active"]) * model
    summary = run.module.summary()
    assert summary["comm/array/server_bytes"] == 11 * model  # ten updates and the model
    assert (summary["comm/delta/server_bytes"], summary["comm/delta/client_bytes"]) == (2 * model, model)


def test_float32_and_bfloat16_memory_stay_close(fit: Callable[..., Any]) -> None:
    from impatient.memory import MemorySettings

    exact = fit(30, name="float64")
    for dtype, tolerance in (("float32", 1e-6), ("bfloat16", 2e-2)):
        run = fit(30, name=dtype, memory=MemorySettings(dtype=dtype))
        assert float((run.weights - exact.weights).norm() / exact.weights.norm()) < tolerance
