"""New Snapshots that are promoted automatically, if operators want that: which ones wait for runs, and these runs.

For each application the newest one counts. It waits until the initial environments exist and the run before is over, so
Snapshots that come meanwhile get no runs. A Snapshot is new for a day, so a planner that finds old ones, because it
starts or its database was lost, promotes none of them. One that has waited for room for long is new, too, unless a
newer one has a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from services.common.json_values import canonical, digest, texts_of
from services.kinds.environment.known import KnownEnvironment
from services.kinds.promotion_run.model import AutomatedPromotion, PromotionRunSpec
from services.kinds.shared.conditions import parsed_status
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot.model import SNAPSHOT

NEW_FOR = timedelta(days=1)
MOST_WAITING = 20
"""Waiting Snapshots of a tenant, of any applications: the newest."""

_LONGEST_NAME = 250


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A Snapshot that waits for its runs."""

    id: UUID
    name: str
    application: str
    created_at: int
    """Milliseconds since 1970."""
    started: frozenset[str] = frozenset()
    """Environments whose run exists, or existed."""

    @property
    def old_at(self) -> datetime:
        """When it is not new any more."""
        return datetime.fromtimestamp(self.created_at / 1000, UTC) + NEW_FOR

    def run_for(self, environment: str) -> PromotionRunSpec:
        """The run that promotes it, beginning with ``environment``."""
        promotion = AutomatedPromotion(initial_environment=environment)
        return PromotionRunSpec(snapshot=self.name, application=self.application, automated_promotion=promotion)


def awaits_runs(row: PlainResource) -> bool:
    """Whether it is a Snapshot that lacks runs."""
    return row.kind == SNAPSHOT.kind and row.present and bool(row.progress)


def started_of(row: PlainResource) -> frozenset[str]:
    """Environments whose run was seen."""
    return frozenset(texts_of(parsed_status(row.progress).get("started"))) if row.progress else frozenset()


def with_started(row: PlainResource, started: Collection[str] | None) -> PlainResource:
    """The row with these environments; None: it waits for no run."""
    return replace(row, progress=canonical({"started": sorted(started)}) if started is not None else "")


def still_new(snapshots: Iterable[NewSnapshot], promoted: Mapping[str, int], now: datetime) -> dict[UUID, NewSnapshot]:
    """Those that go on waiting: of each application the newest.

    Args:
        snapshots: those that wait.
        promoted: when the newest Snapshot of each application was made that has a run, milliseconds since 1970.
        now: the time.
    """
    newest: dict[str, NewSnapshot] = {}
    for each in sorted(snapshots, key=lambda each: (-each.created_at, each.name)):
        if now < each.old_at and each.created_at >= promoted.get(each.application, 0):
            newest.setdefault(each.application, each)
    return {each.id: each for each in [*newest.values()][:MOST_WAITING]}


def initial_environments(environments: Mapping[str, KnownEnvironment]) -> tuple[str, ...]:
    """Environments where automated promotions begin: without a parent, with an automated strategy."""
    return tuple(name for name, known in sorted(environments.items()) if known.is_automated and not known.parent)


def run_name(snapshot: str, environment: str) -> str:
    """Name of the run that promotes a Snapshot from this environment on. It is different for each pair."""
    name = f"{snapshot}-{environment}"
    # A name may have '-' anywhere, so two pairs may have one name: the digest tells them apart.
    suffix = digest(f"{snapshot}/{environment}")[:8]
    return f"{name[: _LONGEST_NAME - len(suffix) - 1].rstrip('.-')}-{suffix}"
