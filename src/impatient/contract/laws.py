"""The laws that `Aggregator` states, each a function that raises AssertionError where a rule breaks it."""

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields

import torch
from torch import Tensor

from impatient.contract.federation import Bowls, Server, copies, report_of, same, tensors
from impatient.contract.trial import P, Trial, Watched, close, require
from impatient.messages import Rows, State, Traffic
from impatient.rng import stream

DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def sums_are_additive(trial: Trial) -> str | None:
    """sum: collect(A ∪ B) = collect(A) + collect(B); with A = 0, zeros of the same keys, shapes and dtypes."""
    for rows_dtype in DTYPES:
        work = torch.float64 if rows_dtype == torch.float64 else torch.float32
        for before in (0, 1, 7):
            s = trial.server(work, rows_dtype)
            s.run(trial.masks(before))
            _additive(trial, s, before, work)
    return None


def _additive(trial: Trial, s: Server, before: int, work: torch.dtype) -> None:
    info = s.info(trial.mask(True))
    report = report_of(s.rule.select(s.state, info), P, work)
    rows = s.memory.read(report.ids, "cpu")

    def collect(part: Tensor) -> tuple[State, Rows]:
        return s.rule.collect(s.state, {k: v[part] for k, v in rows.items()}, s.w, report.keep(part), info)

    some = torch.from_numpy(stream(0, "split", before).random(len(report.ids)) < 0.5)
    nobody = torch.zeros_like(some)
    whole, new = collect(~nobody)
    for left in (some, nobody, ~nobody):
        (one, new_one), (two, new_two) = collect(left), collect(~left)
        require(whole.keys() == one.keys() == two.keys(), f"sums {list(whole)}, of a part {list(one)}, {list(two)}")
        for k in whole:
            parts = [(v.dtype, v.shape) for v in (one[k], two[k], whole[k])]
            require(len(set(parts)) == 1, f"sum {k}: dtype or shape depends on who is there: {parts}")
            close(one[k] + two[k], whole[k], f"sum {k}: the parts do not add up to the whole")
        for k in new:
            require(new[k].shape == (len(report.ids), P), f"row {k}: shape {tuple(new[k].shape)}, not [A, P]")
            good = torch.equal(new_one[k], new[k][left]) and torch.equal(new_two[k], new[k][~left])
            require(good, f"row {k}: a client's new row depends on who else is there")
    zeros, none = collect(nobody)
    require(not any(value.any() for value in zeros.values()), "with nobody there the sums are not zero")
    require(new.keys() == none.keys() <= set(s.rule.slots), f"rows {list(new)} that `slots` does not declare")
    require(all(row.shape == (0, P) for row in none.values()), "with nobody there the rows are not [0, P]")


def rounds_are_local(trial: Trial) -> str | None:
    """local: a round touches the rows of the clients at hand only, each once: O(A·P), never O(N·P)."""
    s = trial.server(chunk=2)
    memory = Watched(s.rule.slots, trial.n, s.w, dtype=torch.float64)
    s.memory = memory
    for available in trial.masks(20):
        memory.was_read, memory.was_written = [], []
        asked = s.rule.select(s.state, s.info(available))
        before = copies(memory.tables)
        answers, _ = s.play(available)
        require(sorted(memory.was_read) == sorted(asked.tolist()), "rows are read more than once, or of others")
        # `after` may write the same rows a second time.
        require(set(memory.was_written) <= set(answers.reported.tolist()), "rows of clients that did not report change")
        others = trial.mask(True)
        others[answers.reported] = False
        kept = same({k: v[others] for k, v in before.items()}, {k: v[others] for k, v in memory.tables.items()})
        require(kept, "rows of clients that did not report change")
    return None


def stored_rows_and_state_agree(trial: Trial) -> str | None:
    """stored: differences are formed from the value as the memory will store it, and summed in float64."""
    for dtype in (torch.bfloat16, torch.float32):
        s = trial.server(rows=dtype)
        if not s.rule.slots:
            return None if s.memory.tables == {} else "the rule has no memory"
        if trial.recompute is None:
            return "needs to know what State sums up; see RECOMPUTED in tests/aggregators/test_contract.py"
        s.run(trial.masks(200))
        for name, value in trial.recompute(s.memory.tables, trial.weight).items():
            close(s.state[name], value, f"state {name} drifts from what its rows say", atol=1e-14)
    return None


