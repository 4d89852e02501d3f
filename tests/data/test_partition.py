import json

import numpy as np
import pytest

from impatient.checks import ConfigError
from impatient.data.partition.base import load, partition_hash, save, verify
from impatient.data.partition.dirichlet import Dirichlet
from impatient.data.partition.dirichlet_equal import DirichletEqual
from impatient.data.partition.from_file import FromFile
from impatient.data.partition.iid import Iid
from impatient.data.partition.natural import Natural
from impatient.data.partition.two_class import MAX_TRIES, TwoClass, draw

# Training images of MNIST by digit, as its home page's label file has them; the sum is 60,000.
MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]

# What the MIFA authors' code deals out, by replaying its generator: shards [class] left over of 21, first pairs in
# drawn order, clients by their smaller label, and samples a client = 2·((min class - 1) // 21).
AUTHORS = {
    "mnist": (
        (MNIST_COUNTS, 16, 2 * (5420 // 21)),
        ([0, 4, 2, 0, 1, 0, 0, 0, 3, 0], [(6, 2), (5, 3), (1, 8), (6, 3), (1, 3)]),
        [21, 15, 16, 18, 12, 9, 7, 1, 1, 0],
        {0.1: (0.3510, 4.3469), 0.2: (0.4231, 2.8527)},
    ),
    "cifar10": (
        ([5000] * 10, 7, 2 * (4999 // 21)),
        ([0, 0, 1, 0, 0, 0, 4, 0, 0, 5], [(8, 5), (1, 3), (2, 4), (9, 5), (2, 8)]),
        [21, 18, 15, 13, 9, 10, 8, 4, 2, 0],
        {0.1: (0.3650, 4.3582), 0.2: (0.4356, 2.8456)},
    ),
}


def shuffled(counts: list[int]) -> np.ndarray:
    labels = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(0).permutation(labels)


def pair(labels: np.ndarray, own: np.ndarray) -> tuple[int, int]:
    return int(labels[own[0]]), int(labels[own[-1]])


@pytest.mark.parametrize("name", AUTHORS)
def test_two_class_is_the_authors_split(name):
    (counts, seed, size), (leftover, first), histogram, p_table = AUTHORS[name]
    labels = shuffled(counts)
    split = TwoClass().split(labels, 10, 100, seed)
    assert {len(own) for own in split} == {size}
    pairs = [pair(labels, own) for own in split]
    assert pairs[:5] == first
    assert [21 - sum(c in p for p in pairs) for c in range(10)] == leftover
    smaller = np.array([min(p) for p in pairs])
    assert np.bincount(smaller, minlength=10).tolist() == histogram
    for pmin, (mean_p, mean_inverse) in p_table.items():  # p_i = pmin + (1 - pmin)·min(j, k)/9
        p = pmin + (1 - pmin) * smaller / 9
        assert p.mean() == pytest.approx(mean_p, abs=5e-5)
        assert (1 / p).mean() == pytest.approx(mean_inverse, abs=5e-5)


def test_two_class_cuts_in_order_and_takes_the_last_shard():
    labels = shuffled([64] * 10)  # one client, k = 1: S = ceil(1/10) + 1 = 2 shards of (64 - 1) // 2 = 31
    (own,) = TwoClass(1).split(labels, 10, 1, 0)
    in_order = np.flatnonzero(labels == labels[own[0]])
    assert own.tolist() == in_order[31:62].tolist()


@pytest.mark.mnist
def test_two_class_on_the_real_labels(mnist_root):
    raw = (mnist_root / "MNIST" / "raw" / "train-labels-idx1-ubyte").read_bytes()
    labels = np.frombuffer(raw, dtype=np.uint8, offset=8).astype(np.int64)  # 8 bytes of head, then a byte a label
    assert np.bincount(labels).tolist() == MNIST_COUNTS
    split = TwoClass().split(labels, 10, 100, 16)
    assert [pair(labels, own) for own in split[:5]] == [(6, 2), (5, 3), (1, 8), (6, 3), (1, 3)]
    assert sum(map(len, split)) == 51_600


@pytest.mark.parametrize("num_clients", [1, 2, 7, 40])
@pytest.mark.parametrize(("num_classes", "k"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 3), (10, 2), (10, 10)])
def test_two_class_is_disjoint_equal_and_of_k_classes(num_clients, num_classes, k):
    labels = shuffled([60 + 3 * c for c in range(num_classes)])
    split = TwoClass(k).split(labels, num_classes, num_clients, seed=3)
    assert len(split) == num_clients
    assert len({len(own) for own in split}) == 1
    assert all(len(set(labels[own])) == k for own in split)
    used = np.concatenate(split)
    assert len(set(used)) == len(used)


def test_two_class_names_what_does_not_fit():
    assert TwoClass(3).check(5, 2, 100) == ["classes_per_client=3: the data has 2 classes; use at most 2"]
    assert "no classes" in TwoClass().check(5, 0, None)[0]
    with pytest.raises(ConfigError, match="use at most 2"):
        TwoClass(3).split(shuffled([50, 50]), 2, 5, 0)
    with pytest.raises(ConfigError, match=r"seed=4294967296: .*2\*\*32"):
        TwoClass().split(shuffled([50] * 10), 10, 5, 2**32)
    assert len(TwoClass().split(shuffled([50] * 10), 10, 5, 2**32 - 1)) == 5


def test_two_class_says_how_many_clients_fit():
    # 12 a class: (12 - 1) // S >= 1 needs S = ceil(2N/10) + 1 <= 11, so N <= 50.
    labels = shuffled([12] * 10)
    with pytest.raises(ConfigError, match=r"num_clients=51: needs 13 .* there are 12 .*at most 50 clients"):
        TwoClass().split(labels, 10, 51, 0)
    assert "at most 50 clients" in TwoClass().check(51, 10, 120)[0]
    assert TwoClass().check(50, 10, 120) == []
    assert {len(own) for own in TwoClass().split(labels, 10, 50, 0)} == {2}


def test_two_class_draws_afresh_when_stuck_and_gives_up_in_the_end():
    # 3 classes of 2 shards for 3 clients of 2 classes: if the first two clients take the same pair, one class is left.
    # The second client does so with probability 1/3: among 50 seeds some do, and all come through.
    for seed in range(50):
        picks = draw(3, 2, 3, 2, np.random.RandomState(seed))
        assert sorted(shard for own in picks for shard in own) == [(c, s) for c in range(3) for s in range(2)]
    with pytest.raises(ConfigError, match=f"{MAX_TRIES} draws"):
        draw(4, 2, 3, 2, np.random.RandomState(0))


def test_iid_deals_out_everything_evenly():
    split = Iid().split(np.zeros(100, dtype=np.int64), 1, 7, 0)
    assert sorted(map(len, split)) == [14] * 5 + [15] * 2  # 100 = 7·14 + 2
    assert sorted(np.concatenate(split)) == list(range(100))
    again, other = (Iid().split(np.zeros(100, dtype=np.int64), 1, 7, seed) for seed in (0, 1))
    assert partition_hash(again) == partition_hash(split) != partition_hash(other)


@pytest.mark.parametrize("partition", [TwoClass(), Iid(), Dirichlet()])
def test_more_clients_than_samples(partition):
    labels = shuffled([2] * 10)
    with pytest.raises(ConfigError, match="num_clients=21"):
        partition.split(labels, 10, 21, 0)
    (fault,) = partition.check(21, 10, 20)
    assert "21" in fault
    assert "20 training samples" in fault


@pytest.mark.parametrize("alpha", [1e-300, 0.1, 1.0, 1e308])
def test_dirichlet_deals_out_everything(alpha):
    labels = shuffled([300 + 10 * c for c in range(10)])
    split = Dirichlet(alpha, min_samples=2).split(labels, 10, 8, 5)
    assert sorted(np.concatenate(split)) == list(range(len(labels)))
    assert min(map(len, split)) >= 2
    assert all(own.dtype == np.int64 for own in split)


def test_dirichlet_is_more_skewed_for_smaller_alpha():
    labels = shuffled([500] * 10)

    def top_share(alpha: float) -> float:
        split = Dirichlet(alpha).split(labels, 10, 10, 0)
        return float(np.mean([np.bincount(labels[own]).max() / len(own) for own in split]))

    assert top_share(0.1) > 0.4 > 0.2 > top_share(100.0)


def test_dirichlet_gives_up_with_a_way_out():
    labels = shuffled([20] * 2)
    with pytest.raises(ConfigError, match=r"alpha=0\.01: in 3 draws .* larger alpha, fewer clients or a smaller"):
        Dirichlet(0.01, min_samples=2, max_tries=3).split(labels, 2, 20, 0)
    assert "21 training samples" in Dirichlet(min_samples=3).check(8, 2, 21)[0]


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf"), "two", None, True])
def test_dirichlet_wants_a_positive_alpha(alpha):
    with pytest.raises(ConfigError, match="alpha="):
        Dirichlet(alpha)


@pytest.mark.parametrize("alpha", [1e-300, 0.1, 1e308])
def test_dirichlet_equal_uses_each_sample_once_in_order(alpha):
    labels = shuffled([300 + 10 * c for c in range(10)])
    split = DirichletEqual(alpha).split(labels, 10, 8, 5)
    assert [len(own) for own in split] == [len(labels) // 8] * 8
    taken = np.concatenate(split)
    for c in range(10):  # whoever comes first takes the first
        of_class = taken[labels[taken] == c]
        assert np.array_equal(of_class, np.flatnonzero(labels == c)[: len(of_class)])


def test_dirichlet_equal_follows_its_shares():
    # The first 20 clients take 250 of 10,000 a class each and exhaust none: E Σ_c q_c² = (alpha + 1)/(C·alpha + 1).
    labels = np.repeat(np.arange(10), 10_000)[np.random.RandomState(0).permutation(100_000)]
    for alpha, least, most in ((0.1, 0.4, 0.7), (10.0, 0.1, 0.13)):  # 0.55 and 0.109
        rule = DirichletEqual(alpha)
        shares = [np.bincount(labels[own], minlength=10) / len(own) for own in rule.split(labels, 10, 400, 1)[:20]]
        assert least < np.mean([np.square(q).sum() for q in shares]) < most


@pytest.mark.parametrize("k", [0, -1, 2.0, "two", None])
def test_two_class_wants_a_positive_integer(k):
    with pytest.raises(ConfigError, match="classes_per_client="):
        TwoClass(k)


def test_file_roundtrip(tmp_path):
    path = tmp_path / "partition.json"
    split = Iid().split(np.zeros(30, dtype=np.int64), 1, 4, 0)
    save(path, split)
    back = FromFile(str(path)).split(np.zeros(30, dtype=np.int64), 1, 4, 9)
    assert partition_hash(back) == partition_hash(split) == partition_hash(load(path))
    assert [own.tolist() for own in back] == json.loads(path.read_text())
    assert list(tmp_path.iterdir()) == [path]


def test_hash_knows_where_a_client_ends():
    ends = [[[1, 2], [3]], [[1], [2, 3]], [[2, 1], [3]]]
    assert len({partition_hash([np.array(own) for own in lists]) for lists in ends}) == 3


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[0, 1], [2", "is no JSON"),
        ('{"0": [1]}', "holds a dict"),
        ("[[0], 1]", "client 1 is 1"),
        ("[[0], [1.0]]", "client 1 has 1.0"),
        ("[[0], [true]]", "client 1 has True"),
        ('[[0], ["1"]]', "client 1 has '1'"),
        (f"[[0], [{2**63}]]", "client 1 has 9223372036854775808"),
        ("[[0, 1], [2, 1]]", "client 1 has index 1, which client 0 has too"),
        ("[[0], [2, 2]]", "client 1 has index 2 more than once"),
        ("[[0], [5]]", r"client 1 has index 5, outside \[0, 4\]"),
        ("[[-1], [2]]", "client 0 has index -1"),
        ("[[0], []]", "client 1 has no samples"),
        ("[[0]]", "has 1 clients, but num_clients=2"),
    ],
)
def test_file_faults_are_named(tmp_path, text, fault):
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=fault):
        FromFile(str(path)).split(np.zeros(5, dtype=np.int64), 1, 2, 0)


def test_file_that_is_missing_is_found_out_before_data_is_read(tmp_path):
    gone = FromFile(str(tmp_path / "gone.json"))
    assert "no such file" in gone.check(2, 10, None)[0]
    with pytest.raises(ConfigError, match=r"gone\.json: cannot be read"):
        gone.split(np.zeros(5, dtype=np.int64), 1, 2, 0)
    with pytest.raises(ConfigError, match="path=None"):
        FromFile(None)


def test_verify_wants_int64():
    with pytest.raises(ConfigError, match="client 0 has float64"):
        verify([np.array([0.0])], 5, 1)


def test_natural_has_nothing_to_split_by():
    assert Natural().check(1000, 0, 1) == []
    with pytest.raises(ConfigError, match="no natural owners"):
        Natural().split(np.zeros(5, dtype=np.int64), 1, 2, 0)
