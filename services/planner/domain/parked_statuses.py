"""What the custom resources of a parked tenant show: that it is parked, which its users cannot change.

No rule of a kind is called, because one has failed, or has no instance to compile for. A status keeps what it showed
before. When the tenant is planned again, all its resources are, and the rules write their statuses. A resource for
which they write none has the condition resolved.
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
    """An incarnation of a custom resource, with what its status needs."""

    uid: str
    generation: int
    conditions: str
    """The member of the status that has its conditions."""


LeftStatus = tuple[StatusKey, StoredStatus, bool]
"""A status that shows that its tenant was parked, and whether its resource exists."""

PARKED_CONDITIONS = frozenset((entry.type, entry.message) for entry in PARKED)
"""Types and messages of the conditions that show it."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A resource that no longer exists."""

    uid: str


Subjects = Mapping[StatusKey, Shown | Gone]
"""Resources by kind and name."""


def known_subjects(state: TenantState, kinds: Registry) -> dict[StatusKey, Shown]:
    """The tenant's loaded resources that exist."""
    custom = {kind.name for kind in kinds.with_status}
    deployments = [(GITOPS_DEPLOYMENT.kind, each) for each in state.deployments.values()]
    resources = [(each.kind, each) for each in state.plain_resources.values() if each.kind in custom]
    return {
        (kind, each.name): Shown(each.uid, each.generation, kinds[kind].conditions)
        for kind, each in (*deployments, *resources)
        if each.present
    }


def named_subjects(state: TenantState, events: Sequence[Event], kinds: Registry) -> Subjects:
    """Resources that ``events``, in their order, name and that the tenant's rows do not have yet."""
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
    """The statuses of ``subjects``. Resources that are gone, and those of former tenants, have none."""
    tenant = state.tenant
    if tenant.is_former:
        return StatusChanges()
    gone = (
        WorkspaceKey(*tenant.full_name, *key, shown.uid) for key, shown in subjects.items() if isinstance(shown, Gone)
    )
    statuses = _statuses(state, subjects, cause)
    return StatusChanges(tuple(status_row(tenant, key, now, cause) for key, now in statuses), tuple(gone))


def resolved_statuses(tenant: Tenant, left: Iterable[LeftStatus], cause: Cause) -> StatusChanges:
    """Statuses that no rule has written since the tenant is planned again. Those of gone resources go, too."""
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
    """Whether a status, JSON text, shows that its tenant is parked."""
    return bool(_member_parked(status))


def _member_parked(status: str) -> str:
    """The member of a status whose conditions show that its tenant is parked; empty if none does."""
    for member, listed in parsed_status(status).items():
        if any((each.get("type"), each.get("message")) in PARKED_CONDITIONS for each in dicts_of(listed)):
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
    """``previous`` with the condition. If ``previous`` cannot be read, which may have failed, the condition alone."""
    try:
        rest = {name: part for name, part in parsed_status(previous).items() if name != member}
        return compile_status(previous, {entry.type: entry.state}, cause.at, rest, member=member)
    except Exception:
        return compile_status(NO_STATUS, {entry.type: entry.state}, cause.at, member=member)
