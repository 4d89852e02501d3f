"""Laws of whole runs: what lasts from round to round, and that how a run is cut up changes nothing."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from impatient.aggregators.base import Aggregator
from impatient.contract.failing import BrokenError, NotFiniteError, Raised, UnplayableError, close, one_line, require
from impatient.contract.federation import Bowls, Server, copies, same
from impatient.contract.outside import nothing_from_outside
from impatient.contract.threads import OutOfStepError, together
from impatient.contract.trial import Trial, Watched
from impatient.ranks import Ranks
from impatient.rng import stream

NO_MEMORY = "no memory: `slots` is empty"
NEVER_MOVES = "the model never moves, so that nothing would show"


def rounds_are_local(trial: Trial) -> str | None:
    """local: a round touches the rows of the clients at hand only, each once: O(A·P); State holds no [N, P]."""
    s = trial.server(chunk=2)
    _no_table_in_state(s.rule, trial.n)
    if not s.rule.slots:
        return None if s.state else f"{NO_MEMORY}, and so is State"
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


def _no_table_in_state(rule: Aggregator, n: int) -> None:
    """A client more must not make State longer by P."""
    params = torch.zeros(11, dtype=torch.float64)
    fewer, more = rule.init(params, n), rule.init(params, n + 1)
    for k in fewer.keys() & more.keys():
        good = more[k].numel() - fewer[k].numel() < len(params)
        require(good, f"state {k} is {list(fewer[k].shape)}: [·, P] for each client belongs in rows, declared in slots")


def stored_rows_and_state_agree(trial: Trial) -> str | None:
    """stored: differences are formed from the value as the memory will store it, and summed in float64."""
    for dtype in (torch.bfloat16, torch.float32):
        s = trial.server(rows=dtype)
        if not s.rule.slots:
            return NO_MEMORY
        first = copies(s.memory.tables)
        s.run(trial.masks(200))
        wanted = s.rule.recomputed(s.state, s.memory.tables, trial.weight)
        if not wanted:
            return "`recomputed` gives nothing: say there what State must equal, if it sums up rows"
        if same(first, s.memory.tables):
            return "no row ever changes"
        for name, value in wanted.items():
            require(name in s.state, f"recomputed gives {name}, which is not in State: {list(s.state)}")
            close(s.state[name], value, f"state {name} drifts from what its rows say", atol=1e-14)
    return None


def resuming_changes_nothing(trial: Trial) -> str | None:
    """resume: saving and loading between any two rounds changes no bit; no global generator, no clock."""
    table = trial.masks(14)
    whole = trial.server()
    path, saved = [whole.w], [whole.save()]
    with nothing_from_outside():
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
    return None if whole.update else NEVER_MOVES


def the_world_changes_only_rounding(trial: Trial) -> str | None:
    """world: whole, in chunks, in any order or shared by several ranks: equal up to the order of summation."""
    masks, one = trial.masks(30), trial.server()
    path = one.run(masks)

    def judge(other: Server, w: Tensor, how: str) -> None:
        close(w, path, f"{how}, the weights differ")
        ranks = other.ranks
        here = {name: rows[ranks.rank :: ranks.world] for name, rows in one.memory.tables.items()}
        for ours, theirs in ((one.state, other.state), (here, other.memory.tables)):
            require(ours.keys() == theirs.keys(), f"{how}, the state has other keys")
            for k in ours:
                close(theirs[k], ours[k], f"{how}, {k} differs")

    for chunk in (1, 2, trial.n):
        for shuffle in (False, True):
            other = trial.server(chunk=chunk, shuffle=shuffle)
            judge(other, other.run(masks), f"{chunk} clients at a time{', shuffled' * shuffle}")
    for world in (2, 3):
        for other, w in _shared(world, trial.server, masks):
            judge(other, w, f"over {world} ranks")
    return None if one.update else NEVER_MOVES


def _shared(world: int, server: Callable[..., Server], masks: Tensor) -> list[tuple[Server, Tensor]]:
    def run(ranks: Ranks) -> tuple[Server, Tensor]:
        mine = server(chunk=2, ranks=ranks)
        return mine, mine.run(masks)

    try:
        return together(world, run)
    except OutOfStepError as error:
        raise BrokenError(f"over {world} ranks: {error}") from error


def books_answers_not_questions(trial: Trial) -> str | None:
    """honest: what a client answered is booked in step, never in select: one that fails was never there."""
    s = trial.server(skip_bad=True, chunk=trial.n)  # in pieces, one client less would move their borders
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
    return None if failures else "nobody is ever selected, or somebody else is asked in place of an absent device"


def empty_rounds_are_finite(trial: Trial) -> str | None:
    """empty: a round with nobody has the outcome that `empty` states, finite: "holds" always holds the model."""
    nobody = trial.mask(False)[None]
    # First, in the middle, twice in a row, and last.
    table = torch.cat([nobody, trial.masks(8), nobody, nobody, trial.masks(3, seed=1), nobody])
    s = trial.server()
    require(s.rule.empty in ("holds", "steps"), f"empty is {s.rule.empty!r}, not 'holds' or 'steps'")
    for t, available in enumerate(table):
        direction = _play(s, available)
        if not available.any() and s.rule.empty == "holds":
            require(direction is None, f"round {t}: nobody is there, and the model moves")
        for name, value in {"the model": s.w, **s.state, **s.memory.tables}.items():
            require(value.isfinite().all(), f"round {t}: {name} is not finite")
    s = trial.server()
    for _ in range(10):
        _play(s, nobody[0])
    require(not s.w.any(), "nobody ever came, and the model moved")
    require(all(value.isfinite().all() for value in s.state.values()), "nobody ever came, and the state is not finite")
    return None


def _play(s: Server, available: Tensor) -> Tensor | None:
    there = "" if available.any() else "nobody is there, and "
    try:
        return s.play(available)[1]
    except NotFiniteError as error:
        raise BrokenError(f"round {s.round}: {there}{error}") from error
    except Exception as error:
        if available.any() or isinstance(error, UnplayableError):
            raise
        raise BrokenError(f"round {s.round}: {there}{Raised.of(error) or one_line(error)}") from error
