"""The workloads: 100 clients with two classes each, two local epochs, batch 100, weight decay 0.001."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import nn
from torchvision.models import resnet18

from impatient.data.dataset import Clients, Dataset, Normalise
from impatient.data.partition.two_class import TwoClass
from impatient.data.rounds import Batches, Batching
from impatient.data.vision import TorchVision
from impatient.engine.local import LocalSGD, Task
from impatient.flat import FlatModel
from impatient.models.conv import CNN, LeNet5
from impatient.models.logistic import Logistic
from impatient.rng import torch_stream

CPU = torch.device("cpu")
SGD = LocalSGD(lr=0.1, weight_decay=1e-3)


@dataclass(frozen=True)
class Workload:
    """A model, its data, and which clients train in the round that is timed."""

    name: str
    data: str
    task: Task
    dataset: Dataset
    clients: Clients
    ids: torch.Tensor
    batches: Batches

    @cached_property
    def inputs(self) -> torch.Tensor:
        """All samples normalised, for the variants that are spared it."""
        return self.task.normalise(self.task.x)

    @property
    def num_samples(self) -> int:
        """Samples through the model in this round."""
        return int(self.batches.count.sum())


def images(shape: tuple[int, int, int], per_class: int, name: str) -> Dataset:
    """Random pixels in the shape of the real data set: they take as long, and train to nothing."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(10).repeat(per_class)
    x = torch.randint(0, 256, (len(y), *shape), generator=generator, dtype=torch.uint8)
    mean, std = (0.5,) * shape[0], (0.25,) * shape[0]
    return Dataset(name, x, y, x[:1000], y[:1000], tuple(map(str, range(10))), mean, std)


def load(kind: str, data_dir: Path) -> Dataset:
    """MNIST or CIFAR-10 where its files lie in data_dir, else random pixels of that shape, named so."""
    there = {"mnist": data_dir / "MNIST" / "raw", "cifar10": data_dir / "cifar-10-batches-py"}[kind]
    if there.is_dir():
        stats = {"mnist": ([0.1307], [0.3081]), "cifar10": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}[kind]
        return TorchVision(kind, str(data_dir), *stats).load(100, 0)
    shape, per_class = {"mnist": ((1, 28, 28), 5421), "cifar10": ((3, 32, 32), 5000)}[kind]
    return images(shape, per_class, f"random pixels shaped like {kind}")


def resnet18_gn(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """ResNet-18 with GroupNorm of 16 channels a group."""
    return resnet18(num_classes=num_classes, norm_layer=lambda channels: nn.GroupNorm(channels // 16, channels))


def workload(
    name: str,
    data_dir: Path,
    num_active: int,
    epochs: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
    num_clients: int = 100,
) -> Workload:
    """W1 logistic regression on MNIST; on CIFAR-10 W2 LeNet-5, W3 the wider net, W4 ResNet-18 with GroupNorm."""
    kind = "mnist" if name == "W1" else "cifar10"
    dataset = load(kind, data_dir)
    model: Callable[..., nn.Module] = {"W1": Logistic, "W2": LeNet5, "W3": CNN, "W4": resnet18_gn}[name]
    clients = Clients.of(TwoClass().split(dataset.y.numpy(), 10, num_clients, 16), dataset.y, 10)
    with torch_stream(CPU, 0, "model"):
        module = model(dataset.input_shape, 10).to(device, dtype)
    x = dataset.x.contiguous(memory_format=torch.channels_last) if device == CPU else dataset.x.to(device)
    task = Task(FlatModel(module, dataset.loss), x, dataset.y.to(device), Normalise(dataset, device, dtype))
    ids = torch.arange(num_active)
    return Workload(name, dataset.name, task, dataset, clients, ids, Batching(100, epochs).draw(clients, ids, 0, 0))


def default_data_dir() -> Path:
    """$IMPATIENT_DATA_DIR, else data/ in the repository."""
    return Path(os.environ.get("IMPATIENT_DATA_DIR") or Path(__file__).parents[1] / "data")
