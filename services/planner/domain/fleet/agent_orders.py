"""Rows that order an instance's agent to do something that concerns no tenant. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from services.common.json_values import canonical, digest
from services.kinds.shared.resource import Cause
from services.planner.rows.compiled import EngineKey, EngineRow

NOBODY = UUID(int=0)
"""In place of the id of a tenant or a deployment, in a row that is of none."""


def agent_order(key: EngineKey, content: Mapping[str, Any], cause: Cause) -> EngineRow:
    """The row under ``key`` that tells the agent of ``content``: it is streamed as rows of tenants' objects are."""
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
