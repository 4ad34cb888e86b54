"""Orphans: objects of ours that no row desires. Deleted only after a grace period, and only if they are few.

Called only while this agent owns the instance's partition and its desired state is complete. If the desired state was
lost, every object is an orphan: so a great share of the objects is reported, never deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import structlog

from services.agent.objects.managed_kinds import ObjectKey

log = structlog.get_logger(__name__)

SHARE = 0.1
ALWAYS_ALLOWED = 10


class Orphans:
    """Orphans of one instance, and since when."""

    def __init__(self, grace: timedelta) -> None:
        self._grace = grace
        self._since: dict[ObjectKey, datetime] = {}
        self._deletable: set[ObjectKey] = set()

    def find_due(self, unwanted: Iterable[ObjectKey], existing: int, now: datetime) -> Collection[ObjectKey]:
        """Those of ``unwanted`` whose grace period has ended, of ``existing`` objects in all; no others may go."""
        self._since = {key: self._since.get(key, now) for key in unwanted}
        guarded = len(self._since) > max(ALWAYS_ALLOWED, SHARE * existing) or len(self._since) == existing
        if self._since:
            log.warning("objects that no row desires", count=len(self._since), existing=existing, kept=guarded)
        due = () if guarded else (key for key, since in self._since.items() if now - since >= self._grace)
        self._deletable = set(due)
        return self._deletable

    def may_delete(self, key: ObjectKey) -> bool:
        """Whether it may be deleted although no row says so."""
        return key in self._deletable

    def keep_object(self, key: ObjectKey) -> None:
        """It is gone, or a row is about it again."""
        self._since.pop(key, None)
        self._deletable.discard(key)

    def clear(self) -> None:
        """The instance is no longer this agent's."""
        self._since.clear()
        self._deletable.clear()
