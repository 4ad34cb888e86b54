"""Compiles the child objects that resources want in their own namespace, and keeps them as they are wanted.

Level-based: what is wanted is compared with the live objects as the tenant's own rows show them. A row says ``present``
as long as its owner wants the object, then ``absent`` until the object is gone. If the live object differs, or is gone,
the revision is raised, and a watcher applies the row again. Two controllers that disagree do not spin:

- a row is written once for each version of the live object, and once for each time that the object goes;
- a row is written again for that only once ``REAPPLY_AFTER`` has passed since it was written last.

If an object is not seen for ``UNSEEN_AFTER``, it is asked for again, or no longer waited for. So it comes back even if
no event reported its end: if an object came and went within a batch, the batch has only the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from services.common.messages import ChildKind
from services.kinds.shared.child_objects import ChildObject, LiveChild, differs
from services.kinds.shared.desired_object import DesiredObject
from services.kinds.shared.kind import Kind
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain import ids
from services.planner.domain.indexed_rows import differing
from services.planner.domain.live_children import LiveChildren, children_differing, live_children
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.rows.compiled import ChildKey, ChildRow

REAPPLY_AFTER = timedelta(seconds=10)
UNSEEN_AFTER = timedelta(minutes=5)
COPIED_AGAIN_AFTER = timedelta(minutes=10)
"""How old a copied Secret may be. Nobody sees a change of its content, so it is copied again and again."""


class Wanted(NamedTuple):
    """A tenant with the child objects that one of its resources wants."""

    state: TenantState
    refused: tuple[ChildKey, ...] = ()
    """Objects that are not made: another resource has the name, or the object is too long."""
    foreign: tuple[ChildKey, ...] = ()
    """Objects that are not made because somebody else has made an object of the name."""


def reconcile_child_objects(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its rows of child objects compared with the live objects."""
    cause, state = planned.last_cause, planned.state
    if cause is None or not state.child_objects:
        return planned
    if state.tenant.is_former:
        return planned.with_state(state.without_child_objects(*state.child_objects))
    return _compare_with_live(planned, cause, context)


def want_child_objects(
    state: TenantState, owner: PlainResource, kind: Kind, wanted: Iterable[ChildObject], cause: Cause
) -> Wanted:
    """The tenant once ``owner``, of ``kind``, wants these child objects and no others.

    An object of another resource stays that resource's as long as the resource exists and the object is not gone.
    """
    of_owner = state.child_objects_by_owner().get(owner.uid, {})
    own = {key: row for key, row in of_owner.items() if not row.is_unowned}
    children = {child.key: child for child in wanted}
    live = live_children(state, [*children, *own], state).present
    refused = tuple(key for key, child in children.items() if child.is_oversized or _is_anothers(state, key, owner))
    foreign = tuple(key for key in children if key not in refused and key in live and live[key].is_foreign_to(owner))
    made = [child for key, child in children.items() if key not in {*refused, *foreign}]
    rows = [row_for(state, owner, kind, child) for child in made]
    rows = [row for row in rows if row != state.child_objects.get(row.key)]
    leaving = [row for key, row in own.items() if key not in children and row.desired == "present"]
    if rows or leaving:
        rows += [_absent(row, live.get(row.key)) for row in leaving]
        state = state.with_child_objects(*(written(row, live.get(row.key), cause) for row in rows))
    return Wanted(state, refused, foreign)


def _is_anothers(state: TenantState, key: ChildKey, owner: PlainResource) -> bool:
    row = state.child_objects.get(key)
    other = _owner_of(state, row) if row is not None else None
    return other is not None and other.present and other.id != owner.id


def _owner_of(state: TenantState, row: ChildRow) -> PlainResource | None:
    return state.plain_resources.get(ids.resource_id(row.workspace, row.owner_uid))


def row_for(state: TenantState, owner: PlainResource, kind: Kind, wanted: DesiredObject, uid: str = "") -> ChildRow:
    """The row of an object that ``owner`` wants. It keeps the stamps of the row before; a new row gets its own.

    ``uid``: the uid of the object that the row is bound to, if any.
    """
    known = state.child_objects.get(wanted.key)
    return ChildRow(
        workspace=state.tenant.workspace,
        namespace=state.tenant.namespace,
        kind=wanted.kind.value,
        name=wanted.name,
        desired="present",
        uid=uid,
        owner_api_version=kind.resource.api_version,
        owner_kind=owner.kind,
        owner_name=owner.name,
        owner_uid=owner.uid,
        manifest=wanted.manifest,
        digest=wanted.digest,
        revision=known.revision if known is not None else 0,
        trace_id=known.trace_id if known is not None else owner.trace_id,
        seen_at=known.seen_at if known is not None else owner.seen_at,
        live_version=known.live_version if known is not None else "",
    )


def _absent(known: ChildRow, live: LiveChild | None) -> ChildRow:
    """``known`` as a row of an object that its owner no longer wants."""
    if known.desired == "absent":
        return known
    uid = live.uid if live is not None and _is_ours(known, live) and _is_applied(known, live) else ""
    return replace(known, desired="absent", uid=uid)


def _is_applied(row: ChildRow, live: LiveChild) -> bool:
    """Whether the object is known to be what a watcher has made from the row.

    Otherwise the row may be on its way: if the object goes before it arrives, the watcher makes another one.
    """
    return not row.live_version or (live.version != row.live_version and not differs(row.manifest, live))


