"""Which of Argo CD's workloads are to be seen, and how many of their pods are well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.agent.health.signals import Workload
from services.agent.health.workloads import workloads_of
from services.common.times import rfc3339

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONTROLLER, REPO_SERVER, REDIS = "argocd-application-controller", "argocd-repo-server", "argocd-redis"


def ago(**duration: float) -> str:
    return rfc3339(NOW - timedelta(**duration))


def owner(replicas: int | None = 1, **status: int) -> dict[str, Any]:
    return {"spec": {} if replicas is None else {"replicas": replicas}, "status": status}


def pod(name: str, ready: str = "True", restarts: int = 0, ended: str = "", began: str = "") -> dict[str, Any]:
    last = {"terminated": {"startedAt": began or None, "finishedAt": ended}} if ended else {}
    container = {"restartCount": restarts, "lastState": last}
    status = {"conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [container]}
    return {"metadata": {"labels": {"app.kubernetes.io/name": name}}, "status": status}


@pytest.mark.parametrize(
    ("owners", "pods", "expected"),
    [
        ({}, [], []),
        ({CONTROLLER: None, REPO_SERVER: None}, [], []),
        ({CONTROLLER: owner()}, [], []),
        ({CONTROLLER: owner(2, observedGeneration=1)}, [], [Workload(CONTROLLER, 2, 0)]),
        ({CONTROLLER: owner(None, observedGeneration=1, readyReplicas=1)}, [], [Workload(CONTROLLER, 1, 1)]),
        ({}, [pod(REDIS)], [Workload(REDIS, 1, 1)]),
        ({}, [pod(REDIS, "False")], [Workload(REDIS, 1, 0)]),
        ({}, [pod("argocd-server", "False")], []),
        ({}, [pod(REPO_SERVER, restarts=3, ended=ago(minutes=9))], [Workload(REPO_SERVER, 1, 1, 1)]),
        ({}, [pod(REPO_SERVER, restarts=3, ended=ago(minutes=11))], [Workload(REPO_SERVER, 1, 1)]),
        ({}, [pod(REPO_SERVER, restarts=2, ended=ago(minutes=1))], [Workload(REPO_SERVER, 1, 1)]),
        ({}, [pod(REPO_SERVER, "True", 3, ago(minutes=1), ago(minutes=30))], [Workload(REPO_SERVER, 1, 1, 1)]),
        ({}, [pod(REPO_SERVER, "True", 3, ago(minutes=1), ago(days=90))], [Workload(REPO_SERVER, 1, 1)]),
    ],
    ids=[
        "nothing", "no such objects", "an object that nobody looks after", "none ready", "one by default",
        "pods without an owner", "pods that are not ready", "what does not concern us", "restarts of late",
        "restarts of before", "few restarts", "restarts each half hour", "a restart after months",
    ],
)  # fmt: skip
def test_workloads_when_looked_at_then_those_that_are_to_be_seen_are_counted(
    owners: dict[str, Any], pods: list[Any], expected: list[Workload]
) -> None:
    assert [*workloads_of(owners, pods, NOW)] == expected
