"""Each sync run took place exactly once, or says why it did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chaos.api import REFUSALS
from chaos.checker.difference import Difference
from chaos.checker.tenants import Tenant
from chaos.record import Record, version_of
from services.common.kubernetes import Manifest

TERMINATED_FOR_MOVE = "because your namespace moves to another GitOps engine"
"""What a run says that a move has waited for in vain; it may not even have begun."""
UNSETTLED = {"Running", "Terminating", None}


def sync_run_differences(tenants: Sequence[Tenant], record: Record) -> Iterator[Difference]:
    """Of all runs that were ever asked for, and of those that are there."""
    for uid in record.starts.runs:
        if (count := record.starts.count(uid)) > 1:
            _, namespace, name = record.names.get(uid, ("", "", uid))
            times = ", ".join(record.starts.times(uid))
            yield Difference("sync", f"run {namespace}/{name}", f"it took place {count} times: {times}", namespace)
    for tenant in tenants:
        for run in tenant.own(tenant.world.runs):
            if text := _problem(run, tenant, record):
                name = f"run {tenant.name}/{run['metadata']['name']}"
                yield Difference("sync", name, text, tenant.name)


def count_strict(tenants: Sequence[Tenant], record: Record) -> int:
    """How many runs that are there must have succeeded unless the API server failed, and been seen to start once."""
    return sum(
        _must_succeed(run, tenant, record) and _was_witnessed(run, record)
        for tenant in tenants
        for run in tenant.own(tenant.world.runs)
    )


def _problem(run: Manifest, tenant: Tenant, record: Record) -> str:
    status = run.get("status") or {}
    operation: dict[str, Any] = status.get("operation") or {}
    phase = operation.get("phase")
    if _must_succeed(run, tenant, record):
        if phase == "Failed" and TERMINATED_FOR_MOVE in operation.get("message", ""):
            return ""
        # Argo CD does not try again what failed because the API server did; then that is what has to be shown.
        if phase != "Succeeded" and not record.starts.was_failed(run["metadata"]["uid"], phase or ""):
            return f"it is {phase}, not Succeeded: {operation.get('message')}"
        was_seen = record.starts.count(run["metadata"]["uid"]) > 0
        return "" if was_seen or not _was_witnessed(run, record) else f"it is {phase}, and nobody saw it run"
    if status.get("conditions") is None:
        return "it has no status"
    has_error = any(each["type"] == "ErrorOccurred" and each["status"] == "True" for each in status["conditions"])
    if phase in UNSETTLED and not has_error:
        return f"it is {phase}: {operation.get('message')}"
    return ""


def _must_succeed(run: Manifest, tenant: Tenant, record: Record) -> bool:
    """Its deployment was there, never refused, always manual and in its own namespace, and nobody touched it."""
    asked = record.runs.get(run["metadata"]["uid"])
    if asked is None or not asked.deployment or asked.deployment in record.disturbed:
        return False
    if not any(each.uid == asked.deployment for each in tenant.deployments):
        return False
    return all(
        spec["type"] == "manual"
        and not (spec.get("destination") or {}).get("environment")
        and spec["source"]["path"] not in REFUSALS
        for spec in record.contents[asked.deployment]
    )


def _was_witnessed(run: Manifest, record: Record) -> bool:
    """Somebody watched from when it was asked for until its status was written last, which is after its end."""
    asked_at = record.runs[run["metadata"]["uid"]].version
    return not any(gap.overlaps(asked_at, version_of(run)) for gap in record.witness_gaps)
