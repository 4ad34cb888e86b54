"""Rows by which an instance's agent is told to do something that is of no tenant. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from services.common.json_values import canonical, digest
from services.kinds.shared.resource import Cause
from services.planner.rows import EngineKey, EngineRow

NOBODY = UUID(int=0)
"""Whom such a row is for."""


def agent_order(key: EngineKey, content: Mapping[str, Any], cause: Cause) -> EngineRow:
    """The row under ``key`` that tells the agent of ``content``."""
    manifest = canonical(content)
    return EngineRow(
        engine_instance_id=key.engine_instance_id,
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        workspace="",
        tenant_namespace="",
        lane=key.lane,
        wave=0,
        desired="present",
        manifest=manifest,
        digest=digest(manifest),
        trace_id=cause.trace_id,
        seen_at=cause.at,
        owner_kind="",
        owner_id=NOBODY,
    )
