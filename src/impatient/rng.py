"""Randomness by address: every draw is a pure function of (seed, purpose, ids…), so nothing is replayed or saved."""

import contextlib
import hashlib
from collections.abc import Iterator

import numpy as np
import torch


def derive(seed: int, name: str, *ids: int) -> int:
    """A 128-bit integer that depends on every part of the address and on nothing else."""
    address = repr((int(seed), name, *map(int, ids))).encode()
    return int.from_bytes(hashlib.blake2b(address, digest_size=16).digest(), "little")


def stream(seed: int, name: str, *ids: int) -> np.random.Generator:
    """The generator at one address, e.g. stream(seed, "batches", round, client).

    Draws of n numbers begin with the draws of fewer, so adding a client keeps the numbers of the others.
    """
    return np.random.Generator(np.random.Philox(key=derive(seed, name, *ids)))


@contextlib.contextmanager
def torch_stream(device: torch.device, seed: int, name: str, *ids: int) -> Iterator[None]:
    """Let torch's own generators draw from one address inside the block (dropout, initialisation); restore them."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        value = derive(seed, name, *ids) % 2**63
        torch.default_generator.manual_seed(value)  # torch.manual_seed would also reseed devices that are not restored
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(value)
        yield
