"""Who took part and how stale the rest is, counted as the rounds go by."""

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Participation:
    """Streaming statistics of the masks and of who reported.

    tau(t, i) = 0 where device i is available in round t, else tau(t-1, i) + 1, and tau(-1, i) = 0: rounds since it was
    last available. tau_bar_T is the mean of tau(t, i) over all i and t < T, tau_max_T the largest (Gu et al., NeurIPS
    2021). The hash chains every mask of the run, so equal hashes mean equal masks.
    """

    def __init__(self, num_clients: int) -> None:
        self.tau = torch.zeros(num_clients, dtype=torch.int64)
        self.count = torch.zeros(num_clients, dtype=torch.int64)
        self.rounds = 0
        self.tau_sum = 0
        self.tau_max = 0
        self.held = 0
        self.held_in_a_row = 0
        self.mask_hash = str(num_clients)

    def record(self, available: Tensor, reported: Tensor, moved: bool) -> None:
        """One round: who was available (bool [N]), who reported (int64 [A]), whether the model moved."""
        self.tau = torch.where(available, 0, self.tau + 1)
        self.count[reported] += 1
        self.rounds += 1
        self.tau_sum += int(self.tau.sum())
        self.tau_max = max(self.tau_max, int(self.tau.max()))
        self.held += not moved
        self.held_in_a_row = 0 if moved else self.held_in_a_row + 1
        packed = np.packbits(available.numpy()).tobytes()
        self.mask_hash = hashlib.blake2b(self.mask_hash.encode() + packed, digest_size=16).hexdigest()

    def metrics(self) -> dict[str, float]:
        """This round's row: staleness now, participation so far."""
        share = self.count.to(torch.float64) / max(self.rounds, 1)
        return {
            "staleness/tau_mean": float(self.tau.to(torch.float64).mean()),
            "staleness/tau_max": int(self.tau.max()),
            "staleness/held": self.held,
            "participation/mean": float(share.mean()),
            "participation/min": float(share.min()),
            "participation/max": float(share.max()),
            "participation/heard": int((self.count > 0).sum()),
        }

    def summary(self) -> dict[str, float]:
        """Over the whole run: tau_bar_T and tau_max_T."""
        cells = max(self.rounds, 1) * len(self.tau)
        return {"staleness/tau_bar": self.tau_sum / cells, "staleness/tau_max_T": self.tau_max}

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain numbers."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Back to where it was."""
        vars(self).update({k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()})
