"""Where a new tenant goes: to the first instance of its own order that is not loaded beyond the others.

Each tenant has an order of all instances, in which the others keep their places when one comes or goes (rendezvous
hashing, weighted by capacity). It goes to the first instance that then carries at most 1.25 times its share of the load
(bounded load). So tenants spread evenly, an instance that is added draws its own share and no more, and the same values
give the same placement.

An instance that is down is passed over while another works. An instance outside the region and the ring of the
tenant's workspace never has the tenant, whatever the state of the others; nor does a shared one, if the workspace has
an instance to itself. Instances of the engine clusters with the tenant's namespace come first.

An instance's load is that of its tenants' objects and its queue (``measured_load.py``), and of what was placed there
since the last measurement (``added_load.py``).

Source: Mirrokni, Thorup and Zadimoghaddam, Consistent Hashing with Bounded Loads (2016), here with rendezvous order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from services.common.errors import Wait
from services.planner.domain.fleet.placement.assignments import Affinity
from services.planner.domain.fleet.shared_cause import is_cause_shared
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant

BOUND = 1.25
"""How many times its share of the load an instance may carry before it is passed over."""
_HASH_BYTES = 6
"""As many bytes as a float holds exactly."""


def place(
    tenant: Tenant,
    instances: Iterable[PlacementCandidate],
    load: Mapping[str, int],
    affinity: Affinity | None = None,
    preferred: Collection[str] = (),
) -> PlacementCandidate:
    """The instance for a tenant that has nothing yet.

    Args:
        tenant: the tenant to be placed.
        instances: all that there are.
        load: by instance id; an instance that is missing carries nothing.
        affinity: which instances may have the tenant; None: all that are not dedicated to another workspace.
        preferred: ids of engine clusters whose instances come first.

    Raises:
        Wait: there is no instance for it.
    """
    instances = tuple(instances)
    affinity = (affinity or Affinity(tenant.workspace)).among(instances)
    near = [each for each in instances if each.engine_cluster in preferred and not each.leaving]
    candidates = _accepting(affinity, near) or _accepting(affinity, instances)
    if not candidates and affinity.has_own:
        raise Wait(f"no engine instance that workspace {tenant.workspace} has to itself in {affinity} is ready")
    if not candidates:
        raise Wait(f"there is no engine instance for it in {affinity}; add one with 'gitopsctl engines add'")
    down = passed_over([each for each in instances if not each.unready])
    working = [each for each in candidates if each.id not in down]
    return first_within_bound(order_of(tenant.id, working or candidates), load)


def passed_over(instances: Collection[PlacementCandidate]) -> Collection[str]:
    """Ids of instances that are down, unless so many are down that they share the cause.

    In that case it would not help to place all tenants on the others, and these would carry too much. Drained instances
    do not count: what a failed rollout leaves may stay down.
    """
    counted = [each for each in instances if not each.drained]
    if is_cause_shared(sum(each.is_down for each in counted), len(counted)):
        return frozenset()
    return {each.id for each in instances if each.is_down}


def candidates_of(
    affinity: Affinity, instances: Collection[PlacementCandidate], is_open: Callable[[PlacementCandidate], bool]
) -> Collection[PlacementCandidate]:
    """The open instances of those that are ready and that the affinity admits.

    If none is open, these are all that are ready and admitted, so that a new tenant does not have to wait.
    """
    admitted = [instance for instance in instances if affinity.admits(instance) and not instance.unready]
    return [instance for instance in admitted if is_open(instance)] or admitted


def _accepting(affinity: Affinity, instances: Collection[PlacementCandidate]) -> Collection[PlacementCandidate]:
    return candidates_of(affinity, instances, lambda each: each.accepting)


def order_of(tenant: UUID, instances: Iterable[PlacementCandidate]) -> list[PlacementCandidate]:
    """``instances`` in the tenant's own order. It is total, because ids are unique."""
    return sorted(instances, key=lambda each: (-_score(tenant, each), each.id))


def _score(tenant: UUID, instance: PlacementCandidate) -> float:
    """The rank of an instance: one of twice the capacity is the first choice of twice as many tenants."""
    drawn = int.from_bytes(hashlib.blake2b(tenant.bytes + instance.id.encode(), digest_size=_HASH_BYTES).digest())
    return -instance.capacity / math.log((drawn + 0.5) / 256**_HASH_BYTES)


def first_within_bound(ordered: Collection[PlacementCandidate], load: Mapping[str, int]) -> PlacementCandidate:
    """The first instance that is within its bound with one unit more; as bounds are rounded up, there is always one."""
    most = bounds_of(ordered, load)
    return next(each for each in ordered if load.get(each.id, 0) + 1 <= most[each.id])


def bounds_of(instances: Collection[PlacementCandidate], load: Mapping[str, int], more: int = 1) -> dict[str, int]:
    """What each instance may carry, by its id: :data:`BOUND` times its share of what all carry and of ``more``."""
    capacity = sum(each.capacity for each in instances)
    total = more + sum(load.get(each.id, 0) for each in instances)
    return {each.id: math.ceil(BOUND * total * each.capacity / capacity) for each in instances}
