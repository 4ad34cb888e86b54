"""Objects of ours that no row desires: deleted only when that is certain, for some time, and not too many at once.

Certain means: this agent owns the instance's partition, its desired state is complete, and that state knows rows of
the instance at all. A desired state that was lost makes everything an orphan: so a great share is reported, never
deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import structlog

from services.agent.objects import ObjectKey

log = structlog.get_logger(__name__)

SHARE = 0.1
ALWAYS_ALLOWED = 10


class Orphans:
    """Candidates of one instance and since when they are."""

    def __init__(self, grace: timedelta) -> None:
        self._grace = grace
        self._since: dict[ObjectKey, datetime] = {}
        self._condemned: set[ObjectKey] = set()

    def due(self, unwanted: Iterable[ObjectKey], existing: int, now: datetime) -> Iterator[ObjectKey]:
        """Those of ``unwanted`` that shall be deleted now, of ``existing`` objects in all."""
        self._since = {key: self._since.get(key, now) for key in unwanted}
        if not self._since:
            return
        guarded = len(self._since) > max(ALWAYS_ALLOWED, SHARE * existing) or len(self._since) == existing
        log.warning("objects that no row desires", count=len(self._since), existing=existing, kept=guarded)
        if guarded:
            return
        for key, since in self._since.items():
            if now - since >= self._grace:
                self._condemned.add(key)
                yield key

    def condemned(self, key: ObjectKey) -> bool:
        """It may be deleted without a row that says so."""
        return key in self._condemned

    def spare(self, key: ObjectKey) -> None:
        """It is gone, or a row speaks of it again."""
        self._since.pop(key, None)
        self._condemned.discard(key)

    def forget(self) -> None:
        """The instance is no longer ours to judge."""
        self._since.clear()
        self._condemned.clear()
