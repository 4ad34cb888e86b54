"""The ladder: which remedies may help an instance, by what is wrong with it, and in which order. Pure.

A rung is one of them. An agent carries out :class:`Remedy`: Applications are compared anew, the controller, the repo
server, the cache are restarted. :data:`REAPPLY` is of the provisioner that has installed the instance: it makes its
settings and workloads anew; of one that was installed by hand nobody does. The planner itself does the others: it
cordons the instance, so that no tenant comes to it, evacuates it, and replaces it.

An instance that is degraded still deploys: all that may help is tried, and it is cordoned if nothing did. One that is
down deploys nothing new for its tenants, who wait for no more than one remedy: it is cordoned, the first that may help
is tried, and then it is evacuated. The other remedies are tried while its tenants leave. What is tried, and when, is
decided in ``next_remedy.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from services.common.messages import Remedy
from services.planner.domain.fleet.reports.report_rows import SILENT, InstanceHealth

REAPPLY, CORDON, EVACUATE, REPLACE = "ReapplyConfiguration", "Cordon", "Evacuate", "Replace"
EVERYTHING = (*Remedy, REAPPLY)
HELPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "ControllerNotReady": (Remedy.RESTART_CONTROLLER, REAPPLY),
        "RepoServerNotReady": (Remedy.RESTART_REPO_SERVER, REAPPLY),
        "RedisNotReady": (Remedy.FLUSH_CACHE, REAPPLY),
        "Restarting": (Remedy.FLUSH_CACHE, REAPPLY),
        "HeartbeatLost": EVERYTHING,
        "HeartbeatLate": EVERYTHING,
        "HeartbeatFailing": (
            Remedy.REFRESH,
            Remedy.RESTART_REPO_SERVER,
            Remedy.FLUSH_CACHE,
            REAPPLY,
        ),
        "RepoServerFailing": (Remedy.RESTART_REPO_SERVER, Remedy.FLUSH_CACHE, REAPPLY),
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
"""What an agent or a provisioner can do, by the reason that is told, first what helps most often. Of another reason,
nothing."""


def next_rung(health: InstanceHealth, tried: Iterable[str]) -> str:
    """The first rung that may help and was not tried; empty if there is none."""
    done = set(tried)
    return next((rung for rung in _ladder(health) if rung not in done), "")


def _ladder(health: InstanceHealth) -> tuple[str, ...]:
    """The rungs for what is wrong, in their order. What compares nothing at all takes up no refresh, either."""
    helps = HELPS.get(health.reason, ())
    if not health.is_down:
        return (*helps, CORDON)
    helps = [rung for rung in helps if rung != Remedy.REFRESH]
    return (CORDON, *helps[:1], EVACUATE, *helps[1:], REPLACE)


def is_evacuation_due(health: InstanceHealth, tried: Iterable[str]) -> bool:
    """Whether tenants leave an instance, or may leave it as the next thing that is done."""
    rungs = {*tried}
    return health.is_down and (EVACUATE in rungs or next_rung(health, rungs) == EVACUATE)


def takes_turn(rung: str) -> bool:
    """Whether others of the ring wait while it is carried out.

    To cordon or to evacuate does nothing to the instance itself, and tenants may take long to leave.
    """
    return rung not in (CORDON, EVACUATE)
