"""MIFA against arithmetic done by hand, against the array form of the paper, and against drift.

By hand: three clients on a line, u = (3, 6, 9), w_0 = 0, one local step, so G_i = w - u_i and w* = 6.
"""

import pytest
import torch
from torch import Tensor

from impatient.aggregators.mifa import MIFA
from impatient.checks import ConfigError
from impatient.contract.federation import Bowls, Server, bowls, coins, line, report_of, shares, table
from impatient.memory import ClientMemory
from impatient.messages import RoundInfo
from impatient.rng import stream


def path(rule: MIFA, masks: Tensor, **options) -> list[float]:
    """w_1, w_2, … on the line."""
    return Server(rule, line(3, 6, 9), **options).run(masks)[1:, 0].tolist()


def test_wait_all_by_hand():
    masks = table({0}, {0, 1}, {1, 2}, {0}, set(), {1, 2})
    # η = 1/2.
    # t=0  G_0 = 0-3 = -3                                               held, w = 0
    # t=1  0 is left alone; G_1 = 0-6 = -6                              held, w = 0
    # t=2  1 is left alone; G_2 = 0-9 = -9; Ḡ = (-3-6-9)/3 = -6         w = 0 + 6/2 = 3
    # t=3  G_0 = 3-3 = 0;                   Ḡ = (0-6-9)/3 = -5          w = 3 + 5/2 = 5.5
    # t=4  nobody: steps with its memory,   Ḡ = -5                      w = 5.5 + 5/2 = 8
    # t=5  G_1 = 8-6 = 2, G_2 = 8-9 = -1;   Ḡ = (0+2-1)/3 = 1/3         w = 8 - 1/6
    assert path(MIFA(), masks) == pytest.approx([0, 0, 3, 5.5, 8, 8 - 1 / 6], abs=1e-12)


def test_wait_all_completes_the_set_as_update_0():
    server = Server(MIFA(), line(3, 6, 9), lr=1.0, decay="inverse")
    asked, clocks, rates = [], [], []
    for available in table({0, 1}, {0, 1}, {0, 1, 2}, {0, 1}):
        info = server.info(available)
        asked.append(server.rule.select(server.state, info).tolist())
        clocks.append(info.update)
        rates.append(info.lr)
        server.play(available)
    # Who has answered isn't asked again while 2 is awaited; once all were heard, all that come are asked.
    assert asked == [[0, 1], [], [2], [0, 1]]
    assert clocks == [0, 0, 0, 1]
    # So the step of round 2 is taken at η_0 = 1, to (3+6+9)/3 = 6, and round 3 has η_0/2.
    assert rates == [1, 1, 1, 0.5]
    # t=3: G_0 = 6-3 = 3, G_1 = 0, G_2 = -9 from w = 0: Ḡ = -2, w = 6 + 2/2 = 7.
    assert server.w.item() == pytest.approx(7, abs=1e-12)


def test_wait_all_awaits_those_not_heard():
    server = Server(MIFA(), line(3, 6, 9))
    assert server.rule.waits
    for available, awaited in zip(table({1}, set(), {2}, {0}), ([0, 2], [0, 2], [0], []), strict=True):
        server.play(available)
        assert server.rule.awaited(server.state, server.info(available)).tolist() == awaited
    others = MIFA("zero"), MIFA("average_seen")
    assert not any(rule.waits or len(rule.awaited(server.state, server.info(available))) for rule in others)


def test_zero_by_hand():
    masks = table(set(), {0}, {0, 1}, {2})
    # η = 1/2, divisor 3 from the start.
    # t=0  nobody was ever heard: Ḡ = 0, a step of length 0             w = 0
    # t=1  G_0 = -3;                      Ḡ = -3/3 = -1                 w = 1/2
    # t=2  G_0 = -5/2, G_1 = -11/2;       Ḡ = -8/3                      w = 1/2 + 4/3 = 11/6
    # t=3  G_2 = 11/6 - 9 = -43/6;        Ḡ = (-8 - 43/6)/3 = -91/18    w = 11/6 + 91/36 = 157/36
    assert path(MIFA("zero"), masks) == pytest.approx([0, 1 / 2, 11 / 6, 157 / 36], abs=1e-12)
    # The empty first round counts as an update; it is a step.
    server = Server(MIFA("zero"), line(3, 6, 9))
    server.run(masks)
    assert server.update == 4


def test_average_seen_by_hand():
    masks = table(set(), {0}, {1}, set(), {2})
    # η = 1/2.
    # t=0  nobody was ever heard                                        held, w = 0
    # t=1  G_0 = -3;                      -3/1                          w = 3/2
    # t=2  G_1 = 3/2 - 6 = -9/2;          (-3 - 9/2)/2 = -15/4          w = 3/2 + 15/8 = 27/8
    # t=3  nobody: steps with its memory, -15/4                         w = 27/8 + 15/8 = 21/4
    # t=4  G_2 = 21/4 - 9 = -15/4;        (-3 - 9/2 - 15/4)/3 = -15/4   w = 21/4 + 15/8 = 57/8
    assert path(MIFA("average_seen"), masks) == pytest.approx([0, 3 / 2, 27 / 8, 21 / 4, 57 / 8], abs=1e-12)
    server = Server(MIFA("average_seen"), line(3, 6, 9))
    server.run(masks)
    assert server.update == 4


def test_average_seen_divides_by_the_weight_heard():
    # a = (1, 2, 5)/8; {0, 1} heard: (1·3 + 2·6)/(1 + 2) = 5, w = 5/2.
    weighted = Server(MIFA("average_seen"), line(3, 6, 9), shares(1, 2, 5)).run(table({0, 1}))
    assert weighted[1].item() == pytest.approx(5 / 2, abs=1e-12)


