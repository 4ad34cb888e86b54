"""Routes the events of a name to its tenants. If a namespace is deleted and made again, that is another tenant.

A watcher names the namespace of each resource by its uid. The newest uid is that of the current tenant of its name. The
others are former tenants: nothing of them exists any more but what engines have not removed yet. Each tenant has an id
of its own, and so its own project and lane on its engine, and its own quotas; it is parked alone.

Messages of earlier releases have no uid. A tenant of an earlier release keeps its id, and gets the first uid that a
message has.
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
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.rows.tenants import Tenant

CLOCKS_DIFFER_MS = 11_000
"""How far two clocks differ at most, as a rule: a watcher's, which numbers epochs, and the API server's, which has
whole seconds."""


class Share(NamedTuple):
    """A tenant, and the events of a batch that are about it."""

    state: TenantState
    """The tenant before the batch."""
    events: Sequence[Event]


def split_by_tenant(known: Collection[TenantState], events: Iterable[Event], fleet: PlacementView) -> list[Share]:
    """The ``events`` of one name, in order, for each tenant that has the name or had it.

    ``known``: the tenants that exist. A tenant that loses its name gets an event for that. These events are left out:
    late ones, those of a name that no tenant has, and those of a resource that another tenant of the name still has. A
    tenant without an instance gets all events about resources of its name; they are split once it can be placed.
    """
    unplaced = {state.tenant.id for state in known if not state.tenant.engine_instance_id}
    states = {state.tenant.id: state for state in known}
    tenants = {each: state.tenant for each, state in states.items()}
    shares: dict[UUID, list[Event]] = defaultdict(list)
    owners: dict[UUID, UUID] = {}
    """The tenants of resources that this batch reports."""
    for event in events:
        match event.message:
            case Command(event=ResourceChanged(epoch=epoch, uid=uid)) as command:
                current = next((each for each in tenants.values() if not each.is_former), None)
                is_its = current is not None and (current.id in unplaced or _may_be(current, command))
                now = current if is_its else None
                if now is None and all(_is_after(command, epoch, each) for each in tenants.values()):
                    now = _named(tenants.values(), command) or _new_tenant(command, event.partition)
                    if current is not None:
                        replaced = replace(event, message=_replacement(current, command, epoch))
                        tenants[current.id] = _with_event(current, replaced)
                        shares[current.id].append(replaced)
                resource = ids.resource_id(command.workspace, uid)
                if now is not None and not _is_anothers(resource, now, states, owners):
                    states.setdefault(now.id, TenantState(now))
                    owners[resource] = now.id
                    tenants[now.id] = _with_event(now, event)
                    shares[now.id].append(event)
            case _:
                for each in _concerned(event, states, fleet):
                    shares[each].append(event)
    return [Share(states[each], tuple(share)) for each, share in shares.items()]


def tenant_after(tenant: Tenant, events: Iterable[Event], fleet: PlacementView, policy: Policy) -> Tenant:
    """The tenant with its events (:func:`tenant_with_events`), and with an instance. Raises Wait if there is none."""
    if not tenant.engine_instance_id:
        preferred = policy.clusters_of(tenant.workspace)
        tenant = replace(tenant, engine_instance_id=fleet.instance_for(tenant, preferred).id)
    return tenant_with_events(tenant, events)


def tenant_with_events(tenant: Tenant, events: Iterable[Event]) -> Tenant:
    """The row of ``tenant`` once its events count."""
    for event in events:
        tenant = _with_event(tenant, event)
    return tenant


def _with_event(tenant: Tenant, event: Event) -> Tenant:
    match event.message:
        case Command(event=ResourceChanged()) as command:
            now = replace(tenant, partition=event.partition, former_since=0)
            if command.namespace_uid in {"", tenant.namespace_uid}:
                return now
            return replace(now, namespace_uid=command.namespace_uid, namespace_created_at=command.namespace_created_at)
        case NamespaceReplaced(since=since):
            return replace(tenant, former_since=since)
        case _:
            return tenant


def _is_anothers(
    resource: UUID, tenant: Tenant, states: Mapping[UUID, TenantState], owners: Mapping[UUID, UUID]
) -> bool:
    """Whether a tenant of the name other than ``tenant`` has the resource, or gets it in this batch.

    If somebody removes a namespace by force, its resources stay for the next namespace of its name, with their uids.
    Ids of rows and names of Applications are made from these, so two tenants cannot have one resource. For the former
    tenant the resource has ended, and what was deployed is being removed: with the message, it would deploy that again.
    So no tenant gets the message until that is done. A later list or change that shows the resource makes it the new
    tenant's.
    """
    if owners.get(resource, tenant.id) != tenant.id:
        return True
    return any(state.find(resource) is not None for each, state in states.items() if each != tenant.id)


def _may_be(current: Tenant, command: Command) -> bool:
    """Whether a resource that ``command`` is about may belong to the tenant that has the name."""
    uid = command.namespace_uid
    return not uid or not current.namespace_uid or _is_same(uid, current.namespace_uid)


def _is_after(command: Command, epoch: int, known: Tenant) -> bool:
    """Whether the namespace in ``command`` may have got its name after that of ``known``.

    A list that began well after a namespace was made shows an older namespace only if the API server was restored; the
    two times are of different clocks. A command without a namespace is never after one.
    """
    if _is_same(command.namespace_uid, known.namespace_uid):
        return epoch > known.former_since + CLOCKS_DIFFER_MS
    created_at = known.namespace_created_at
    is_newer = command.namespace_created_at >= created_at or epoch > created_at + CLOCKS_DIFFER_MS
    return bool(command.namespace_uid) and is_newer


def _named(tenants: Iterable[Tenant], command: Command) -> Tenant | None:
    """The former tenant whose namespace has the name again."""
    return next((each for each in tenants if _is_same(command.namespace_uid, each.namespace_uid)), None)


def _new_tenant(command: Command, partition: int) -> Tenant:
    """A tenant without an instance."""
    return Tenant(
        ids.tenant_id(command.workspace, command.namespace, command.namespace_uid),
        command.workspace,
        command.namespace,
        partition,
        "",
        namespace_uid=command.namespace_uid,
        namespace_created_at=command.namespace_created_at,
    )


def _replacement(former: Tenant, command: Command, epoch: int) -> NamespaceReplaced:
    """The event for ``former``. If an older namespace has the name again, then since the list that shows it."""
    since = command.namespace_created_at
    if since < former.namespace_created_at:
        since = epoch
    return NamespaceReplaced(former.workspace, former.namespace, former.id, max(since, 1), command.seen_at)


def _is_same(uid: str, other: str) -> bool:
    """Whether two uids are of one namespace. One may lack its logical cluster, and then matches any."""
    if uid == other:
        return True
    return uid.rpartition("/")[2] == other.rpartition("/")[2] and not ("/" in uid and "/" in other)


def _concerned(event: Event, states: Mapping[UUID, TenantState], fleet: PlacementView) -> Collection[UUID]:
    """The tenants that know what an event is about. If none does, all: dormant rows are not known here."""
    if len(states) == 1 and not isinstance(event.message, MoveDue):
        return states.keys()
    if isinstance(event.message, NamespaceReplaced):
        return states.keys() & {event.message.tenant}
    if isinstance(event.message, MoveDue):
        return states.keys() & {event.message.move.tenant_id}
    return [each for each, state in states.items() if _knows(state, event, fleet)] or states.keys()


def _knows(state: TenantState, event: Event, fleet: PlacementView) -> bool:
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


def _has_object(state: TenantState, seen: Observation, fleet: PlacementView) -> bool:
    key, instance = (seen.kind, seen.name), fleet.instances.get(seen.engine_instance_id)
    engine = fleet.engines.get(instance.engine) if instance is not None else None
    uid = engine.deployment_uid(key) if engine is not None else None
    if uid is None:
        return key in state.objects_on(seen.engine_instance_id)
    known = state.deployments.get(ids.resource_id(seen.workspace, uid))
    return known is not None and state.instance_of(known) == seen.engine_instance_id