def resuming_changes_nothing(trial: Trial) -> str | None:
    """resume: saving and loading between any two rounds changes no bit."""
    table = trial.masks(14)
    whole = trial.server()
    path, saved = [whole.w], [whole.save()]
    for available in table:
        whole.play(available)
        path.append(whole.w)
        saved.append(whole.save())
    for at, checkpoint in enumerate(saved):
        again = trial.server()
        again.load(checkpoint)
        require(
            torch.equal(again.run(table[at:]), torch.stack(path[at:])), f"resumed after {at} rounds, the weights differ"
        )
        require(same(again.state, whole.state), f"resumed after {at} rounds, the state differs")
        require(same(again.memory.tables, whole.memory.tables), f"resumed after {at} rounds, the memory differs")
        require((again.round, again.update) == (whole.round, whole.update), "the clocks differ")
    return None


def the_world_changes_only_rounding(trial: Trial) -> str | None:
    """world: whole or in chunks, in any order: equal up to the order of summation."""
    one = trial.server()
    path = one.run(trial.masks(30))
    for chunk in (1, 2, trial.n):
        for shuffle in (False, True):
            other = trial.server(chunk=chunk, shuffle=shuffle)
            how = f"{chunk} clients at a time{', shuffled' * shuffle}"
            close(other.run(trial.masks(30)), path, f"{how}, the weights differ")
            for ours, theirs in ((one.state, other.state), (one.memory.tables, other.memory.tables)):
                require(ours.keys() == theirs.keys(), f"{how}, the state has other keys")
                for k in ours:
                    close(theirs[k], ours[k], f"{how}, {k} differs")
    return None


def selects_only_who_is_there(trial: Trial) -> str | None:
    """honest: select ⊆ available, each client once."""
    s = trial.server()
    for t, available in enumerate(trial.masks(40)):
        # A mask of its own, beside the one that is played: any state meets any availability.
        for mask in (available, trial.masks(1, seed=100 + t)[0], trial.mask(False), trial.mask(True)):
            ids = s.rule.select(s.state, s.info(mask))
            require(ids.dtype == torch.int64, f"select gives {ids.dtype}, not int64")
            require(mask[ids].all(), f"round {t}: select names clients that are not there")
            require(len(ids.unique()) == len(ids), f"round {t}: select names a client twice")
        s.play(available)
    return None


def books_answers_not_questions(trial: Trial) -> str | None:
    """honest: what a client answered is booked in step, never in select: one that fails was never there."""
    s = trial.server(skip_bad=True)
    rng = stream(0, "broken")
    failures = 0
    for available in trial.masks(40):
        asked = s.rule.select(s.state, s.info(available))
        if len(asked):
            lost = int(rng.choice(asked.numpy()))
            failed, absent = copy.deepcopy(s), copy.deepcopy(s)
            failed.clients = Bowls(s.clients.u, s.clients.h, s.clients.noise, frozenset({(s.round, lost)}))
            without = available.clone()
            without[lost] = False
            # A rule that picks some of the available may ask somebody else in place of an absent device.
            if torch.equal(s.rule.select(s.state, s.info(without)), asked[asked != lost]):
                answers, _ = failed.play(available)
                absent.play(without)
                require(answers.skipped == 1, "the update that is not finite was not dropped")
                require(answers.reported.tolist() == asked[asked != lost].tolist(), "the others did not report")
                why = f"round {s.round}: client {lost} failing is not the same as client {lost} absent"
                require(same({"w": failed.w, **failed.state}, {"w": absent.w, **absent.state}), why)
                require(same(failed.memory.tables, absent.memory.tables), why)
                failures += 1
        s.play(available)
    return None if failures else "this rule always asks somebody else in place of an absent device"


