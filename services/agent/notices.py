"""A cluster secret that was taken away stays for a short notice, as long as Applications go to its cluster.

Argo CD removes what an Application has deployed only while it knows the cluster; otherwise it leaves that behind. A
namespace that is deleted loses its resources one by one and in any order, so that the Applications may be told to go a
moment after their cluster secret was. Once they are, the secret waits for them like any object of a lower wave.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from services.agent.clock import Clock
from services.agent.live_objects import LiveObjects
from services.agent.objects import LiveObject, ObjectKey
from services.common.kube import APPLICATION

NOTICE = timedelta(seconds=20)
"""Longer than a namespace's resources take to go, and short: the secret may have been taken away on purpose."""


class Notices:
    """Of the secrets of one instance."""

    def __init__(self, live: LiveObjects, clock: Clock) -> None:
        self._live, self._clock = live, clock
        self._begun: dict[ObjectKey, datetime] = {}

    def end(self, key: ObjectKey) -> datetime | None:
        """Until when the secret ``key`` stays; None if it may go. The notice begins when it is first asked for."""
        end = self._begun.setdefault(key, self._clock.now()) + NOTICE
        return end if self._clock.now() < end and key in self._live and self._is_used(key) else None

    def forget(self, key: ObjectKey) -> None:
        """It is gone, or wanted again."""
        self._begun.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._begun.clear()

    def _is_used(self, key: ObjectKey) -> bool:
        applications = (self._live.get(each) for each in self._live if each.kind == APPLICATION.kind)
        return any(live is not None and _cluster_of(live) == key.name for live in applications)


def _cluster_of(application: LiveObject) -> str:
    destination = application.owned.get("spec", {}).get("destination") or {}
    return str(destination.get("name", ""))
