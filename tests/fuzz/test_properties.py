"""What holds for any labels, any masks, any chunking: on tiny problems, with hypothesis looking for the exception."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impatient.aggregators.fedavg_biased import FedAvgBiased
from impatient.aggregators.fedavg_sampling import FedAvgSampling
from impatient.aggregators.mifa import MIFA
from impatient.checks import ConfigError
from impatient.contract.federation import Server, bowls
from impatient.data.partition.base import verify
from impatient.data.partition.dirichlet import Dirichlet
from impatient.data.partition.dirichlet_equal import DirichletEqual
from impatient.data.partition.iid import Iid
from impatient.data.partition.two_class import TwoClass

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)
PARTITIONS = st.sampled_from([TwoClass(), TwoClass(1), Iid(), Dirichlet(0.3), Dirichlet(100.0), DirichletEqual(0.1)])
RULES = st.sampled_from([MIFA(), MIFA("zero"), MIFA("average_seen"), FedAvgBiased(), FedAvgSampling(2)])
N = 4
MASKS = st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=1, max_size=6)


@quick
@given(PARTITIONS, st.lists(st.integers(0, 40), min_size=2, max_size=6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_partition_is_right_or_refused(partition, per_class, clients, seed):
    labels = np.random.RandomState(seed).permutation(np.repeat(np.arange(len(per_class)), per_class))
    try:
        split = partition.split(labels, len(per_class), clients, seed)
    except ConfigError:
        return  # refused, in words; any other exception is a bug
    verify(split, len(labels), clients)
    again = partition.split(labels, len(per_class), clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(split, again, strict=True))


@quick
@given(RULES, MASKS, st.integers(1, N))
def test_chunks_do_not_matter(rule, masks, chunk):
    whole, pieces = (Server(rule, bowls(N, 3, noise=0.5), chunk=c, prob=torch.full((N,), 0.5)) for c in (100, chunk))
    for mask in masks:
        for server in (whole, pieces):
            server.play(torch.tensor(mask))
    torch.testing.assert_close(whole.w, pieces.w, rtol=0, atol=1e-12)
    assert bool(whole.w.isfinite().all())
    assert whole.update == pieces.update
