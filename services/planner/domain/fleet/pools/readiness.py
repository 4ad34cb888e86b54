"""Instances that were added: when one is ready for tenants, and when it has failed. Pure.

An instance is ready when its agent reports that it works. If a provisioner installs it, its agent also has to report
that the heartbeat Application was compared, because nobody else has seen that Argo CD works. An instance that was
installed by hand may have agents without a heartbeat.

An instance that is not ready in time has failed. Operators see why: it was not installed, its namespace does not exist,
or no agent serves it. It is not given up: once it is ready after all, for example because the cause was mended, tenants
are placed on it. If its engine cluster is draining by then, the instance drains with the cluster.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.common.messages import InstallationPhase
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow

ADVICE = "mend that, and it is used; or retire it, and add another"


def decide_readiness(fleet: Fleet, now: datetime, patience: timedelta) -> Fleet:
    """The fleet with each instance that was never ready in the state that follows from what was reported of it.

    Args:
        fleet: all rows.
        now: the time.
        patience: how long it may take until an instance is ready.
    """
    for row in tuple(fleet.instances.values()):
        after = _with_state(row, fleet, now, patience) if row.is_unready else row
        if after != row:
            fleet = fleet.with_instance(after)
    return fleet


def _with_state(row: EngineInstanceRow, fleet: Fleet, now: datetime, patience: timedelta) -> EngineInstanceRow:
    health = fleet.health.get(row.id)
    if health is not None and is_ready(row, health):
        return replace(_in_service(row, fleet.clusters[row.engine_cluster]), due_at=None, state_message=None)
    if row.state == "failed":
        return row
    installation = fleet.installations.get(row.id)
    if installation is not None and installation.phase == InstallationPhase.FAILED.value:
        return replace(row, state="failed", due_at=None, state_message=f"{installation.message}; {ADVICE}")
    if row.due_at is None:
        return replace(row, due_at=now + patience)
    if row.due_at > now:
        return row
    why = why_unready(row, fleet)
    message = f"it was not ready by {row.due_at.isoformat(timespec='seconds')}: {why}; {ADVICE}"
    return replace(row, state="failed", due_at=None, state_message=message)


def _in_service(row: EngineInstanceRow, cluster: EngineClusterRow) -> EngineInstanceRow:
    """The row of an instance that accepts tenants from now on, or drains with its cluster.

    In the latter case it has the time of the order that drains the cluster, so that to undrain the cluster undrains the
    instance.
    """
    if cluster.state == "active":
        return replace(row, state="accepting")
    return replace(row, state="draining", ordered_at=max(row.ordered_at, cluster.ordered_at))


def is_ready(row: EngineInstanceRow, health: InstanceHealth) -> bool:
    """Whether tenants may be placed on an instance with this health."""
    return health.is_working and (health.heartbeat_at is not None or row.wanted_version is None)


def why_unready(row: EngineInstanceRow, fleet: Fleet) -> str:
    """What keeps an instance from being ready, in words for operators: its installation, or its health."""
    installation = fleet.installations.get(row.id)
    if installation is not None and installation.message:
        return installation.message
    return _lacking_health(row, fleet.health.get(row.id))


def _lacking_health(row: EngineInstanceRow, health: InstanceHealth | None) -> str:
    """What keeps an instance with this health from being ready, in words for operators; None: none was reported."""
    if health is None:
        return f"no agent of engine cluster {row.engine_cluster} has told how it is"
    if is_ready(row, health):
        return "no planner has looked at it since its agent told that it works"
    if health.is_working:
        return "its agents have no heartbeat Application (HEARTBEAT_REPOSITORY)"
    why = f", {health.reason}" if health.reason else ""
    return f"in namespace {row.namespace} it is {health.health}{why}{': ' if health.message else ''}{health.message}"
