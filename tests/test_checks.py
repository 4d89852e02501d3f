import math

import pytest

from impatient.checks import ConfigError, check, flag, integer, number, one_of


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.5, 1e-300])
def test_numbers_in_range(value):
    assert number("p", value, 0, 1) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (-1e-9, "p=-1e-09: must be a number in [0, 1]"),
        (1.0000001, "p=1.0000001: must be a number in [0, 1]"),
        (math.nan, "p=nan: must be a number in [0, 1]"),
        (-math.inf, "p=-inf: must be a number in [0, 1]"),
        ("0.5", "p=0.5: must be a number in [0, 1], not str"),
        (True, "p=True: must be a number in [0, 1], not bool"),
        (None, "p=None: must be a number in [0, 1], not NoneType"),
        ([0.5], "p=[0.5]: must be a number in [0, 1], not list"),
        (0.5j, "p=0.5j: must be a number in [0, 1], not complex"),
    ],
)
def test_numbers_out_of_range(value, said):
    assert number("p", value, 0, 1) == said


def test_half_bounded_and_open_ranges():
    assert number("lr", 1e9, 0) is None
    assert number("lr", -1, 0) == "lr=-1: must be a number >= 0"
    assert number("lr", math.inf, 0) == "lr=inf: must be a number >= 0"
    assert number("lr", 0, 0, open_low=True) == "lr=0: must be a number > 0"
    assert number("lr", 0.0, 0, 1, open_low=True) == "lr=0.0: must be a number in (0, 1]"
    assert number("lr", 1e-9, 0, 1, open_low=True) is None
    assert number("lr", 1, 0, 1, open_low=True) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "n=0: must be an integer >= 1"),
        (2.0, "n=2.0: must be an integer >= 1, not float"),
        ("3", "n=3: must be an integer >= 1, not str"),
        (True, "n=True: must be an integer >= 1, not bool"),
        (None, "n=None: must be an integer >= 1, not NoneType"),
        (1, None),
        (10**12, None),
    ],
)
def test_integers(value, said):
    assert integer("n", value, 1) == said


def test_integers_between():
    assert integer("n", 3, 1, 3) is None
    assert integer("n", 4, 1, 3) == "n=4: must be an integer in [1, 3]"


def test_choices():
    assert one_of("init", "zero", ("zero", "wait_all")) is None
    assert one_of("init", "none", ("zero", "wait_all")) == "init=none: must be one of zero, wait_all"
    assert one_of("k", 1, (1, 2)) is None
    assert one_of("k", True, (1, 2)) == "k=True: must be one of 1, 2"  # True == 1, but is not meant
    assert one_of("k", [1], (1, 2)) == "k=[1]: must be one of 1, 2"


def test_flags():
    assert flag("x", True) is None
    assert flag("x", False) is None
    for value in (1, 0, "true", None):
        assert flag("x", value) == f"x={value}: must be true or false"


def test_one_error_names_all_faults():
    with pytest.raises(ConfigError) as error:
        check(number("a", 2, 0, 1), None, integer("b", 0, 1), flag("c", True), one_of("d", "x", ("y",)))
    assert error.value.faults == [
        "a=2: must be a number in [0, 1]",
        "b=0: must be an integer >= 1",
        "d=x: must be one of y",
    ]
    assert str(error.value) == "\n".join(error.value.faults)
    assert isinstance(error.value, ValueError)


def test_no_fault_no_error():
    check()
    check(None, None)
