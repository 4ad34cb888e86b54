"""The cluster as an operator sees it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OURS = "gitops-service"
PART = "app.kubernetes.io/name"
EVERY_SECONDS = 0.5
DEADLINE_SECONDS = 240
"""Pods come, go and are found to hang within it, on a busy machine, too."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl with an administrator's rights."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str, given: str | None = None, seconds: float = 120) -> str:
        """What it prints; it has to succeed."""
        outcome = self.attempt(*arguments, given=given, seconds=seconds)
        assert outcome.returncode == 0, f"kubectl {' '.join(arguments)}: {outcome.stderr}"
        return outcome.stdout

    def attempt(
        self, *arguments: str, given: str | None = None, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Whatever comes of it."""
        return subprocess.run(
            [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )

    def get(self, *arguments: str) -> Any:
        """An object, or a list."""
        return json.loads(self.run("get", *arguments, "--output=json"))

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Make or change objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.run("apply", "--server-side", "--force-conflicts", "--filename=-", given=json.dumps(items))

    def pods_of(self, name: str, namespace: str = OURS) -> list[dict[str, Any]]:
        """Pods of one of our services that are not about to go."""
        found = self.get("pods", f"--namespace={namespace}", f"--selector={PART}={name}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def python(self, namespace: str, pod: str, code: str, *arguments: str, container: str = "") -> str:
        """What a program prints that runs in a pod."""
        place = (f"--namespace={namespace}", pod, *([f"--container={container}"] if container else []))
        return self.run("exec", *place, "--", "python", "-c", code, *arguments)


def read_metrics(kubectl: Kubectl, pod: str) -> str:
    """What one of our pods tells of itself."""
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8000/metrics').read().decode())"
    return kubectl.python(OURS, pod, read)


async def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait for what kubectl shows."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s: {what}"
        await asyncio.sleep(EVERY_SECONDS)


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether the kubelet says so."""
    conditions = pod["status"].get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def restarts(pod: dict[str, Any]) -> int:
    """How often its container was started again."""
    return sum(int(item["restartCount"]) for item in container_statuses(pod))


def endings(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """How its containers have ended, as far as the kubelet still knows."""
    states = [state for status in container_statuses(pod) for state in (status["state"], status.get("lastState", {}))]
    return [state["terminated"] for state in states if "terminated" in state]


def container_statuses(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """What the kubelet says of its containers; nothing if it has only just been given the pod."""
    found: list[dict[str, Any]] = pod["status"].get("containerStatuses", [])
    return found
