"""Each sync run took place exactly once, or says why it did not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaos.checker.difference import Difference
from chaos.checker.tenants import Tenant
from chaos.record import Record
from services.common.kubernetes import Manifest

UNSETTLED = {"Running", "Terminating", None}


def sync_run_differences(tenants: list[Tenant], record: Record) -> Iterator[Difference]:
    """Of all runs that were ever asked for, and of those that are there."""
    for uid, starts in record.starts.items():
        if len(starts) > 1:
            _, namespace, name = record.names.get(uid, ("", "", uid))
            times = ", ".join(sorted(starts))
            yield Difference(
                "sync", f"run {namespace}/{name}", f"it took place {len(starts)} times: {times}", namespace
            )
    for tenant in tenants:
        for run in tenant.own(tenant.world.runs):
            if text := _problem(run, tenant, record):
                name = f"run {tenant.name}/{run['metadata']['name']}"
                yield Difference("sync", name, text, tenant.name)


def _problem(run: Manifest, tenant: Tenant, record: Record) -> str:
    uid, status = run["metadata"]["uid"], run.get("status") or {}
    operation: dict[str, Any] = status.get("operation") or {}
    phase = operation.get("phase")
    if _must_succeed(uid, tenant, record):
        if phase != "Succeeded":
            return f"it is {phase}, not Succeeded: {operation.get('message')}"
        seen = record.starts.get(uid, set())
        return "" if seen or record.witness_gaps else "it is Succeeded, and nobody saw it run"
    if status.get("conditions") is None:
        return "it has no status"
    has_error = any(each["type"] == "ErrorOccurred" and each["status"] == "True" for each in status["conditions"])
    if phase in UNSETTLED and not has_error:
        return f"it is {phase}: {operation.get('message')}"
    return ""


def _must_succeed(uid: str, tenant: Tenant, record: Record) -> bool:
    """Its deployment was there, as it was made always manual and in its own namespace, and nobody touched it."""
    asked = record.runs.get(uid)
    if asked is None or not asked.deployment or asked.deployment in record.disturbed:
        return False
    if not any(each.uid == asked.deployment for each in tenant.deployments):
        return False
    return all(
        spec["type"] == "manual" and not (spec.get("destination") or {}).get("environment")
        for spec in record.contents[asked.deployment]
    )
