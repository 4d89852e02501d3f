"""What the coin processes refuse, and in which words."""

import math
import re

import pytest
import torch

from impatient.availability.always import Always
from impatient.availability.bernoulli import Bernoulli
from impatient.availability.label_bernoulli import LabelBernoulli
from impatient.checks import ConfigError
from impatient.messages import Population


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (-0.1, "=-0.1: must be a number in [0, 1]"),
        (1.5, "=1.5: must be a number in [0, 1]"),
        (math.nan, "=nan: must be a number in [0, 1]"),
        (math.inf, "=inf: must be a number in [0, 1]"),
        ("two", "=two: must be a number in [0, 1], not str"),
        (True, "=True: must be a number in [0, 1], not bool"),
        (None, "=None: must be a number in [0, 1], not NoneType"),
    ],
)
@pytest.mark.parametrize(("make", "name"), [(LabelBernoulli, "pmin"), (Bernoulli, "p")])
def test_not_a_probability(make, name, value, said):
    with pytest.raises(ConfigError) as error:
        make(value)
    assert error.value.faults == [name + said]


def test_the_ends_are_probabilities():
    for value in (0, 1, 0.0, 1.0):
        LabelBernoulli(value)
        Bernoulli(value)
        Bernoulli(p_range=[0, value])


def test_every_fault_is_told():
    with pytest.raises(ConfigError) as error:
        LabelBernoulli(2, "paper")
    assert error.value.faults == [
        "pmin=2: must be a number in [0, 1]",
        "formula=paper: must be one of code, printed",
    ]
    with pytest.raises(ConfigError) as error:
        Bernoulli([0.5, 1.2, "x"])
    assert error.value.faults == [
        "p[1]=1.2: must be a number in [0, 1]",
        "p[2]=x: must be a number in [0, 1], not str",
    ]


@pytest.mark.parametrize(
    ("p_range", "said"),
    [
        ([0.1, 0.5, 0.9], "p_range=[0.1, 0.5, 0.9]: must be two numbers, [low, high]"),
        (0.5, "p_range=0.5: must be two numbers"),
        ("01", "p_range=01: must be two numbers"),
        ([-0.1, 0.5], "p_range low=-0.1: must be a number in [0, 1]"),
        ([0.1, 1.5], "p_range high=1.5: must be a number in [0, 1]"),
        ([0.9, 0.1], "p_range=[0.9, 0.1]: low is above high; swap them"),
    ],
)
def test_not_a_range(p_range, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        Bernoulli(p_range=p_range)


def test_list_of_the_wrong_length():
    (said,) = Bernoulli([0.1, 0.2, 0.3]).check(5, 10)
    assert "availability.p has 3 entries" in said
    assert "num_clients=5" in said
    assert Bernoulli([0.1, 0.2, 0.3]).check(3, 10) == []
    assert Bernoulli(0.5).check(5, 10) == []
    assert Bernoulli([0.1] * 3, p_range=[0.1, 0.2]).check(5, 10) == []  # the list is not used
    assert Always().check(5, 10) == []


def test_data_without_classes():
    process = LabelBernoulli(0.1)
    with pytest.raises(ConfigError, match=r"this data has no classes; use availability=bernoulli"):
        process.setup(Population(torch.zeros(4, 0, dtype=torch.int64), torch.ones(4, dtype=torch.int64)), 0)
    # A coin that looks at no label is at home there.
    coin = Bernoulli(0.5)
    coin.setup(Population(torch.zeros(4, 0, dtype=torch.int64), torch.ones(4, dtype=torch.int64)), 0)
    assert coin.mask(0).shape == (4,)
