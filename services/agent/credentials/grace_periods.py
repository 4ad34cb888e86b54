"""Keeps a deleted cluster Secret for a short grace period while Applications still use its cluster.

Argo CD deletes what an Application has deployed only while it knows the cluster; otherwise the resources stay behind.
When a namespace is deleted its resources go one by one in any order, so an Application may be deleted a moment after
its cluster Secret. Once it is, the Secret waits for it like any object of a later wave.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from services.agent.objects.live import EngineObjects, LiveObject
from services.agent.objects.managed_kinds import ObjectKey
from services.common.clock import Clock
from services.common.kubernetes import APPLICATION

GRACE_PERIOD = timedelta(seconds=20)
"""Longer than the deletion of a namespace takes, and short: the Secret may have been deleted on purpose."""


class GracePeriods:
    """Grace periods of one instance's cluster Secrets."""

    def __init__(self, live: EngineObjects, clock: Clock) -> None:
        self._live, self._clock = live, clock
        self._begun: dict[ObjectKey, datetime] = {}

    def end(self, key: ObjectKey) -> datetime | None:
        """Until when the Secret ``key`` stays; None if it may be deleted. The first call starts the grace period."""
        end = self._begun.setdefault(key, self._clock.now()) + GRACE_PERIOD
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
