"""The laws that `Aggregator` states, by name."""

from collections.abc import Callable, Mapping

from impatient.contract import api, calls, runs
from impatient.contract.trial import Trial

LAWS: Mapping[str, Callable[[Trial], str | None]] = {
    "api": api.methods_take_and_give_what_they_should,
    "sum": calls.sums_are_additive,
    "local": runs.rounds_are_local,
    "stored": runs.stored_rows_and_state_agree,
    "resume": runs.resuming_changes_nothing,
    "world": runs.the_world_changes_only_rounding,
    "honest": calls.selects_only_who_is_there,
    "honest when one fails": runs.books_answers_not_questions,
    "empty": runs.empty_rounds_are_finite,
    "self": calls.calls_depend_on_their_arguments_alone,
    "traffic": calls.traffic_counts_whole_bytes,
    "says": calls.says_what_it_needs,
}
"""Each gives None where the law holds, and the reason where this rule gives nothing to try it on; raises
failing.BrokenError where it is broken, and whatever the rule raises. The first must hold before others can be tried."""
