"""Which resources a resync marker removes: those that its list lacks, if that is plausible or was approved.

An approval is the marker itself, sent again with the digest of what its sender was shown. It removes what was shown, or
less if some of that has been seen meanwhile; never more.

The marker only decides, once, on all that its list lacks. What is to be removed is then written in parts, rows of
``sweep_parts`` that the planner carries out one at a time, by the clock. So however much a list lacks, no other message
of the partition waits for its removal, but for one part. The decision itself grows with what is lacking, slowly
(``bench.snapshots``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

import orjson

from services.common.json_values import canonical, digest
from services.kinds.shared.resource import Cause
from services.planner.domain.changes import Changes
from services.planner.domain.events import SweepDue, SweepScope
from services.planner.domain.policy import SweepGuard
from services.planner.rows.consumption import RefusedSweep, SweepPart
from services.planner.rows.tenants import TenantName


@dataclass(frozen=True, slots=True)
class SweepFound:
    """The resources in the scope of a resync marker."""

    known: int = 0
    """How many custom resources exist."""
    unseen: Mapping[UUID, TenantName] = field(default_factory=dict)
    """Resources that were not seen in time, with their tenants."""
    parked: tuple[TenantName, ...] = ()
    """Parked tenants. Their events are not planned yet, so their resources are not counted."""
    refused: RefusedSweep | None = None
    """The newest marker of the place that was refused, unless a later one was accepted."""

    def without(self, decided: Collection[UUID]) -> SweepFound:
        """The same without ``decided``: resources that earlier lists lacked and that are still to be removed."""
        left = {subject: name for subject, name in self.unseen.items() if subject not in decided}
        return replace(self, known=self.known - len(self.unseen) + len(left), unseen=left)


def decide_sweep(
    scope: SweepScope, found: SweepFound, approved: str, cause: Cause, guard: SweepGuard, only: TenantName | None = None
) -> Changes:
    """What a marker does: it is refused, or removes what is unseen. With ``only``, of tenants of that name."""
    if not guard.allows(len(found.unseen), found.known) and not is_approved(approved, found.refused, found.unseen):
        return Changes(refused_sweeps=(refuse_sweep(scope, found.known, found.unseen, cause.at),))
    removed = {subject: name for subject, name in found.unseen.items() if only in {None, name}}
    return Changes(
        sweep_parts=split_sweep(scope, removed, cause, guard.at_once),
        sweeps_done=(scope,) if found.refused is not None else (),
    )


def refuse_sweep(scope: SweepScope, known: int, unseen: Collection[UUID], at: datetime) -> RefusedSweep:
    """The row of a refused marker, which would remove ``unseen`` of ``known`` resources."""
    subjects = canonical(sorted(map(str, unseen)))
    named = digest(f"{scope.source}/{scope.kind}/{scope.partition}/{scope.epoch}/{subjects}")
    return RefusedSweep(scope.source, scope.kind, scope.partition, scope.epoch, known, subjects, named, at)


def is_approved(approved: str, refused: RefusedSweep | None, unseen: Collection[UUID]) -> bool:
    """Whether an operator has approved that ``unseen`` is removed.

    Args:
        approved: the digest in the marker; empty: it is no approval.
        refused: the sweep that was refused last, and shown to the operator.
        unseen: the resources that would be removed now.
    """
    if not approved or refused is None or refused.digest != approved:
        return False
    return {str(subject) for subject in unseen} <= set(orjson.loads(refused.subjects))


def split_sweep(
    scope: SweepScope, unseen: Mapping[UUID, TenantName], cause: Cause, at_once: int
) -> tuple[SweepPart, ...]:
    """The removal of ``unseen``, in parts of at most ``at_once``.

    Tenants take turns, so a tenant with few resources does not wait for those of a tenant with many.
    """
    ranked = sorted(
        (rank, subject) for subjects in by_tenant(unseen).values() for rank, subject in enumerate(sorted(subjects))
    )
    ids = [str(subject) for _, subject in ranked]
    return tuple(
        _part_of(scope, turn, ids[first : first + at_once], cause)
        for turn, first in enumerate(range(0, len(ids), at_once))
    )


def replace_part(due: SweepDue) -> Changes:
    """The halves of a part that the database refuses for good; nothing if the part is one resource.

    That resource stays until the next list lacks it, and nothing waits for it.
    """
    part = due.part
    ids, scope, cause = orjson.loads(part.subjects), scope_of(part), Cause(part.seen_at, part.trace_id)
    half = len(ids) // 2
    halves = (ids[:half], ids[half:]) if half else ()
    parts = tuple(_part_of(scope, part.turn, some, cause) for some in halves)
    return Changes(sweep_parts=parts, sweep_parts_done=(due.number,))


def scope_of(part: SweepPart) -> SweepScope:
    """The scope of the list that lacked a part."""
    return SweepScope(part.source, part.kind, part.partition, part.epoch)


def subjects_of(part: SweepPart) -> list[UUID]:
    """Ids of the resources that a part removes."""
    return [UUID(subject) for subject in orjson.loads(part.subjects)]


def by_tenant(unseen: Mapping[UUID, TenantName]) -> dict[TenantName, list[UUID]]:
    """The resources of each tenant."""
    tenants: dict[TenantName, list[UUID]] = defaultdict(list)
    for subject, name in unseen.items():
        tenants[name].append(subject)
    return tenants


def _part_of(scope: SweepScope, turn: int, ids: Sequence[str], cause: Cause) -> SweepPart:
    place = (scope.source, scope.kind, scope.partition)
    return SweepPart(*place, scope.epoch, turn, canonical(ids), cause.trace_id, cause.at)
