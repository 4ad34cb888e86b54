"""What a world's rows of one tenant say, and what its agents report: short to write in tests."""

from __future__ import annotations

import json
from typing import Any

from services.common.messages import Checked, SyncMoved
from services.planner.rows.compiled import EngineRow
from tests.unit.planner.given import ENVIRONMENT, SYNC_RUN, observed, spec
from tests.unit.planner.world import World

REMOTE = spec(destination={"environment": "prod", "namespace": "web"})
MANUAL = spec(type="manual")


def rows(world: World, kind: str) -> list[EngineRow]:
    return [row for row in world.engine.values() if row.kind == kind]


def row(world: World, kind: str) -> EngineRow:
    (found,) = rows(world, kind)
    return found


def manifest(world: World, kind: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(row(world, kind).manifest)
    return content


def conditions(world: World, kind: str, name: str) -> dict[str, tuple[str, str, str]]:
    (found,) = [known for known in world.workspace.values() if (known.kind, known.name) == (kind, name)]
    listed = json.loads(found.status).get("conditions", [])
    return {item["type"]: (item["status"], item["reason"], item["message"]) for item in listed}


def operation(world: World, name: str) -> dict[str, Any]:
    (found,) = [known for known in world.workspace.values() if (known.kind, known.name) == (SYNC_RUN, name)]
    part: dict[str, Any] = json.loads(found.status).get("operation", {})
    return part


def says(world: World, second: int, event: Any, kind: str) -> None:
    about = row(world, kind)
    world.take(observed(second, event, instance=about.engine_instance_id, kind=kind, name=about.name))


def check(world: World, second: int, reason: str = "Succeeded", kind: str = "ClusterSecret") -> None:
    says(world, second, Checked(row(world, kind).digest, reason, "" if reason == "Succeeded" else "why"), kind)


def moved(run: str, phase: str, **times: str) -> SyncMoved:
    return SyncMoved(f"uid-{run}", phase, "", "abc", times.get("started", ""), times.get("finished", ""))


def finish(world: World, second: int, run: str) -> None:
    ended = moved(run, "Succeeded", started="2026-05-04T12:00:00Z", finished="2026-05-04T12:00:01Z")
    says(world, second, ended, "SyncOperation")


def environment_id(world: World) -> str:
    """Of the only environment."""
    (found,) = [known for known in world.resources.values() if known.kind == ENVIRONMENT]
    return str(found.id)