def written(row: ChildRow, live: LiveChild | None, cause: Cause) -> ChildRow:
    """``row`` as it is written: with the next revision, and with stamps."""
    return replace(
        row,
        revision=row.revision + 1,
        trace_id=cause.trace_id,
        seen_at=cause.at,
        live_version=live.version if live is not None else "",
    )


def _compare_with_live(planned: PlannedTenant, cause: Cause, context: Context) -> PlannedTenant:
    """The tenant with rows as their live objects require, and with the times at which owners are due."""
    rows = _rows_concerned(planned, context)
    live = live_children(planned.state, rows.keys(), context.before)
    state = planned.state
    for key, row in rows.items():
        owner, there = _owner_of(state, row), live.present.get(key)
        now = _after_comparison(row, owner, live, cause.at)
        if now is None:
            state = state.without_child_objects(key)
            continue
        is_missed = _is_missed(row, owner, live)
        is_as_it_was = now == row and not _is_applied_anew(row, there, cause.at, is_missed=is_missed)
        now = row if is_as_it_was else written(now, there, cause)
        state = state.with_child_objects(now)
        if owner is not None:
            planned = planned if owner.id in planned.touched else planned.touching(owner.id, cause)
            if (again := _due_at(now, there, is_missed=is_missed and now is row)) is not None:
                planned = planned.due_by(owner.id, again)
    return planned.with_state(state)


def _rows_concerned(planned: PlannedTenant, context: Context) -> dict[ChildKey, ChildRow]:
    """Child objects of owners of which something differs, or that an event was about."""
    state, before = planned.state, context.before
    if not context.is_known:
        return dict(sorted((key, row) for key, row in state.child_objects.items() if not row.is_unowned))
    by_owner = state.child_objects_by_owner()
    owners = {each.uid for each in map(state.plain_resources.get, _owners_touched(planned, before)) if each is not None}
    changed = (*children_differing(state, before), *differing(state.child_objects, before.child_objects))
    owners |= {state.child_objects[key].owner_uid for key in changed if key in state.child_objects}
    rows = (item for owner in owners for item in by_owner.get(owner, {}).items())
    return dict(sorted((key, row) for key, row in rows if not row.is_unowned))


def _owners_touched(planned: PlannedTenant, before: TenantState) -> Iterator[UUID]:
    yield from planned.touched
    yield from differing(planned.state.plain_resources, before.plain_resources)


def _after_comparison(row: ChildRow, owner: PlainResource | None, live: LiveChildren, at: datetime) -> ChildRow | None:
    """The row without new stamps; None: nothing is left to wait for."""
    there = live.present.get(row.key)
    if row.desired == "present":
        return row if owner is not None and owner.present else _absent(row, there)
    if there is not None and _is_ours(row, there):
        if not row.uid and row.live_version.startswith(f"{there.uid}/"):
            return row  # it was there when the row was written, so another one may take its place yet
        if row.uid in {"", there.uid} or there.controller is not None:
            return replace(row, uid=there.uid)
    return row if owner is not None and not row.uid and at < row.seen_at + UNSEEN_AFTER else None


def _is_missed(row: ChildRow, owner: PlainResource | None, live: LiveChildren) -> bool:
    """Whether the object is gone: in this batch, or before, and its owner is due because of that.

    Nothing else remembers it. If the owner is due for another reason, the object is asked for once more.
    """
    if row.desired == "absent" or row.key in live.present:
        return False
    due = owner.due_at if owner is not None else None
    return row.key in live.gone or (due is not None and due < row.seen_at + UNSEEN_AFTER)


def _is_applied_anew(row: ChildRow, live: LiveChild | None, at: datetime, *, is_missed: bool) -> bool:
    if row.desired == "absent" or at < row.seen_at + REAPPLY_AFTER:
        return False
    if live is None:
        return is_missed or at >= row.seen_at + UNSEEN_AFTER
    return _has_drifted(row, live) or (_is_own_copy(row, live) and at >= row.seen_at + COPIED_AGAIN_AFTER)


def _is_own_copy(row: ChildRow, live: LiveChild) -> bool:
    return row.kind == ChildKind.SECRET_COPY and _is_ours(row, live)


def _due_at(row: ChildRow, live: LiveChild | None, *, is_missed: bool) -> datetime | None:
    """When the row may be written again; None if it need not be."""
    if row.desired == "absent":
        is_awaited = not row.uid and (live is None or not _is_ours(row, live))
        return row.seen_at + UNSEEN_AFTER if is_awaited else None
    if live is None:
        return row.seen_at + (REAPPLY_AFTER if is_missed else UNSEEN_AFTER)
    if _has_drifted(row, live):
        return row.seen_at + REAPPLY_AFTER
    return row.seen_at + COPIED_AGAIN_AFTER if _is_own_copy(row, live) else None


def _has_drifted(row: ChildRow, live: LiveChild) -> bool:
    """Whether the live object differs in a version that no row has answered. An object that is going does not."""
    is_news = live.version != row.live_version and not live.deleting and _is_ours(row, live)
    return is_news and differs(row.manifest, live)


def _is_ours(row: ChildRow, live: LiveChild) -> bool:
    """Whether its controller is the owner, or unknown."""
    return live.controller is None or live.controller.uid == row.owner_uid
