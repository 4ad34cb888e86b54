"""Orphans that are most of what is there, on a real API server: kept, told, and gone once they are approved."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from services.common.kubernetes import APP_PROJECT, KubeClient, NotFound
from services.common.messages import ORPHAN_REMOVAL, OrphansKept
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import EngineLog, Observations, app_project, row

NAMES = [f"project-{number}" for number in range(3)]
GRACE = {"ORPHAN_GRACE_SECONDS": "1", "COMPARISON_INTERVAL_SECONDS": "1"}


def approval(*names: str) -> dict[str, Any]:
    """An operator's, as the planner makes it."""
    manifest = {
        "kind": ORPHAN_REMOVAL,
        "metadata": {"namespace": "", "name": "digest"},
        "objects": [f"AppProject/{name}" for name in names],
    }
    return row(INSTANCE, manifest) | {
        "workspace": "",
        "tenant_namespace": "",
        "lane": "",
        "manifest": json.dumps(manifest),
    }


def told(observations: Observations) -> Callable[[OrphansKept], bool]:
    """Whether the agent's newest report says so."""

    def is_told(expected: OrphansKept) -> bool:
        found = [each.event for each in observations.read() if isinstance(each.event, OrphansKept)]
        return bool(found) and found[-1] == expected

    return is_told


async def exists(kube: KubeClient, namespace: str, name: str) -> bool:
    try:
        await kube.get_object(APP_PROJECT, namespace, name)
    except NotFound:
        return False
    return True


async def test_orphans_when_exactly_they_are_approved_then_they_go_and_what_was_not_approved_stays(
    start_agent: StartAgent, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    start_agent({INSTANCE: namespace}, **GRACE)
    rows = [row(INSTANCE, app_project(name, namespace)) for name in NAMES]
    engine_log.write(*rows)
    until(lambda: all(observations.of(name) for name in NAMES))
    engine_log.write(*(each | {"__deleted": "true"} for each in rows))
    is_told = told(observations)
    until(lambda: is_told(OrphansKept(3, 3, tuple(f"AppProject/{name}" for name in NAMES), ())))
    assert [await exists(kube, namespace, name) for name in NAMES] == [True, True, True]

    engine_log.write(approval(*NAMES[:2]))
    left = OrphansKept(1, 1, (f"AppProject/{NAMES[2]}",), ("digest",))
    until(lambda: is_told(left))
    assert [await exists(kube, namespace, name) for name in NAMES] == [False, False, True]
    engine_log.write(approval(*NAMES[:2]) | {"__deleted": "true"})
    until(lambda: is_told(OrphansKept(1, 1, (f"AppProject/{NAMES[2]}",), ())))
