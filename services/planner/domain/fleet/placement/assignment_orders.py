"""Decides on orders that say where tenants are placed: assignments of workspaces, dedicated instances, pins. Pure.

Such an order moves no tenant: tenants that are elsewhere move with the next rebalance, or by an order to move them. An
order is refused if it would leave a workspace without a ready instance: its next tenant would wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from services.common.messages import RINGS, AssignWorkspace, DedicateEngineInstance, PinTenant, UnpinTenant
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import (
    known_instance,
    moving_in_words,
    require_label,
    require_not_retired,
    require_one_of,
    require_workspace,
    state_in_words,
)
from services.planner.domain.fleet.placement.assignments import Affinity, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.rows import EngineInstanceRow, Refused
from services.planner.rows.tenants import TenantName

REBALANCE = "'gitopsctl engines rebalance'"
UNPIN = "'gitopsctl engines unpin'"
LEFT_OBJECTS = "still has objects of tenants that have left it: its agent removes them"
"""The end of a refusal of an order for which an instance has to be empty."""


def assign_workspace(order: AssignWorkspace, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """A message about the order, and the fleet after it: the same object if nothing has changed. Raises Refused."""
    require_workspace(order.workspace)
    stored = fleet.rules.assignments.get(order.workspace)
    wanted = WorkspaceAssignment(order.workspace, order.region, order.ring, at)
    if stored is not None and at <= stored.assigned_at:
        return f"a newer order, of {stored.assigned_at.isoformat()}, has assigned the workspace", fleet
    if (stored.region, stored.ring) == (order.region, order.ring) if stored else not (order.region or order.ring):
        return "it is assigned so" if stored else "it is assigned to nothing", fleet
    if not order.region and not order.ring:
        return "", replace(fleet, rules=fleet.rules.without_assignment(order.workspace))
    if order.region:
        regions = {each.region for each in fleet.clusters.values() if each.region and not each.is_retired}
        require_one_of("region", order.region, regions)
    if order.ring:
        require_one_of("ring", order.ring, RINGS)
    after = replace(fleet, rules=fleet.rules.with_assignment(wanted))
    _require_instance(order.workspace, after)
    _require_dedicated_admitted(order.workspace, after)
    _require_pins_admitted(order.workspace, after)
    return f"tenants that are elsewhere go there with {REBALANCE}", after


def dedicate_instance(
    order: DedicateEngineInstance, stored: EngineInstanceRow, fleet: Fleet, at: datetime
) -> tuple[str, Fleet]:
    """Decide on an order that dedicates an instance to a workspace, or shares it.

    Returns a message about the order, and the fleet after it: the same object if it is so already. Raises Refused.
    """
    require_not_retired(stored)
    if stored.dedicated_to == order.workspace:
        return f"it is dedicated to workspace {order.workspace}" if order.workspace else "it is shared", fleet
    row = replace(
        stored,
        engine_class="dedicated" if order.workspace else "shared",
        dedicated_to=order.workspace,
        ordered_at=at,
    )
    after = fleet.with_instance(row)
    if order.workspace:
        require_workspace(order.workspace)
        _require_only(order.workspace, stored, fleet)
        require_fit(row, fleet)
    require_served(fleet, after)
    if not order.workspace:
        return "tenants of any workspace are placed on it", after
    return f"tenants of workspace {order.workspace} that are elsewhere go there with {REBALANCE}", after


def pin_tenant(order: PinTenant, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """Decide on an order that a tenant stays on its instance, or is placed on one when it comes.

    Returns a message about the order, and the fleet after it: the same object if it is so already. Raises Refused.
    """
    require_workspace(order.workspace)
    require_label("a namespace", order.namespace)
    here = fleet.tenants.get(order.tenant)
    if here is None and not order.target:
        raise Refused(f"there is no tenant '{order.id}'; --to pins one that is still to come")
    target = order.target or (here.engine_instance_id if here is not None else "")
    pinned = fleet.rules.pinned_to(order.tenant)
    if pinned == target:
        return f"it is pinned to engine instance {target}", fleet
    require_unpinned(order.tenant, fleet)
    if here is not None and (move := fleet.moves.get(here.id)) is not None and not move.is_over:
        raise Refused(moving_in_words(order.id, move))
    if here is not None and here.engine_instance_id != target:
        raise Refused(
            f"tenant {order.id} is on engine instance {here.engine_instance_id}: 'gitopsctl engines move' it first"
        )
    _require_pinnable(target, order, fleet)
    return "", replace(fleet, rules=fleet.rules.with_pin(TenantPin(*order.tenant, target, at)))


def unpin_tenant(order: UnpinTenant, fleet: Fleet) -> tuple[str, Fleet]:
    """Decide on an order that a tenant may be moved again.

    Returns a message about the order, and the fleet after it: the same object if the tenant is not pinned. Raises
    Refused.
    """
    if fleet.rules.pinned_to(order.tenant):
        return "", replace(fleet, rules=fleet.rules.without_pin(order.tenant))
    if order.tenant not in fleet.tenants:
        raise Refused(f"there is no tenant '{order.id}'")
    return "it is not pinned", fleet


def require_unpinned(tenant: TenantName, fleet: Fleet) -> None:
    """Raises Refused if the tenant has to stay where it is."""
    if pinned := pinned_in_words(tenant, fleet):
        raise Refused(pinned)


def pinned_in_words(tenant: TenantName, fleet: Fleet) -> str:
    """Where the tenant has to stay, in words for operators; empty if it is not pinned."""
    pinned = fleet.rules.pinned_to(tenant)
    return f"tenant {'/'.join(tenant)} is pinned to engine instance {pinned}: {UNPIN} it first" if pinned else ""


def require_nobody_pinned(row: EngineInstanceRow, fleet: Fleet) -> None:
    """Raises Refused if tenants, existing or still to come, are pinned to an instance that is to be retired."""
    if pinned := sorted("/".join(each.tenant) for each in _pins_to(row, fleet)):
        raise Refused(f"tenants are pinned to engine instance {row.id}: {', '.join(pinned)}; {UNPIN} them first")


def require_fit(row: EngineInstanceRow, fleet: Fleet) -> None:
    """Raises Refused if an instance is dedicated to a workspace that is assigned elsewhere."""
    if not row.dedicated_to:
        return
    affinity = fleet.rules.affinity(row.dedicated_to)
    if refusal := affinity.refusal(row):
        raise Refused(f"workspace {row.dedicated_to} is assigned to {affinity}, and {refusal}")


def require_served(before: Fleet, after: Fleet, *, are_others: bool = True) -> None:
    """Raises Refused if an order takes the last ready instance from a workspace.

    Args:
        before: the fleet before the order.
        after: the fleet after it.
        are_others: whether workspaces without an assignment count, too: those with instances to themselves, and any.
    """
    assigned, owners = after.rules.assignments, _owners(before) | _owners(after) if are_others else set()
    for workspace in sorted({*assigned, *owners}):
        affinity = after.rules.affinity(workspace)
        if _is_served(affinity, before) and not _is_served(affinity, after):
            is_assigned = workspace in assigned
            reason = f"is assigned to {affinity}" if is_assigned else "has an engine instance to itself"
            raise Refused(
                f"workspace {workspace} {reason}: no engine instance would be left for it that is ready; add one "
                f"first, or {'unassign it' if is_assigned else 'retire what is not'}"
            )
    of_others = Affinity("")
    if are_others and _is_served(of_others, before) and not _is_served(of_others, after):
        raise Refused(
            "no shared engine instance would be left for tenants of other workspaces that is ready; add one first"
        )


def _owners(fleet: Fleet) -> set[str]:
    """Workspaces that have instances to themselves."""
    return {each.dedicated_to for each in fleet.instances.values() if each.dedicated_to and not each.is_retired}


def _is_served(affinity: Affinity, fleet: Fleet) -> bool:
    """Whether an instance in service may have a new tenant, be it full or leaving."""
    instances = [each for each in fleet.instances.values() if not each.is_retired]
    affinity = affinity.among(instances)
    return any(affinity.admits(each) for each in instances if each.is_in_service)


def _pins_to(row: EngineInstanceRow, fleet: Fleet) -> Iterable[TenantPin]:
    return (each for each in fleet.rules.pins.values() if each.engine_instance_id == row.id)


def _require_instance(workspace: str, after: Fleet) -> None:
    affinity = after.rules.affinity(workspace)
    if _is_served(affinity, after):
        return
    unready = sorted(each.id for each in after.instances.values() if each.is_unready and affinity.admits(each))
    if unready:
        raise Refused(
            f"no engine instance in {affinity} is ready yet that workspace {workspace} may be placed on: "
            f"'gitopsctl engines show {unready[0]}' shows how far that is"
        )
    raise Refused(
        f"there is no engine instance in {affinity} that workspace {workspace} may be placed on; add one with "
        "'gitopsctl engines add'"
    )


def _require_dedicated_admitted(workspace: str, after: Fleet) -> None:
    """Raises Refused if its tenants would be placed on shared instances although it has instances to itself."""
    affinity = after.rules.affinity(workspace)
    own = [each for each in after.instances.values() if each.dedicated_to == workspace and not each.is_retired]
    if own and not any(affinity.admits(each) for each in own):
        raise Refused(
            f"workspace {workspace} has an engine instance to itself, and {affinity.refusal(own[0])}: "
            f"'gitopsctl engines dedicate {own[0].id} --shared' first"
        )


def _require_pins_admitted(workspace: str, after: Fleet) -> None:
    affinity = after.rules.affinity(workspace)
    for pin in sorted(after.rules.pins.values(), key=lambda each: each.tenant):
        refusal = affinity.refusal(after.instances[pin.engine_instance_id]) if pin.workspace == workspace else ""
        if refusal:
            raise Refused(f"tenant {'/'.join(pin.tenant)} is pinned, and {refusal}: {UNPIN} it first")


def _require_pinnable(target: str, order: PinTenant, fleet: Fleet) -> None:
    row = known_instance(target, fleet)
    if row.is_retired or row.is_leaving or row.is_unready:
        raise Refused(state_in_words(row))
    if refusal := fleet.rules.affinity(order.workspace).refusal(row):
        raise Refused(refusal)


def _require_only(workspace: str, row: EngineInstanceRow, fleet: Fleet) -> None:
    """Raises Refused if tenants of others are on, coming to, or pinned to the instance, or have left objects there."""
    on = {tenant.id: name for name, tenant in fleet.tenants.on([row.id]).items()}
    on |= {
        move.tenant_id: (move.workspace, move.namespace)
        for move in fleet.moves.values()
        if not move.is_over and row.id in {move.source, move.target}
    }
    names = {*on.values(), *(pin.tenant for pin in _pins_to(row, fleet))}
    if others := sorted({other for other, _ in names if other != workspace}):
        raise Refused(
            f"engine instance {row.id} has tenants of other workspaces: {', '.join(others)}; once none is pinned, "
            f"'gitopsctl engines drain {row.id}' and {REBALANCE} move them"
        )
    held = fleet.holding(row.id)
    if held.tenants > len(on) or (held.objects and not on):
        raise Refused(f"engine instance {row.id} {LEFT_OBJECTS}")
