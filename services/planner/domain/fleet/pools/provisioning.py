"""Instances that are installed first: when one is ready for tenants, and when it has failed. Pure.

It is ready when its agent tells that it is healthy and that its heartbeat Application was compared: its Argo CD is
there, as it has to be, and does its work. One that is not ready in time has failed; operators are told why. It is not
given up for that: if it becomes ready after all, as when its cause was mended, tenants are placed on it. While its
engine cluster is drained, it is drained with that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.common.messages import InstallationPhase
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, InstanceHealth

ADVICE = "mend that, and it is used; or retire it, and add another"


def settle_provisioning(fleet: Fleet, now: datetime, patience: timedelta) -> Fleet:
    """With each instance that is being installed in the state that follows from what agents have told.

    Args:
        fleet: all rows.
        now: the time.
        patience: how long an installation may take.
    """
    for row in tuple(fleet.instances.values()):
        settled = _settled(row, fleet, now, patience) if row.is_unready else row
        if settled != row:
            fleet = fleet.with_instance(settled)
    return fleet


def _settled(row: EngineInstanceRow, fleet: Fleet, now: datetime, patience: timedelta) -> EngineInstanceRow:
    told = fleet.health.get(row.id)
    if told is not None and is_ready(told):
        return replace(_ready(row, fleet.clusters[row.engine_cluster]), due_at=None, state_message=None)
    if row.state == "failed":
        return row
    if (found := fleet.installations.get(row.id)) is not None and found.phase == InstallationPhase.FAILED.value:
        return replace(row, state="failed", due_at=None, state_message=f"{found.message}; {ADVICE}")
    if row.due_at is None:
        return replace(row, due_at=now + patience)
    if row.due_at > now:
        return row
    lacking = found.message if found is not None and found.message else _lacking(told)
    message = f"it was not ready by {row.due_at.isoformat(timespec='seconds')}: {lacking}; {ADVICE}"
    return replace(row, state="failed", due_at=None, state_message=message)


def _ready(row: EngineInstanceRow, cluster: EngineClusterRow) -> EngineInstanceRow:
    """In service, or drained with its cluster: by the order that has drained that, so that undraining it counts."""
    if cluster.state == "active":
        return replace(row, state="accepting")
    return replace(row, state="draining", ordered_at=max(row.ordered_at, cluster.ordered_at))


def is_ready(told: InstanceHealth) -> bool:
    """Whether tenants may be placed on an instance of which this was told."""
    return told.is_working and told.heartbeat_at is not None


def _lacking(told: InstanceHealth | None) -> str:
    if told is None:
        return "no agent has told how it is"
    if told.is_working:
        return "its agents have no heartbeat Application (HEARTBEAT_REPOSITORY)"
    why = f", {told.reason}" if told.reason else ""
    return f"it is {told.health}{why}{': ' if told.message else ''}{told.message}"