def test_decaying_rate_tells_the_two_tables_apart():
    masks = table({0, 1, 2}, {0}, {1, 2})
    # η = 1, 1/2, 1/3.
    # t=0  U = G = (-3, -6, -9);                                        w = 0 + 6 = 6
    # normalised:
    # t=1  G_0 = 6-3 = 3;           Ḡ = (3-6-9)/3 = -4                  w = 6 + 4/2 = 8
    # t=2  G_1 = 2, G_2 = -1;       Ḡ = (3+2-1)/3 = 4/3                 w = 8 - 4/9
    assert path(MIFA(), masks, lr=1.0, decay="inverse") == pytest.approx([6, 8, 8 - 4 / 9], abs=1e-12)
    # as they are:
    # t=1  U_0 = 3/2;               (3/2-6-9)/3 = -9/2                  w = 6 + 9/2 = 21/2
    # t=2  U_1 = (21/2 - 6)/3 = 3/2, U_2 = (21/2 - 9)/3 = 1/2; (3/2+3/2+1/2)/3 = 7/6     w = 21/2 - 7/6
    plain = path(MIFA(normalise_by_lr=False), masks, lr=1.0, decay="inverse")
    assert plain == pytest.approx([6, 21 / 2, 21 / 2 - 7 / 6], abs=1e-12)


def test_weights_by_samples():
    masks = table({0, 1, 2}, {2})
    # a = (1, 2, 5)/8, η = 1/2.
    # t=0  Ḡ = -(1·3 + 2·6 + 5·9)/8 = -15/2                             w = 15/4
    # t=1  G_2 = 15/4 - 9 = -21/4;  Ḡ = (-3 - 12 - 5·21/4)/8 = -165/32  w = 15/4 + 165/64 = 405/64
    got = path(MIFA(), masks, weight=shares(1, 2, 5))
    assert got == pytest.approx([15 / 4, 405 / 64], abs=1e-12)


def array_form(clients: Bowls, weight: Tensor, masks: Tensor, lr: float, steps: int) -> Tensor:
    """The slow twin: Algorithm 1 with the table of all N updates, zero at first, summed afresh every round."""
    n, p = clients.u.shape
    w, stored, seen = torch.zeros(p, dtype=torch.float64), torch.zeros(n, p, dtype=torch.float64), []
    for t, active in enumerate(masks):
        rate = lr / (t + 1)
        for i in active.nonzero().flatten().tolist():
            local = w.clone()
            for _ in range(steps):
                local = local - rate * clients.h[i] * (local - clients.u[i])
            stored[i] = (w - local) / rate
        w = w - rate * (weight @ stored)
        seen.append(w)
    return torch.stack(seen)


# float32: G_i = (w - w_i)/η cancels digits, the more the smaller η is: with η from 0.3 to 0.3/200 and |w| of about 1,
# the rounding 6e-8 of w_i becomes 6e-8/η in G_i and η·G_i takes it back: 6e-8 a round, at random, over 200 rounds.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_running_mean_is_the_array_form(dtype: torch.dtype, tolerance: float):
    clients, weight, masks = bowls(7, 5), shares(1, 2, 3, 4, 5, 6, 7), coins(0.4, 200, 7)
    server = Server(MIFA("zero"), clients, weight, lr=0.3, decay="inverse", steps=3, dtype=dtype, rows=dtype)
    got = server.run(masks)[1:].double()
    torch.testing.assert_close(got, array_form(clients, weight, masks, 0.3, 3), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(server.state["mean"], weight @ server.memory.tables["G"].double(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("rows", [torch.float32, torch.bfloat16])
def test_ten_thousand_small_changes_do_not_drift(rows: torch.dtype):
    n, p, rule = 6, 8, MIFA("zero", normalise_by_lr=False)
    w, weight = torch.zeros(p), shares(*[1] * n)
    state, memory = rule.init(w, n), ClientMemory(rule.slots, n, w, dtype=rows)
    for t, active in enumerate(coins(0.5, 10_000, n)):
        info = RoundInfo(t, t, 0.1, n, active, weight)
        ids = rule.select(state, info)
        change = torch.from_numpy(stream(0, "change", t).standard_normal((len(ids), p))).float()
        report = report_of(ids, p, torch.float32)
        report.update.copy_(1 - 1e-3 * change)  # updates of about 1 that change by a thousandth
        sums, new = rule.collect(state, memory.read(ids, "cpu"), w, report, info)
        memory.write(ids, new)
        _, state = rule.step(state, sums, w, ids, info)
    exact = weight @ memory.tables["G"].double()
    # Differences of what is stored, in float64: 10,000 roundings of 1e-16 each, far below 1e-9. Float32 sums would be
    # off by about 1e-6, differences of updates before bfloat16 rounding by about 1e-3.
    assert ((state["mean"] - exact).abs() / exact.abs()).max() < 1e-9


def test_options_are_checked():
    with pytest.raises(ConfigError) as error:
        MIFA("never", normalise_by_lr=1)
    assert [fault.split("=")[0] for fault in error.value.faults] == ["init", "normalise_by_lr"]


def test_traffic_of_both_forms():
    # 2 of 5 devices, 10 float32 parameters: 40 bytes a model, 80 each way.
    array, delta = MIFA().traffic(2, 2, 10, 5).values()
    assert (array.up, array.down, array.server, array.client) == (80, 80, 5 * 40 + 40, 0)  # the table and the model
    assert (delta.up, delta.down, delta.server, delta.client) == (80, 80, 2 * 40, 40)  # Ḡ and the model; its last one
