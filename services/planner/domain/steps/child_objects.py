"""Compiles the child objects that resources want in their own namespace, and keeps them as they are wanted.

Level-based: what is wanted is compared with what the tenant's own rows tell of the live objects. A row says ``present``
as long as its owner wants it, then ``absent`` until the object is seen to be gone. If the live object is not as it is
wanted, or has gone, the revision is raised, and a watcher applies the row anew. Two controllers that disagree do not
spin:

- a row is written once for each version of the live object, and once for each time that it goes;
- a row is not written for that before ``REAPPLY_AFTER`` has passed since it was written last.

An object that nobody has seen for ``UNSEEN_AFTER`` is asked for again, or not waited for any more. So one comes back
even if no event told of its end: of an object that came and went, a batch has the end alone.
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
"""How old a copied Secret may be: nobody sees what somebody makes of its content, so it is copied again and again."""


class Wanted(NamedTuple):
    """A tenant with what one of its resources wants."""

    state: TenantState
    refused: tuple[ChildKey, ...] = ()
    """What is not made: another resource has the name, or it is too long."""
    foreign: tuple[ChildKey, ...] = ()
    """What is not made because somebody has made an object of this name."""


def reconcile_child_objects(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its rows of child objects, which earlier steps have set, compared with the live objects."""
    cause, state = planned.last_cause, planned.state
    if cause is None or not state.child_objects:
        return planned
    if state.tenant.is_former:
        return planned.with_state(state.without_child_objects(*state.child_objects))
    return _compare_with_live(planned, cause, context)


def want_child_objects(
    state: TenantState, owner: PlainResource, kind: Kind, wanted: Iterable[ChildObject], cause: Cause
) -> Wanted:
    """The tenant once ``owner``, which is of ``kind``, wants these child objects and no others.

    An object stays that of another resource as long as that exists and the object was not seen to be gone.
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
    """The row by which ``owner`` has its wish, with the stamps of the row that there is; a new one gets its own.

    ``uid``: of the object that it is bound to, if it is.
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
    """``known`` once nobody wants it."""
    if known.desired == "absent":
        return known
    uid = live.uid if live is not None and _is_ours(known, live) and _is_applied(known, live) else ""
    return replace(known, desired="absent", uid=uid)


def _is_applied(row: ChildRow, live: LiveChild) -> bool:
    """Whether the object is known to be what a watcher has made of the row.

    Otherwise the row may be on its way: if the object goes before it arrives, another one is made.
    """
    return not row.live_version or (live.version != row.live_version and not differs(row.manifest, live))


def written(row: ChildRow, live: LiveChild | None, cause: Cause) -> ChildRow:
    """``row`` with the stamps of a row that is written."""
    return replace(
        row,
        revision=row.revision + 1,
        trace_id=cause.trace_id,
        seen_at=cause.at,
        live_version=live.version if live is not None else "",
    )


def _compare_with_live(planned: PlannedTenant, cause: Cause, context: Context) -> PlannedTenant:
    """With rows as their live objects require it, and with the times at which their owners are looked at again."""
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
    """Child objects of all owners of which something differs, and that an event was about."""
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
    """The row but for its stamps; None: nothing is left to wait for."""
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
    """Whether the object has gone: now, or before, and its owner is looked at again because of that.

    Nothing else remembers it. An owner may be due that soon for another reason: then the object is asked for once more.
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
    """When what was held back may be done; None: nothing is."""
    if row.desired == "absent":
        is_awaited = not row.uid and (live is None or not _is_ours(row, live))
        return row.seen_at + UNSEEN_AFTER if is_awaited else None
    if live is None:
        return row.seen_at + (REAPPLY_AFTER if is_missed else UNSEEN_AFTER)
    if _has_drifted(row, live):
        return row.seen_at + REAPPLY_AFTER
    return row.seen_at + COPIED_AGAIN_AFTER if _is_own_copy(row, live) else None


def _has_drifted(row: ChildRow, live: LiveChild) -> bool:
    """Whether the object lacks something that was not answered yet; one that is being deleted has to go first."""
    is_news = live.version != row.live_version and not live.deleting and _is_ours(row, live)
    return is_news and differs(row.manifest, live)


def _is_ours(row: ChildRow, live: LiveChild) -> bool:
    """Whether it may be, as far as its controller is told."""
    return live.controller is None or live.controller.uid == row.owner_uid