def empty_rounds_are_finite(trial: Trial) -> str | None:
    """empty: a round with nobody has a stated outcome, finite; a rule without memory holds the model."""
    nobody = trial.mask(False)[None]
    # First, in the middle, twice in a row, and last.
    table = torch.cat([nobody, trial.masks(8), nobody, nobody, trial.masks(3, seed=1), nobody])
    s = trial.server()
    for t, available in enumerate(table):
        _, direction = s.play(available)
        if not available.any() and not s.rule.slots:
            require(direction is None, f"round {t}: nobody is there, and the model moves")
        for value in (s.w, *s.state.values(), *s.memory.tables.values(), *([] if direction is None else [direction])):
            require(value.isfinite().all(), f"round {t}: something is not finite")
        require(direction is None or direction.shape == s.w.shape, f"round {t}: the direction is not [P]")
    s = trial.server()
    require(not s.run(trial.mask(False).repeat(10, 1)).any(), "nobody ever came, and the model moved")
    require(all(value.isfinite().all() for value in s.state.values()), "nobody ever came, and the state is not finite")
    return None


def nothing_changes_on_self(trial: Trial) -> str | None:
    """self: arguments stay as they are, nothing is kept on self, State keeps its dtypes and shapes."""
    # float32, as in a run: a State that changed its dtype by promotion would show.
    s = trial.server(torch.float32, torch.float32)
    rule = s.rule
    config = pickle.dumps(vars(rule))
    for available in trial.masks(15):
        info = s.info(available)
        ids = rule.select(s.state, info)
        rows, report = s.memory.read(ids, "cpu"), report_of(ids, P, torch.float32)
        given = {"state": s.state, "rows": rows, "params": {"w": s.w}, "report": tensors(report), "info": tensors(info)}
        before = {name: copies(data) for name, data in given.items()}
        sums, _ = rule.collect(s.state, rows, s.w, report, info)
        rule.plan(s.state, rows, s.w, info)
        sums_before = copies(sums)
        _, after = rule.step(s.state, sums, s.w, report.ids, info)
        after_before = copies(after)
        rule.after(after, s.w, info)
        rule.awaited(s.state, info)
        for name, data in given.items():
            require(same(data, before[name]), f"{name} was changed in place")
        require(same(sums, sums_before), "step changes the sums in place")
        require(same(after, after_before), "after changes the state in place")
        kinds = [{k: (v.dtype, v.shape) for k, v in state.items()} for state in (s.state, after)]
        require(kinds[0] == kinds[1], f"State changes its kind: {kinds[0]} to {kinds[1]}")
        s.play(available)
    require(pickle.dumps(vars(rule)) == config, "something was kept on self")
    return None


def traffic_counts_whole_bytes(trial: Trial) -> str | None:
    """traffic: whole bytes under each protocol; what is selected is what is sent."""
    for selected in (0, 1, trial.n):
        protocols = trial.make().traffic(selected, P, trial.n)
        require(protocols, "no protocol")
        for name, traffic in protocols.items():
            counts = [getattr(traffic, f.name) for f in fields(Traffic)]
            require(all(type(count) is int and count >= 0 for count in counts), f"{name}: {counts} are no byte counts")
        first = next(iter(protocols.values()))
        require(first.up == first.down and (first.up > 0) == (selected > 0), f"{selected} selected: {first}")
    return None


def says_what_it_needs(trial: Trial) -> str | None:
    """says: what it must be told, and whom it awaits."""
    s = trial.server()
    faults = s.rule.check(trial.n)
    require(faults == [], f"{trial.n} clients: {'; '.join(faults)}")
    require(s.rule.knowledge <= {"prob"}, f"knowledge {set(s.rule.knowledge)}: only 'prob' can be told")
    for available in trial.masks(10):
        awaited = s.rule.awaited(s.state, s.info(available))
        require(awaited.dtype == torch.int64 and bool((awaited < trial.n).all()), "awaited gives no client ids")
        require(s.rule.waits or len(awaited) == 0, "awaits somebody, and `waits` says that it never does")
        s.play(available)
    return None


LAWS: Mapping[str, Callable[[Trial], str | None]] = {
    "sum": sums_are_additive,
    "local": rounds_are_local,
    "stored": stored_rows_and_state_agree,
    "resume": resuming_changes_nothing,
    "world": the_world_changes_only_rounding,
    "honest": selects_only_who_is_there,
    "honest when one fails": books_answers_not_questions,
    "empty": empty_rounds_are_finite,
    "self": nothing_changes_on_self,
    "traffic": traffic_counts_whole_bytes,
    "says": says_what_it_needs,
}
"""Each law by name: None where it holds, the reason where it could not be tried."""
