"""An agent as a process of its own, to be killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

AGENT = "services.agent"
COMPOSING_AGENT = "tests.component.agent.composing_agent"
"""An agent whose Secrets are composed by a fake."""
STARTLED_AGENT = "tests.component.agent.startled_agent"
"""An agent whose API server is out of reach for an instant at SIGUSR1."""


class Worker:
    """One ``python -m`` of an agent; what it leaves behind when it is killed is in the folder of its log."""

    def __init__(self, environment: Mapping[str, str], log: Path, module: str = AGENT) -> None:
        self.port = free_port()
        self.log = log
        self._output = log.open("ab")
        own = {"METRICS_PORT": str(self.port), "LOG_FORMAT": "json", "TMPDIR": str(log.parent)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            env=os.environ | environment | own,
            stdout=self._output,
            stderr=self._output,
        )

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its telemetry; 0 if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        return self.get("/readyz")[0] == 200

    @property
    def assignments(self) -> list[list[str]]:
        """The instances of each of its assignments."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line["instances"] for line in lines if line["event"] == "instances assigned"]

    @property
    def instances(self) -> list[str]:
        """The instances last assigned to it."""
        return self.assignments[-1] if self.assignments else []

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()
        self._output.close()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout=20)
        finally:
            self._output.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
