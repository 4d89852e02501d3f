import os
import pickle
import shutil
import socket
import tarfile
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torchvision

from impatient.checks import ConfigError
from impatient.data.digits import Digits
from impatient.data.quadratic import Quadratic, half_square, optimum
from impatient.data.vision import TorchVision

MNIST_STATS = {"mean": [0.1307], "std": [0.3081]}
CIFAR_STATS = {"mean": [0.49, 0.48, 0.45], "std": [0.25, 0.24, 0.26]}


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        assert socket.getdefaulttimeout() == 10
        raise URLError("no route")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


def test_digits():
    data = Digits().load(100, 3)
    assert data.x.shape == (Digits.num_train, 1, 8, 8) == (1347, 1, 8, 8)
    assert data.x_test.shape == (450, 1, 8, 8)
    assert data.x.dtype == torch.uint8
    assert data.y.dtype == torch.int64
    assert data.num_classes == Digits.num_classes == 10
    assert int(data.x.max()) == 255
    x = data.x.double() / 255
    assert data.mean[0] == pytest.approx(x.mean().item(), abs=1e-12)
    assert data.std[0] == pytest.approx(x.std(correction=0).item(), abs=1e-12)
    # 1797 images, 174 to 183 of each digit: a quarter (450/1797) of each is 43.6 to 45.8.
    assert set(np.bincount(data.y_test)) <= {43, 44, 45, 46}
    again = Digits().load(5, 9)
    assert torch.equal(again.x, data.x)
    assert torch.equal(again.y_test, data.y_test)


@pytest.mark.mnist
def test_mnist(mnist_root, no_network, capsys):
    data = TorchVision("mnist", str(mnist_root), **MNIST_STATS).load(100, 0)
    assert data.x.shape == (60_000, 1, 28, 28)
    assert data.x_test.shape == (10_000, 1, 28, 28)
    assert (data.x.dtype, data.y.dtype) == (torch.uint8, torch.int64)
    assert data.classes == tuple("0123456789")
    # 0.1307 and 0.3081 are the customary figures for MNIST.
    assert (data.x.float() / 255).mean().item() == pytest.approx(0.1307, abs=5e-5)
    assert (data.x.float() / 255).std().item() == pytest.approx(0.3081, abs=5e-5)
    assert capsys.readouterr().out == ""


@pytest.mark.mnist
def test_mnist_cut_short_is_said_to_be_broken(mnist_root, no_network, tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    shutil.copytree(mnist_root / "MNIST" / "raw", raw)
    raw.chmod(0o755)
    labels = raw / "train-labels-idx1-ubyte"
    labels.chmod(0o644)
    os.truncate(labels, 1000)
    with pytest.raises(ConfigError, match=f"data=mnist: the files in {raw} are broken"):
        TorchVision("mnist", str(tmp_path), **MNIST_STATS).load(100, 0)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_files_of_another_size_are_not_read(name, tmp_path, no_network, monkeypatch):
    """torchvision reads these without a checksum, whole: the one of 100 GB here would not fit the memory."""
    monkeypatch.setattr(TorchVision, "_read", lambda *_, **__: pytest.fail("read"))
    source = TorchVision(name, str(tmp_path), **MNIST_STATS)
    # 60,000 and 10,000 images of 28·28 bytes behind 16 bytes of head; labels of one byte behind 8.
    for file, size in zip(source.known.files, (47_040_016, 60_008, 7_840_016, 10_008), strict=True):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
        os.truncate(tmp_path / file, size)
    os.truncate(tmp_path / source.known.files[2], 100_000_000_000)
    with pytest.raises(ConfigError, match=r"t10k-images-idx3-ubyte has 100,000,000,000 bytes instead of 7,840,016"):
        source.load(100, 0)


@pytest.mark.parametrize(
    ("name", "stats", "file"),
    [
        ("mnist", MNIST_STATS, "MNIST/raw/train-images-idx3-ubyte and 3 other files"),
        ("fashion_mnist", MNIST_STATS, "FashionMNIST/raw/train-images-idx3-ubyte"),
        ("cifar10", CIFAR_STATS, "cifar-10-batches-py/data_batch_1 and 6 other files"),
    ],
)
def test_no_files_and_no_network(name, stats, file, tmp_path, no_network):
    with pytest.raises(ConfigError) as caught:
        TorchVision(name, str(tmp_path / "mistyped"), **stats).load(100, 0)
    (message,) = caught.value.faults
    for part in (f"data={name}", str(tmp_path), file, "IMPATIENT_DATA_DIR", "paths.data_dir", "no route"):
        assert part in message
    assert len(message) < 600
    assert list(tmp_path.iterdir()) == []  # nothing half done is left, and no folder of that name
    assert socket.getdefaulttimeout() is None


def test_a_root_that_cannot_be_made(tmp_path, no_network):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="data=mnist: MNIST is not under"):
        TorchVision("mnist", str(tmp_path / "file" / "data"), **MNIST_STATS).load(100, 0)


