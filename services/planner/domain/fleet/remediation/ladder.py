"""The ladder: which remedies may help an instance, by what is wrong with it, and in which order. Pure.

A rung is one of them (``rungs.py``). Agents compare Applications anew, and restart the controller, the repo server or
the cache. A provisioner makes the settings and workloads of an instance anew. The planner itself cordons an instance,
so that no tenant comes to it, evacuates it, and replaces it.

An instance that is degraded still deploys: all rungs that may help are tried, and it is cordoned if none did. An
instance that is down deploys nothing new, so its tenants wait for one remedy only: it is cordoned, the first rung that
may help is tried, and then it is evacuated. The other rungs are tried while its tenants leave, and at last it is
replaced. ``next_remedy.py`` decides which rung is tried when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from services.planner.domain.fleet.remediation.rungs import (
    CORDON,
    EVACUATE,
    FLUSH_CACHE,
    REAPPLY,
    REFRESH,
    REPLACE,
    RESTART_CONTROLLER,
    RESTART_REPO_SERVER,
    Rung,
)
from services.planner.domain.fleet.reports.report_rows import SILENT, InstanceHealth

EVERYTHING = (REFRESH, RESTART_CONTROLLER, RESTART_REPO_SERVER, FLUSH_CACHE, REAPPLY)
"""What is tried for a reason that tells little of the cause: first what disturbs least."""
HELPS: Mapping[str, Sequence[Rung]] = MappingProxyType(
    {
        "ControllerNotReady": (RESTART_CONTROLLER, REAPPLY),
        "RepoServerNotReady": (RESTART_REPO_SERVER, REAPPLY),
        "RedisNotReady": (FLUSH_CACHE, REAPPLY),
        "Restarting": (FLUSH_CACHE, REAPPLY),
        "HeartbeatLost": EVERYTHING,
        "HeartbeatLate": EVERYTHING,
        "HeartbeatFailing": (REFRESH, RESTART_REPO_SERVER, FLUSH_CACHE, REAPPLY),
        "RepoServerFailing": (RESTART_REPO_SERVER, FLUSH_CACHE, REAPPLY),
        "ReconciliationLate": EVERYTHING,
        "RefreshNotTakenUp": EVERYTHING,
        "OtherVersion": (REAPPLY,),
        "NotAccepted": (REAPPLY,),
        "Closed": (REAPPLY,),
        "ApiFailing": (),
        "ApiSlow": (),
        SILENT: (),
    }
)
"""What an agent or a provisioner can do, by the health reason; first what helps most often. Against other reasons they
can do nothing."""


def next_rung(health: InstanceHealth, tried: Iterable[str]) -> Rung | None:
    """The first rung that may help and was not tried, by its name; None if there is none."""
    done = set(tried)
    return next((rung for rung in _rungs_for(health) if rung.name not in done), None)


def _rungs_for(health: InstanceHealth) -> tuple[Rung, ...]:
    """The rungs for what is wrong, in their order."""
    helps = HELPS.get(health.reason, ())
    if not health.is_down:
        return (*helps, CORDON)
    helps = [rung for rung in helps if rung.helps_while_down]
    return (CORDON, *helps[:1], EVACUATE, *helps[1:], REPLACE)


def is_evacuation_due(health: InstanceHealth, tried: Iterable[str]) -> bool:
    """Whether an instance is evacuated, or its evacuation is the next rung."""
    rungs = {*tried}
    return health.is_down and (EVACUATE.name in rungs or next_rung(health, rungs) == EVACUATE)
