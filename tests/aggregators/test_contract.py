"""The laws in Aggregator's docstring, for every configs/algo/*.yaml: a new rule is picked up by itself."""

import pytest
from algo_configs import CASES, N, make

from impatient.contract.laws import LAWS
from impatient.contract.trial import Trial


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("case", CASES)
def test_law(case: str, law: str):
    reason = LAWS[law](Trial(lambda: make(case), N))
    if law in ("local", "stored") and not make(case).slots and reason:
        pytest.skip(reason)
    assert reason is None
