"""Per-client memory: tables [N, P], reached by client id only."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from impatient.checks import ConfigError, check, number, one_of
from impatient.machine import free_bytes
from impatient.messages import Ids, Rows, Slot
from impatient.ranks import Ranks

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


@dataclass(frozen=True)
class MemorySettings:
    """Where per-client memory lives: device (auto: beside the model), dtype, and the size above which it is refused."""

    device: str = "auto"
    dtype: str = "float32"
    limit_gb: float = 8.0

    def __post_init__(self) -> None:
        """Raise ConfigError with every value out of range."""
        check(one_of("dtype", self.dtype, list(DTYPES)), number("limit_gb", self.limit_gb, 0))
        try:
            device = torch.device("cpu" if self.device == "auto" else self.device)
            if device.type == "cuda" and not torch.cuda.is_available():
                raise ConfigError(f"device={self.device}: this machine has no usable GPU; use auto or cpu")
        except (RuntimeError, TypeError):
            raise ConfigError(f"device={self.device}: must be auto, cpu, cuda or cuda:0 …") from None


class ClientMemory:
    """One table [N, P] for each slot a rule declares.

    Rows are read as they are stored (their dtype is the memory's): a rule that forms differences from what it reads and
    from what it is about to write, both in that dtype, cannot drift. Tables may live on another device than the model.
    Each rank keeps the rows of its own clients; a checkpoint holds them all, whatever the number of ranks.
    """

    def __init__(
        self,
        slots: Mapping[str, Slot],
        num_clients: int,
        params: Tensor,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        ranks: Ranks | None = None,
    ) -> None:
        self.num_clients, self.ranks = num_clients, ranks or Ranks()
        here = len(range(self.ranks.rank, num_clients, self.ranks.world))
        self.tables: dict[str, Tensor] = {}
        for name, slot in slots.items():
            table = torch.zeros(here, params.numel(), device=device, dtype=dtype)
            if slot.fill == "params":
                table += params.to(device, dtype)
            self.tables[name] = table

    def read(self, ids: Ids, device: torch.device | str) -> Rows:
        """Copies [A, P] of the rows of `ids`, on `device`, as stored."""
        return {name: table[self._at(ids, table)].to(device) for name, table in self.tables.items()}

    def write(self, ids: Ids, rows: Rows) -> None:
        """Replace the rows [A, P] of `ids` in the slots given."""
        for name, new in rows.items():
            table = self.tables[name]
            table[self._at(ids, table)] = new.to(table.device, table.dtype)

    def _at(self, ids: Ids, table: Tensor) -> Tensor:
        return (ids // self.ranks.world).to(table.device)

    def state_dict(self) -> dict[str, Tensor]:
        """The whole tables [N, P], for a checkpoint: on rank 0; every rank must call it."""
        return {name: self.ranks.gather_rows(table, self.num_clients) for name, table in self.tables.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Fill the tables from a checkpoint; slots and shapes must agree."""
        wanted = {name: (self.num_clients, *table.shape[1:]) for name, table in self.tables.items()}
        given = {name: tuple(table.shape) for name, table in state.items()}
        if wanted != given:
            raise ValueError(f"the checkpoint's memory {given} is not this run's {wanted}")
        for name, table in state.items():
            self.tables[name].copy_(table[self.ranks.rank :: self.ranks.world])


def memory_bytes(
    slots: Mapping[str, Slot],
    num_clients: int,
    model: nn.Module,
    settings: MemorySettings,
    device: torch.device | str = "cpu",
) -> int:
    """The size of the per-client memory on `device`, before it is made.

    Raises ConfigError above the limit or what is free there.
    """
    params = sum(p.numel() for p in model.parameters() if p.requires_grad)
    size = len(slots) * num_clients * params * DTYPES[settings.dtype].itemsize
    what = f"memory: {num_clients} clients x {params} parameters need {size / 1e9:.3g} GB"
    way_out = "set memory.dtype=bfloat16, or take fewer clients"
    if size > settings.limit_gb * 1e9:
        raise ConfigError(f"{what}, above memory.limit_gb={settings.limit_gb:g}; raise the limit, {way_out}")
    free = free_bytes(str(device))
    if free is not None and size > free:
        raise ConfigError(f"{what}, and {free / 1e9:.3g} GB are free on {device}; {way_out}")
    return size