def write_cifar(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-10's layout with 50 + 10,000 images, and their checksums in place of the real ones."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    sizes = {f"data_batch_{i}": 10 for i in range(1, 6)} | {"test_batch": 10_000}
    sums = {}
    for name, n in sizes.items():
        data = np.arange(n * 3072, dtype=np.int64).astype(np.uint8).reshape(n, 3072)
        (folder / name).write_bytes(pickle.dumps({"data": data, "labels": [i % 10 for i in range(n)]}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    for file in folder.iterdir():
        sums[file.name] = torchvision.datasets.utils.calculate_md5(file)
    cifar = torchvision.datasets.CIFAR10
    monkeypatch.setattr(cifar, "train_list", [[f"data_batch_{i}", sums[f"data_batch_{i}"]] for i in range(1, 6)])
    monkeypatch.setattr(cifar, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(cifar, "meta", {**cifar.meta, "md5": sums["batches.meta"]})


def test_cifar10_layout(tmp_path, monkeypatch, no_network):
    write_cifar(tmp_path, monkeypatch)
    source = TorchVision("cifar10", str(tmp_path), **CIFAR_STATS)
    assert source.num_train == 50_000
    with pytest.raises(ConfigError, match=r"broken .*images \[50, 3, 32, 32\]"):
        source.load(100, 0)
    source.num_train = 50
    data = source.load(100, 0)
    assert data.x.shape == (50, 3, 32, 32)
    assert data.x.is_contiguous()
    assert data.classes == tuple("abcdefghij")
    # The file holds an image as 1024 red, then green, then blue bytes: the arrays are its bytes in their order.
    assert data.x[1].flatten().tolist() == [i % 256 for i in range(3072, 6144)]
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(b"cut")
    with pytest.raises(ConfigError, match=r"data=cifar10: the files in .*cifar-10-batches-py are broken"):
        source.load(100, 0)


def test_a_foreign_pickle_is_not_opened(tmp_path, monkeypatch, no_network):
    """CIFAR-10's files are pickles: torchvision opens those with the published checksums, and no others."""

    class Bomb:
        def __reduce__(self):
            return (tmp_path / "executed").touch, ()

    write_cifar(tmp_path, monkeypatch)
    for file in (tmp_path / "cifar-10-batches-py").iterdir():
        file.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ConfigError, match="are broken"):
        TorchVision("cifar10", str(tmp_path), **CIFAR_STATS).load(100, 0)
    assert not (tmp_path / "executed").exists()


def test_a_download_is_moved_into_place(tmp_path, monkeypatch, capsys):
    elsewhere = tmp_path / "elsewhere"
    write_cifar(elsewhere, monkeypatch)

    def fetch(self):
        print("noise")
        shutil.copytree(elsewhere, self.root, dirs_exist_ok=True)

    monkeypatch.setattr(torchvision.datasets.CIFAR10, "download", fetch)
    source = TorchVision("cifar10", str(tmp_path / "root"), **CIFAR_STATS)
    source.num_train = 50
    assert len(source.load(100, 0).x) == 50
    assert [p.name for p in (tmp_path / "root").iterdir()] == ["cifar-10-batches-py"]
    assert capsys.readouterr().out == ""


def test_an_archive_under_the_root_is_unpacked_without_a_network(tmp_path, monkeypatch, no_network):
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "root"
    write_cifar(elsewhere, monkeypatch)
    root.mkdir()
    archive = root / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(elsewhere / "cifar-10-batches-py", "cifar-10-batches-py")
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "tgz_md5", torchvision.datasets.utils.calculate_md5(archive))
    source = TorchVision("cifar10", str(root), **CIFAR_STATS)
    source.num_train = 50
    assert len(source.load(100, 0).x) == 50
    assert sorted(p.name for p in root.iterdir()) == ["cifar-10-batches-py", "cifar-10-python.tar.gz"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"name": "imagenet"}, "name=imagenet"),
        ({"root": None}, "root=None"),
        ({"mean": [0.1, 0.2]}, "mean="),
        ({"mean": 0.1}, "mean="),
        ({"std": [0.0]}, "std="),
        ({"std": ["one"]}, "std="),
        ({"std": [float("nan")]}, "std="),
    ],
)
def test_torchvision_arguments(change, fault):
    with pytest.raises(ConfigError, match=fault):
        TorchVision(**{"name": "mnist", "root": "data", **MNIST_STATS, **change})


def test_quadratic_optimum_has_no_gradient():
    data = Quadratic(dim=3, samples=5).load(4, seed=1)
    assert data.x.shape == (20, 3)
    assert data.x.dtype == torch.float64
    assert data.num_classes == 0
    assert [own.tolist() for own in data.owners] == [list(range(5 * i, 5 * i + 5)) for i in range(4)]
    weight = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    w = optimum(data, weight, 0.5).requires_grad_()
    losses = half_square(w - data.x, data.y)
    assert losses.shape == (20,)
    objective = weight @ losses.view(4, 5).mean(1) + 0.5 / 2 * w @ w
    (gradient,) = torch.autograd.grad(objective, w)
    assert gradient.abs().max().item() < 1e-14


def test_quadratic_without_noise_is_its_centres():
    data = Quadratic(dim=2, samples=3, spread=1.5, noise=0.0).load(50, seed=1)
    centres = data.x.view(50, 3, 2)
    assert torch.equal(centres, centres[:, :1].expand_as(centres))
    assert 1.3 < centres.abs().max().item() <= 1.5
    assert torch.allclose(optimum(data, torch.full((50,), 1 / 50), 0.0), centres[:, 0].mean(0))


def test_quadratic_keeps_the_others_when_a_client_or_a_point_comes():
    few, more = (Quadratic(samples=4).load(n, seed=2).x.view(n, 4, 10) for n in (3, 4))
    assert torch.equal(few, more[:3])
    longer = Quadratic(samples=6).load(3, seed=2).x.view(3, 6, 10)
    assert torch.equal(few, longer[:, :4])
    assert not torch.equal(few, Quadratic(samples=4).load(3, seed=3).x.view(3, 4, 10))


def test_quadratic_names_all_faults_at_once():
    with pytest.raises(ConfigError) as caught:
        Quadratic(dim=0, samples=1.5, spread=float("nan"), noise="one")
    assert [fault.split("=")[0] for fault in caught.value.faults] == ["dim", "samples", "spread", "noise"]


def test_optimum_needs_owners():
    with pytest.raises(ConfigError, match="data=digits"):
        optimum(Digits().load(1, 0), torch.ones(1), 0.0)
