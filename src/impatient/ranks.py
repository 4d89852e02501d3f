"""The processes that share the clients: client i lives on rank i mod world."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from impatient.messages import Ids


@dataclass(frozen=True)
class Ranks:
    """Where this process stands. device: where collectives take their tensors (a GPU under nccl)."""

    rank: int = 0
    world: int = 1
    device: torch.device | str = "cpu"

    def own(self, ids: Ids) -> Ids:
        """Those of `ids` that live here."""
        return ids if self.world == 1 else ids[self.here(ids)]

    def here(self, ids: Ids) -> Tensor:
        """Which of `ids` those are, bool [A]."""
        return ids % self.world == self.rank

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, on the device and in the dtype of `tensor` (float or int)."""
        if self.world == 1:
            return tensor
        total = tensor.detach().to(self.device, copy=True)
        dist.all_reduce(total)
        return total.to(tensor.device)

    def union(self, ids: Ids, num_clients: int) -> Ids:
        """The ids named on any rank, ascending."""
        if self.world == 1:
            return ids
        named = torch.zeros(num_clients, dtype=torch.int64)
        named[ids] = 1
        return self.sum(named).nonzero().flatten()

    def gather_rows(self, table: Tensor, num_rows: int) -> Tensor:
        """Every rank's rows, row i from rank i mod world, as one table [num_rows, P] on rank 0; no rows elsewhere."""
        if self.world == 1:
            return table
        most = -(-num_rows // self.world)
        mine = table.new_zeros(most, *table.shape[1:], device=self.device)
        mine[: len(table)] = table.to(self.device)
        parts = [torch.empty_like(mine) for _ in range(self.world)] if self.rank == 0 else None
        dist.gather(mine, parts)
        if parts is None:
            return table[:0]
        return torch.stack(parts, 1).flatten(0, 1)[:num_rows].to(table.device)
