import itertools
import random

import numpy as np
import pytest
import torch

from impatient.rng import derive, stream, torch_stream

CPU = torch.device("cpu")


def test_every_part_of_the_address_counts():
    addresses = [
        (0, "batches", 1, 2),
        (1, "batches", 1, 2),
        (0, "batch", 1, 2),
        (0, "batches", 2, 1),
        (0, "batches", 1, 3),
        (0, "batches", 2, 2),
        (0, "batches", 1),
        (0, "batches", 1, 2, 0),
        (0, "batches", 12),
        (0, "batches", -1, 2),
        (-1, "batches", 1, 2),
        (0, "batches1", 2),
        (2, "batches", 1, 0),
    ]
    assert len({derive(*address) for address in addresses}) == len(addresses)
    # No sums, no carries: a grid of neighbours is all different.
    grid = {derive(seed, "x", t, i) for seed, t, i in itertools.product(range(8), range(16), range(16))}
    assert len(grid) == 8 * 16 * 16


def test_derive_is_a_fixed_function():
    assert 0 <= derive(0, "x") < 2**128
    assert derive(3, "x", 1) == derive(3, "x", 1)
    # Counters come as Python, numpy or torch integers: they address the same stream.
    assert derive(np.int64(3), "x", torch.tensor(1), np.int32(7)) == derive(3, "x", 1, 7)
    assert derive(2**32 - 1, "x", 2**40) != derive(2**32 - 1, "x", 2**40 + 1)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.random(n),
        lambda rng, n: rng.uniform(2, 3, n),
        lambda rng, n: rng.standard_normal(n),
        lambda rng, n: rng.random((n, 3)).reshape(-1),
    ],
)
def test_fewer_draws_are_the_beginning_of_more(draw):
    many = draw(stream(5, "x", 3), 100)
    for n in (1, 2, 3, 7, 50):
        few = draw(stream(5, "x", 3), n)
        assert np.array_equal(few, many[: len(few)])


def test_streams_are_fresh_and_unrelated():
    assert np.array_equal(stream(0, "a", 1).random(5), stream(0, "a", 1).random(5))
    a, b = stream(0, "a", 1).random(10_000), stream(0, "a", 2).random(10_000)
    # Independent columns of n numbers correlate with standard deviation 1/√n.
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / 100
    # A uniform has mean 1/2 and standard deviation 1/√12.
    assert abs(a.mean() - 0.5) < 4 / (12 * 10_000) ** 0.5


def test_torch_stream_gives_the_address_its_numbers():
    def numbers(*address):
        with torch_stream(CPU, *address):
            return torch.rand(4)

    torch.manual_seed(1)
    first = numbers(0, "init", 2)
    torch.manual_seed(2)
    assert torch.equal(numbers(0, "init", 2), first)
    for other in ((1, "init", 2), (0, "local", 2), (0, "init", 3), (0, "init", 2, 0)):
        assert not torch.equal(numbers(*other), first)


def test_torch_stream_puts_everything_back():
    torch.manual_seed(7)
    untouched = torch.rand(3)
    torch.manual_seed(7)
    before = np.random.get_state()[1].copy(), random.getstate()
    with torch_stream(CPU, 0, "init"):
        torch.rand(10)
        with torch_stream(CPU, 1, "init"):  # nested, as dropout inside a run may be
            torch.rand(10)
    assert torch.equal(torch.rand(3), untouched)
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert random.getstate() == before[1]

    @torch_stream(CPU, 0, "init")
    def fail():
        torch.rand(10)
        raise KeyError

    torch.manual_seed(7)
    with pytest.raises(KeyError):
        fail()
    assert torch.equal(torch.rand(3), untouched)


def test_nested_stream_resumes_the_outer_one():
    with torch_stream(CPU, 0, "outer"):
        alone = torch.rand(4)
    with torch_stream(CPU, 0, "outer"):
        first = torch.rand(2)
        with torch_stream(CPU, 0, "inner"):
            torch.rand(9)
        assert torch.equal(torch.cat([first, torch.rand(2)]), alone)
