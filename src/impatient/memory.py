"""Per-client memory: tables [N, P], reached by client id only."""

from collections.abc import Mapping

import torch
from torch import Tensor

from impatient.messages import Ids, Rows, Slot


class ClientMemory:
    """One table [N, P] for each slot a rule declares.

    Rows are read as they are stored (their dtype is the memory's): a rule that forms differences from what it reads and
    from what it is about to write, both in that dtype, cannot drift. Tables may live on another device than the model.
    """

    def __init__(
        self,
        slots: Mapping[str, Slot],
        num_clients: int,
        params: Tensor,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.tables: dict[str, Tensor] = {}
        for name, slot in slots.items():
            table = torch.zeros(num_clients, params.numel(), device=device, dtype=dtype)
            if slot.fill == "params":
                table += params.to(device, dtype)
            self.tables[name] = table

    @staticmethod
    def num_bytes(slots: Mapping[str, Slot], num_clients: int, num_params: int, dtype: torch.dtype) -> int:
        """The size of all tables, before any is made."""
        return len(slots) * num_clients * num_params * dtype.itemsize

    def read(self, ids: Ids, device: torch.device | str) -> Rows:
        """Copies [A, P] of the rows of `ids`, on `device`, as stored."""
        return {name: table[ids.to(table.device)].to(device) for name, table in self.tables.items()}

    def write(self, ids: Ids, rows: Rows) -> None:
        """Replace the rows [A, P] of `ids` in the slots given."""
        for name, new in rows.items():
            table = self.tables[name]
            table[ids.to(table.device)] = new.to(table.device, table.dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """The tables themselves, for a checkpoint."""
        return dict(self.tables)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Fill the tables from a checkpoint; slots and shapes must agree."""
        wanted = {name: tuple(table.shape) for name, table in self.tables.items()}
        given = {name: tuple(table.shape) for name, table in state.items()}
        if wanted != given:
            raise ValueError(f"the checkpoint's memory {given} is not this run's {wanted}")
        for name, table in state.items():
            self.tables[name].copy_(table)
