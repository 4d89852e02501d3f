"""What the rounds of a run leave behind: a row of metrics each, who took part, the bytes sent."""

import logging
import math
from typing import Any

from impatient.aggregators.base import Aggregator
from impatient.messages import Protocols, State
from impatient.participation import Participation
from impatient.round import Played

log = logging.getLogger(__name__)


class Ledger:
    """Counts over the whole run, which a checkpoint holds; bytes are those of the rule's own protocols."""

    def __init__(self, rule: Aggregator, num_params: int, num_clients: int) -> None:
        self.rule, self.num_params, self.num_clients = rule, num_params, num_clients
        self.participation = Participation(num_clients)
        self.sent = {"comm/up_bytes_total": 0, "comm/down_bytes_total": 0}

    @property
    def columns(self) -> tuple[list[str], list[str]]:
        """The metrics of a row, those before and those after the ones of an evaluation."""
        now = ["round", "update", "lr", "available", "active", "seconds"]
        comm = [f"comm/{name}_bytes" for name in ("up", "down", "server", "client")]
        return [*now, "client/loss", "direction_norm", "bad_updates"], [*self.participation.metrics(), *comm]

    def record(self, played: Played, update: int, seconds: float) -> dict[str, float]:
        """Count one round, after which the model has moved `update` times; its row of metrics, without evaluation."""
        info, answers, direction = played.info, played.answers, played.direction
        self.participation.record(info.available, answers.reported, direction is not None)
        traffic = next(iter(self._traffic(len(played.selected), len(answers.reported)).values()))
        self.sent["comm/up_bytes_total"] += traffic.up
        self.sent["comm/down_bytes_total"] += traffic.down
        return {
            "round": info.round, "update": update, "lr": info.lr, "available": int(info.available.sum()),
            "active": len(answers.reported), "seconds": seconds, "client/loss": answers.loss,
            "direction_norm": 0.0 if direction is None else float(direction.norm()), "bad_updates": answers.skipped,
            **self.participation.metrics(),
            "comm/up_bytes": traffic.up, "comm/down_bytes": traffic.down,
            "comm/server_bytes": traffic.server, "comm/client_bytes": traffic.client,
        }  # fmt: skip

    def warn_if_stuck(self, played: Played, state: State, unmoved: bool) -> None:
        """Say whom the rule awaits after 50, 100, 200, … held rounds; unmoved: the run ends, and it never moved."""
        info, held = played.info, self.participation.held_in_a_row
        if unmoved or (held >= 50 and math.log2(held / 50).is_integer()):
            awaited = list(map(str, self.rule.awaited(state, info).tolist()))
            more = " …" if len(awaited) > 10 else ""
            whom = f"waiting for device(s) {', '.join(awaited[:10])}{more}" if awaited else "nobody is there"
            ends = "; the run ends with the model as it was initialised: it needs more rounds" if unmoved else ""
            rounds = f"{held} round{'s' * (held != 1)}"
            log.warning("round %d: held for %s, %s%s", info.round, rounds, whom, ends)

    def summary(self) -> dict[str, Any]:
        """Staleness over the run, bytes sent in it, and bytes kept under each protocol."""
        kept = {
            f"comm/{protocol}/{side}_bytes": value
            for protocol, traffic in self._traffic(0, 0).items()
            for side, value in (("server", traffic.server), ("client", traffic.client))
        }
        return {**self.participation.summary(), **self.sent, **kept}

    def _traffic(self, selected: int, reported: int) -> Protocols:
        return self.rule.traffic(selected, reported, self.num_params, self.num_clients)

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain Python only."""
        return {"sent": dict(self.sent), "participation": self.participation.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Back to where it was."""
        self.sent = dict(state["sent"])
        self.participation.load_state_dict(state["participation"])
