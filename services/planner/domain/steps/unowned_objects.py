"""Rows of ``workspace_objects`` for objects that resources want changed without being their owner.

A row asks for one object to be made, patched or deleted. It is level-based: it is written if the live object differs
from what is wanted, and written again if it differs later, as often as ``child_objects.py`` allows: once for each
version of the live object, and not before ``REAPPLY_AFTER``. The row goes when no resource wants it. The object then
stays as it is.

Resources of several kinds may want something of one object. The row is that of the last request, with one exception: if
one has the object deleted, no other request counts until the object is going.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from services.kinds.shared.child_objects import LiveChild
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.shared.unowned_objects import UnownedObject, says
from services.planner.domain.indexed_rows import Groups, index_of
from services.planner.domain.live_children import LiveChildren, live_children
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.child_objects import REAPPLY_AFTER, UNSEEN_AFTER, row_for, written
from services.planner.rows.compiled import ChildKey, ChildRow

UNOWNED: Groups[ChildRow, str] = Groups(lambda row: row.owner_kind if row.is_unowned else None)
"""Rows by the kind of the resource that wants them."""


class UnownedRequest(NamedTuple):
    """An object as it is wanted, and the resource that wants it."""

    owner: PlainResource
    wanted: UnownedObject


def reconcile_unowned_objects(
    planned: PlannedTenant,
    owners: Collection[str],
    requests: Iterable[UnownedRequest],
    cause: Cause,
    context: Context,
) -> PlannedTenant:
    """The tenant with rows for ``requests``, and without other rows of resources of these kinds."""
    wanted = {each.wanted.key: each for each in requests if not each.wanted.is_oversized}
    rows = _rows_of(planned.state, owners)
    if not wanted and not rows:
        return planned
    live = live_children(planned.state, {*wanted, *rows}, context.before)
    wanted = {key: each for key, each in wanted.items() if key in rows or not _is_to_go(planned.state, key, live)}
    for key in sorted({*wanted, *rows}):
        request, known = wanted.get(key), rows.get(key)
        row = None if request is None else _row_of(planned.state, request, known, live.present.get(key), context)
        if row is None:
            planned = planned.with_state(planned.state.without_child_objects(*({key} & rows.keys())))
            continue
        if row != known or _is_asked_again(row, live, cause.at):
            row = written(row, live.present.get(key), cause)
            planned = planned.with_state(planned.state.with_child_objects(row))
        if request is not None and (due := _due_at(row, live.present.get(key))) is not None:
            planned = planned.due_by(request.owner.id, due)
            if request.owner.id not in planned.touched:
                planned = planned.touching(request.owner.id, cause)
    return planned


def _rows_of(state: TenantState, owners: Collection[str]) -> Mapping[ChildKey, ChildRow]:
    by_owners_kind = index_of(state.child_objects, UNOWNED)
    return {key: row for owner in owners for key, row in by_owners_kind.get(owner, {}).items()}


def _is_to_go(state: TenantState, key: ChildKey, live: LiveChildren) -> bool:
    """Whether a row has the live object deleted, and it is not going yet."""
    row, there = state.child_objects.get(key), live.present.get(key)
    if row is None or row.desired == "present" or there is None:
        return False
    return row.uid == there.uid and not there.deleting


def _row_of(
    state: TenantState, request: UnownedRequest, known: ChildRow | None, live: LiveChild | None, context: Context
) -> ChildRow | None:
    """The row of a request, with the stamps of the row before; None if there is nothing to do."""
    owner, wanted = request
    if not _has_to_do(wanted, known, live):
        return None
    row = row_for(state, owner, context.policy.kinds[owner.kind], wanted, wanted.uid)
    return replace(row, desired="absent") if wanted.is_deleted else row


def _has_to_do(wanted: UnownedObject, known: ChildRow | None, live: LiveChild | None) -> bool:
    if not wanted.uid:
        return live is None
    if live is None or live.uid != wanted.uid:
        return False
    if wanted.is_deleted:
        return not live.deleting
    return known is not None or not says(wanted.manifest, live)


def _is_asked_again(row: ChildRow, live: LiveChildren, at: datetime) -> bool:
    """Whether an unchanged row has to be carried out again."""
    there = live.present.get(row.key)
    if at < row.seen_at + REAPPLY_AFTER:
        return False
    if row.uid and row.desired == "present":
        return there is not None and _has_drifted(row, there)
    return row.key in live.gone or at >= row.seen_at + UNSEEN_AFTER


def _due_at(row: ChildRow, live: LiveChild | None) -> datetime | None:
    """When the row may be carried out again; None if it need not be."""
    if row.uid and row.desired == "present":
        return row.seen_at + REAPPLY_AFTER if live is not None and _has_drifted(row, live) else None
    return row.seen_at + UNSEEN_AFTER


def _has_drifted(row: ChildRow, live: LiveChild) -> bool:
    """Whether the live object differs, in a version that no row has answered."""
    return live.version != row.live_version and not says(row.manifest, live)
