"""Orphans: objects of ours that no row desires. They are deleted after a grace period, and only if they are few.

Used only while this agent owns the instance's partition and its desired state is complete. If the desired state was
lost, every object is an orphan. So a great share of the objects is kept and reported, and deleted only after an
operator has approved exactly these objects by name. An approval is a row of the instance. It is in force until none of
its objects is an orphan any more; the agent reports that, and the planner withdraws the approval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import orjson
import structlog

from services.agent.objects.managed_kinds import ObjectKey
from services.common.errors import Permanent
from services.common.json_values import dict_of
from services.common.messages import EngineResource, OrphansKept

log = structlog.get_logger(__name__)

SHARE = 0.1
ALWAYS_ALLOWED = 10
APPROVED_AT_ONCE = 5000
"""How many objects one approval covers. If more are kept, it covers the first of them."""

Name = str
"""Kind and name of an object, as ``kind/name``."""


class Orphans:
    """The orphans of one instance, since when each is one, and which removals are approved."""

    def __init__(self, grace: timedelta) -> None:
        self._grace = grace
        self._since: dict[ObjectKey, datetime] = {}
        self._deletable: set[ObjectKey] = set()
        self._approved: dict[str, frozenset[Name]] = {}
        """Approved objects by the digest of the approval."""
        self._kept: tuple[Name, ...] = ()
        self._existing = 0
        self._is_news = False
        """Whether the last report named kept orphans."""

    def find_due(self, unwanted: Iterable[ObjectKey], existing: int, now: datetime) -> Collection[ObjectKey]:
        """Returns the orphans among ``unwanted`` that may be deleted now; ``existing`` is the number of all objects.

        Their grace period has ended, and they are few, or approved.
        """
        self._since, self._existing = {key: self._since.get(key, now) for key in unwanted}, existing
        guarded = len(self._since) > max(ALWAYS_ALLOWED, SHARE * existing) or len(self._since) == existing
        if self._since:
            log.warning("objects that no row desires", count=len(self._since), existing=existing, kept=guarded)
        due = {key for key, since in self._since.items() if now - since >= self._grace}
        approved = frozenset[Name]().union(*self._approved.values())
        kept = {key for key in due if name_of(key) not in approved} if guarded else set()
        self._deletable, self._kept = due - kept, tuple(sorted(map(name_of, kept)))
        return self._deletable

    def report(self) -> OrphansKept | None:
        """The report to operators; None if nothing is kept, was reported as kept, or is approved."""
        there = {name_of(key) for key in self._since}
        finished = sorted(digest for digest, names in self._approved.items() if not names & there)
        if not (self._kept or self._is_news or finished):
            return None
        self._is_news = bool(self._kept)
        return OrphansKept(self._existing, len(self._kept), self._kept[:APPROVED_AT_ONCE], tuple(finished))

    def approve_removal(self, row: EngineResource) -> None:
        """Approve the removal of the objects that ``row`` names. Raises Permanent if it names none."""
        self._approved[row.name] = approved_objects(row)

    def withdraw_approval(self, row: EngineResource) -> None:
        """Withdraw an approval."""
        self._approved.pop(row.name, None)

    def may_delete(self, key: ObjectKey) -> bool:
        """Whether the object may be deleted although no row says so."""
        return key in self._deletable

    def forget_object(self, key: ObjectKey) -> None:
        """Forget an object that is gone, or has a row again."""
        self._since.pop(key, None)
        self._deletable.discard(key)

    def clear(self) -> None:
        """Forget everything: the instance is no longer ours."""
        self._since.clear()
        self._deletable.clear()
        self._approved.clear()
        self._kept, self._is_news = (), False


def name_of(key: ObjectKey) -> Name:
    """The object's name for operators. Its namespace is the instance's."""
    return f"{key.kind}/{key.name}"


def approved_objects(row: EngineResource) -> frozenset[Name]:
    """Names of the objects that an approval covers. Raises Permanent if the row is none."""
    try:
        names = dict_of(orjson.loads(row.manifest)).get("objects")
    except orjson.JSONDecodeError as error:
        raise Permanent(f"the approval is not JSON: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Permanent("the approval names no objects")
    return frozenset(names)
