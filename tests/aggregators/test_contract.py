"""The laws in Aggregator's docstring, for every configs/algo/*.yaml: a new rule is picked up by itself."""

import pytest
from algo_configs import CASES, N, make

from impatient.contract.laws import LAWS
from impatient.contract.trial import Trial

# What a rule's State says about its memory rows, recomputed from the rows as they are stored: one line a rule.
RECOMPUTED = {"MIFA": lambda rows, weight: {"mean": weight @ rows["G"].double()}}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("case", CASES)
def test_law(case: str, law: str):
    recompute = RECOMPUTED.get(type(make(case)).__name__)
    reason = LAWS[law](Trial(lambda: make(case), N, recompute))
    if law == "stored" and reason:
        pytest.skip(reason)
    assert reason is None
