"""Instances that were added: when one is ready for tenants, and when it has failed. Pure.

It is ready when its agent tells that it works. Of one that a provisioner installs it also has to tell that the
heartbeat Application was compared, because nobody else has seen that Argo CD work; where somebody else looks after an
instance its agents may have no heartbeat. One that is not ready in time has failed; operators are told why: it was not
installed, its namespace is not there, no agent serves it. It is not given up for that: if it becomes ready after all,
as when its cause was mended, tenants are placed on it. While its engine cluster is drained, it is drained with that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.common.messages import InstallationPhase
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, InstanceHealth

ADVICE = "mend that, and it is used; or retire it, and add another"


def check_readiness(fleet: Fleet, now: datetime, patience: timedelta) -> Fleet:
    """With each instance that was never ready in the state that follows from what agents have told.

    Args:
        fleet: all rows.
        now: the time.
        patience: how long it may take until an instance is ready.
    """
    for row in tuple(fleet.instances.values()):
        checked = _checked(row, fleet, now, patience) if row.is_unready else row
        if checked != row:
            fleet = fleet.with_instance(checked)
    return fleet


def _checked(row: EngineInstanceRow, fleet: Fleet, now: datetime, patience: timedelta) -> EngineInstanceRow:
    told = fleet.health.get(row.id)
    if told is not None and is_ready(row, told):
        return replace(_ready(row, fleet.clusters[row.engine_cluster]), due_at=None, state_message=None)
    if row.state == "failed":
        return row
    if (found := fleet.installations.get(row.id)) is not None and found.phase == InstallationPhase.FAILED.value:
        return replace(row, state="failed", due_at=None, state_message=f"{found.message}; {ADVICE}")
    if row.due_at is None:
        return replace(row, due_at=now + patience)
    if row.due_at > now:
        return row
    why = why_unready(row, fleet)
    message = f"it was not ready by {row.due_at.isoformat(timespec='seconds')}: {why}; {ADVICE}"
    return replace(row, state="failed", due_at=None, state_message=message)


def _ready(row: EngineInstanceRow, cluster: EngineClusterRow) -> EngineInstanceRow:
    """In service, or drained with its cluster: by the order that has drained that, so that undraining it counts."""
    if cluster.state == "active":
        return replace(row, state="accepting")
    return replace(row, state="draining", ordered_at=max(row.ordered_at, cluster.ordered_at))


def is_ready(row: EngineInstanceRow, told: InstanceHealth) -> bool:
    """Whether tenants may be placed on an instance of which this was told."""
    return told.is_working and (told.heartbeat_at is not None or row.wanted_version is None)


def why_unready(row: EngineInstanceRow, fleet: Fleet) -> str:
    """What keeps an instance from being ready: its installation, or what its agent has told, as operators are told."""
    found = fleet.installations.get(row.id)
    return found.message if found is not None and found.message else lacking(row, fleet.health.get(row.id))


def lacking(row: EngineInstanceRow, told: InstanceHealth | None) -> str:
    """What keeps an instance of which this was told from being ready, as operators are told."""
    if told is None:
        return f"no agent of engine cluster {row.engine_cluster} has told how it is"
    if is_ready(row, told):
        return "no planner has looked at it since its agent told that it works"
    if told.is_working:
        return "its agents have no heartbeat Application (HEARTBEAT_REPOSITORY)"
    why = f", {told.reason}" if told.reason else ""
    return f"in namespace {row.namespace} it is {told.health}{why}{': ' if told.message else ''}{told.message}"
