"""Servers that do not answer, refuse, or are not there: the run goes on offline, within seconds."""

import http.server
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from omegaconf import OmegaConf

from impatient.lit.wandb_logger import WandbMetrics


class Deny(http.server.BaseHTTPRequestHandler):
    """401 for whatever is asked."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"errors":[{"message":"invalid api key"}]}')

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "mute":  # takes connections and says nothing, as a firewall may
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
    elif request.param == "wrong key":
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deny) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
    else:
        yield "http://127.0.0.1:9"  # nobody there


@pytest.mark.parametrize("url", [pytest.param("mute", marks=pytest.mark.slow), "wrong key", "nobody"], indirect=True)
def test_a_server_that_takes_no_run_leaves_it_offline(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", url)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    wandb.teardown()
    logger = WandbMetrics(str(tmp_path), "p", patience=3)
    assert logger._wandb_init["mode"] == "online"
    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        logger.begin(["round"], 0)
    logger.log_metrics({"round": 0})
    wandb.finish()
    assert time.monotonic() - started < 3 + 7  # patience, and the starts of two of W&B's service processes
    assert "W&B takes no run" in caplog.text
    assert list(tmp_path.glob(f"wandb/offline-run-*-{logger.run_id}"))
    wandb.teardown()


def test_the_default_patience_is_short() -> None:
    settings = OmegaConf.load(Path(__file__).parents[2] / "configs/logger/wandb.yaml")
    assert settings.wandb.patience < 10
