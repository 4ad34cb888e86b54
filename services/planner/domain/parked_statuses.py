"""What the custom resources of a parked tenant show: what its users wait for, and cannot mend.

None of the rules of a kind is asked: one has failed, or has no instance to compile for. What a status showed before
stays in it. When the tenant goes on, all its resources are looked at again, and the rules write what is true of them;
where that is no status at all, the condition is resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from services.common.json_values import dicts_of
from services.common.messages import Command, ResourceChanged, ResourceGone
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.registry import Registry
from services.kinds.shared.catalogue import PARKED, RESOLVED, TENANT_PARKED, TENANT_UNPLACED, Entry
from services.kinds.shared.conditions import compile_status, parsed_status
from services.kinds.shared.resource import Cause
from services.planner.domain.events import Event
from services.planner.domain.planned_tenant import StatusChanges
from services.planner.domain.state import TenantState
from services.planner.domain.steps.status_rows import NO_STATUS, status_row
from services.planner.rows.compiled import StatusKey, StoredStatus, WorkspaceKey, WorkspaceRow
from services.planner.rows.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Shown:
    """An incarnation of a custom resource, as far as its status needs it."""

    uid: str
    generation: int
    conditions: str
    """Member of the status that has its conditions."""


LeftStatus = tuple[StatusKey, StoredStatus, bool]
"""A status that shows that its tenant was parked, and whether its resource exists."""

TOLD = frozenset((entry.type, entry.message) for entry in PARKED)
"""Types and messages of conditions that say so."""


@dataclass(frozen=True, slots=True)
class Gone:
    """One that does not exist any more."""

    uid: str


Subjects = Mapping[StatusKey, Shown | Gone]
"""By kind and name."""


def known_subjects(state: TenantState, kinds: Registry) -> dict[StatusKey, Shown]:
    """The tenant's resources that exist, as far as they are loaded."""
    custom = {kind.name for kind in kinds.with_status}
    deployments = [(GITOPS_DEPLOYMENT.kind, each) for each in state.deployments.values()]
    resources = [(each.kind, each) for each in state.plain_resources.values() if each.kind in custom]
    return {
        (kind, each.name): Shown(each.uid, each.generation, kinds[kind].conditions)
        for kind, each in (*deployments, *resources)
        if each.present
    }


def named_subjects(state: TenantState, events: Sequence[Event], kinds: Registry) -> Subjects:
    """Those that ``events``, in their order, name: the tenant's rows do not know them yet."""
    custom, known = {kind.name for kind in kinds.with_status}, known_subjects(state, kinds)
    found: dict[StatusKey, Shown | Gone] = {}
    for event in events:
        match event.message:
            case Command(event=ResourceChanged(kind=kind, name=name) as changed) if kind in custom:
                found[kind, name] = Shown(changed.uid, changed.generation, kinds[kind].conditions)
            case Command(event=ResourceGone(kind=kind, name=name) as gone) if kind in custom:
                shown = found.get((kind, name), known.get((kind, name)))
                if shown is None or shown.uid == gone.uid:
                    found[kind, name] = Gone(gone.uid)
    return found


def parked_statuses(state: TenantState, subjects: Subjects, cause: Cause) -> StatusChanges:
    """The statuses that ``subjects`` shall have; of those that are gone, and of all of a former tenant, none."""
    tenant = state.tenant
    if tenant.is_former:
        return StatusChanges()
    gone = (
        WorkspaceKey(*tenant.full_name, *key, shown.uid) for key, shown in subjects.items() if isinstance(shown, Gone)
    )
    statuses = _statuses(state, subjects, cause)
    return StatusChanges(tuple(status_row(tenant, key, now, cause) for key, now in statuses), tuple(gone))


def resolved_statuses(tenant: Tenant, left: Iterable[LeftStatus], cause: Cause) -> StatusChanges:
    """Statuses that no rule has written since the tenant goes on; those of resources that are gone go, too."""
    rows: list[WorkspaceRow] = []
    gone: list[WorkspaceKey] = []
    for key, stored, exists in left:
        if exists:
            now = replace(stored, status=_with(RESOLVED, stored.status, _member_parked(stored.status), cause))
            rows.append(status_row(tenant, key, now, cause))
        else:
            gone.append(WorkspaceKey(*tenant.full_name, *key, stored.uid))
    return StatusChanges(tuple(rows), tuple(gone))


def shows_parked(status: str) -> bool:
    """Whether a status, JSON text, says that its tenant is parked."""
    return bool(_member_parked(status))


def _member_parked(status: str) -> str:
    """The member of a status whose conditions say that its tenant is parked; empty if none does."""
    for member, listed in parsed_status(status).items():
        if any((each.get("type"), each.get("message")) in TOLD for each in dicts_of(listed)):
            return str(member)
    return ""


def _statuses(state: TenantState, subjects: Subjects, cause: Cause) -> Iterator[tuple[StatusKey, StoredStatus]]:
    entry = TENANT_PARKED if state.tenant.engine_instance_id else TENANT_UNPLACED
    for key, shown in subjects.items():
        if isinstance(shown, Gone):
            continue
        stored = state.statuses.get(key)
        own = stored if stored is not None and stored.uid == shown.uid else None
        now = _with(entry, own.status if own is not None else NO_STATUS, shown.conditions, cause)
        if own is None or own.status != now:
            yield key, StoredStatus(shown.uid, shown.generation, now, own is not None and own.release_finalizer)


def _with(entry: Entry, previous: str, member: str, cause: Cause) -> str:
    """``previous`` with the condition; without anything else if it cannot be read, which may be what failed."""
    try:
        rest = {name: part for name, part in parsed_status(previous).items() if name != member}
        return compile_status(previous, {entry.type: entry.state}, cause.at, rest, member=member)
    except Exception:
        return compile_status(NO_STATUS, {entry.type: entry.state}, cause.at, member=member)
