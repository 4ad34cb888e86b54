"""Which tenant of a name an event is of: a namespace that was deleted and made again is another tenant.

A watcher names the namespace of each resource by its uid. The newest one is that of the current tenant of its name; the
others are former ones, of which nothing exists any more but what engines have not removed yet. Each has an id of its
own, and so its own project and lane on its engine, its own quotas, and is parked by itself.

Messages of before do not tell a uid. A tenant of before keeps its id, and has the first uid that a message tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from services.common.messages import Command, Observation, ResourceChanged, ResourceGone
from services.planner.domain import ids
from services.planner.domain.events import Due, Event, MoveDue, NamespaceReplaced, Unseen
from services.planner.domain.fleet.view import FleetView
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.rows.tenants import Tenant

CLOCKS_DIFFER_MS = 11_000
"""By how much at most, as a rule: a watcher's clock, which numbers epochs, and the API server's, which tells whole
seconds."""


class Share(NamedTuple):
    """A tenant, and those events of a batch that are of it."""

    state: TenantState
    """As it was before."""
    events: Sequence[Event]


def split_by_tenant(known: Collection[TenantState], events: Iterable[Event], fleet: FleetView) -> list[Share]:
    """The ``events`` of one name, in their order, of each tenant that has it or had it.

    ``known``: those that there are. One that loses its name is told so. Events that are late, those of a name that
    nobody has, and those of a resource that another tenant of the name still has, are left out. One that could not be
    placed has all that is told of resources of the name, until that is split when it can be.
    """
    unplaced = {state.tenant.id for state in known if not state.tenant.engine_instance_id}
    states = {state.tenant.id: state for state in known}
    tenants = {each: state.tenant for each, state in states.items()}
    shares: dict[UUID, list[Event]] = defaultdict(list)
    owners: dict[UUID, UUID] = {}
    """Whose the resources are that this batch tells of."""
    for event in events:
        match event.message:
            case Command(event=ResourceChanged(epoch=epoch, uid=uid)) as told:
                current = next((each for each in tenants.values() if not each.is_former), None)
                is_its = current is not None and (current.id in unplaced or _may_be(current, told))
                now = current if is_its else None
                if now is None and all(_is_after(told, epoch, each) for each in tenants.values()):
                    now = _named(tenants.values(), told) or _new_tenant(told, event.partition)
                    if current is not None:
                        replaced = replace(event, message=_replacement(current, told, epoch))
                        tenants[current.id] = _as_told(current, replaced)
                        shares[current.id].append(replaced)
                resource = ids.resource_id(told.workspace, uid)
                if now is not None and not _is_anothers(resource, now, states, owners):
                    states.setdefault(now.id, TenantState(now))
                    owners[resource] = now.id
                    tenants[now.id] = _as_told(now, event)
                    shares[now.id].append(event)
            case _:
                for each in _concerned(event, states, fleet):
                    shares[each].append(event)
    return [Share(states[each], tuple(share)) for each, share in shares.items()]


def tenant_after(tenant: Tenant, events: Iterable[Event], fleet: FleetView, policy: Policy) -> Tenant:
    """The same as :func:`tenant_as_told`, and placed. Raises Wait if there is no instance for it."""
    if not tenant.engine_instance_id:
        preferred = policy.clusters_of(tenant.workspace)
        tenant = replace(tenant, engine_instance_id=fleet.instance_for(tenant, preferred).id)
    return tenant_as_told(tenant, events)


def tenant_as_told(tenant: Tenant, events: Iterable[Event]) -> Tenant:
    """``tenant`` as these events, which are of it, tell of it."""
    for event in events:
        tenant = _as_told(tenant, event)
    return tenant


def _as_told(tenant: Tenant, event: Event) -> Tenant:
    match event.message:
        case Command(event=ResourceChanged()) as told:
            now = replace(tenant, partition=event.partition, former_since=0)
            if told.namespace_uid in {"", tenant.namespace_uid}:
                return now
            return replace(now, namespace_uid=told.namespace_uid, namespace_created_at=told.namespace_created_at)
        case NamespaceReplaced(since=since):
            return replace(tenant, former_since=since)
        case _:
            return tenant


def _is_anothers(
    resource: UUID, tenant: Tenant, states: Mapping[UUID, TenantState], owners: Mapping[UUID, UUID]
) -> bool:
    """Whether a tenant of the name other than ``tenant`` has the resource, or is told of it in this batch.

    Who removes a namespace by force leaves its resources to the next one of its name, with their uids. The ids of rows
    and the names of Applications follow from these, so two tenants cannot have one resource. To the former tenant it
    has ended, and what was made of it is being removed: given the message, it would deploy it anew. So the message is
    nobody's until that is done; a list or a change that shows the resource later makes it the newcomer's.
    """
    if owners.get(resource, tenant.id) != tenant.id:
        return True
    return any(state.find(resource) is not None for each, state in states.items() if each != tenant.id)


def _may_be(current: Tenant, told: Command) -> bool:
    """Whether a resource that is ``told`` of may be of the tenant that has the name: nobody says otherwise."""
    uid = told.namespace_uid
    return not uid or not current.namespace_uid or _is_same(uid, current.namespace_uid)


def _is_after(told: Command, epoch: int, known: Tenant) -> bool:
    """Whether the namespace that is ``told`` of may have its name after that of ``known``.

    A list that began well after a namespace was made shows an older one only if the API server was restored: the two
    times are of different clocks. What tells no namespace cannot be known to be after one.
    """
    if _is_same(told.namespace_uid, known.namespace_uid):
        return epoch > known.former_since + CLOCKS_DIFFER_MS
    created_at = known.namespace_created_at
    is_newer = told.namespace_created_at >= created_at or epoch > created_at + CLOCKS_DIFFER_MS
    return bool(told.namespace_uid) and is_newer


def _named(tenants: Iterable[Tenant], told: Command) -> Tenant | None:
    """The former tenant that has its name again."""
    return next((each for each in tenants if _is_same(told.namespace_uid, each.namespace_uid)), None)


def _new_tenant(told: Command, partition: int) -> Tenant:
    """Not placed yet."""
    return Tenant(
        ids.tenant_id(told.workspace, told.namespace, told.namespace_uid),
        told.workspace,
        told.namespace,
        partition,
        "",
        namespace_uid=told.namespace_uid,
        namespace_created_at=told.namespace_created_at,
    )


def _replacement(former: Tenant, told: Command, epoch: int) -> NamespaceReplaced:
    """What ``former`` is told. If an older namespace has the name again, then since the list that shows it."""
    since = told.namespace_created_at
    if since < former.namespace_created_at:
        since = epoch
    return NamespaceReplaced(former.workspace, former.namespace, former.id, max(since, 1), told.seen_at)


def _is_same(uid: str, other: str) -> bool:
    """Whether two uids are of one namespace: one may be told without its logical cluster, which then is not known."""
    if uid == other:
        return True
    return uid.rpartition("/")[2] == other.rpartition("/")[2] and not ("/" in uid and "/" in other)


def _concerned(event: Event, states: Mapping[UUID, TenantState], fleet: FleetView) -> Collection[UUID]:
    """The tenants that know what an event is about; all of the name if none does: dormant rows are not known here."""
    if len(states) == 1 and not isinstance(event.message, MoveDue):
        return states.keys()
    if isinstance(event.message, NamespaceReplaced):
        return states.keys() & {event.message.tenant}
    if isinstance(event.message, MoveDue):
        return states.keys() & {event.message.move.tenant_id}
    return [each for each, state in states.items() if _knows(state, event, fleet)] or states.keys()


def _knows(state: TenantState, event: Event, fleet: FleetView) -> bool:
    match event.message:
        case Command(event=ResourceGone(uid=uid)) as command:
            return state.find(ids.resource_id(command.workspace, uid)) is not None
        case Observation() as seen:
            return _has_object(state, seen, fleet)
        case Due(id=subject):
            return state.find(subject) is not None
        case Unseen(ids=subjects):
            return any(state.find(each) is not None for each in subjects)
        case _:
            return False


def _has_object(state: TenantState, seen: Observation, fleet: FleetView) -> bool:
    key, instance = (seen.kind, seen.name), fleet.instances.get(seen.engine_instance_id)
    engine = fleet.engines.get(instance.engine) if instance is not None else None
    uid = engine.deployment_uid(key) if engine is not None else None
    if uid is None:
        return key in state.held_on(seen.engine_instance_id)
    known = state.deployments.get(ids.resource_id(seen.workspace, uid))
    return known is not None and state.instance_of(known) == seen.engine_instance_id
