"""Where a new tenant goes: the first instance of its own order that is not loaded beyond the others.

A tenant has an order of all instances, in which others keep their places when one comes or goes (rendezvous hashing,
weighted by capacity). It goes to the first that carries at most 1.25 times its share of the load then (bounded load).
So tenants spread evenly, an instance that is added draws its own share and no more, and from the same values the same
placement follows. One that is down is passed over while others of the tenant's work. Instances outside the region and
the ring that the workspace is assigned to are none for it, whatever the state of the others is; likewise shared ones,
if it has an instance to itself. Those of the engine clusters that have its namespace come before all others.

Load is what ``measured_load`` makes of the objects that an instance holds for tenants, and of its queue, with what
was sent there since (``added_load``).

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
"""Times its share of the load: an instance that would carry more is passed over."""
_HASH_BYTES = 6
"""As many as a float holds exactly."""


def place(
    tenant: Tenant,
    instances: Iterable[PlacementCandidate],
    load: Mapping[str, int],
    affinity: Affinity | None = None,
    preferred: Collection[str] = (),
) -> PlacementCandidate:
    """The instance for a tenant that has nothing yet.

    Args:
        tenant: who is to be placed.
        instances: all that there are.
        load: by instance id; an instance that is not in it has none.
        affinity: which of the instances may have it; None: all that are not another workspace's.
        preferred: engine clusters whose instances have it, while there are any that may, and that tenants stay on.

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
    """Ids of those that are down, unless they are so many that they are down for one reason, which may be ours.

    To place all tenants on the others would then be wrong twice: that does not help, and those have to carry it. One
    that is drained does not count: it may stay down, as what a failed rollout leaves.
    """
    counted = [each for each in instances if not each.drained]
    if is_cause_shared(sum(each.is_down for each in counted), len(counted)):
        return frozenset()
    return {each.id for each in instances if each.is_down}


def candidates_of(
    affinity: Affinity, instances: Collection[PlacementCandidate], is_open: Callable[[PlacementCandidate], bool]
) -> Collection[PlacementCandidate]:
    """The open ones of those that an affinity ``among`` them admits; none that is not ready.

    While none is open, any of these will do, or a new tenant would have to wait.
    """
    admitted = [instance for instance in instances if affinity.admits(instance) and not instance.unready]
    return [instance for instance in admitted if is_open(instance)] or admitted


def _accepting(affinity: Affinity, instances: Collection[PlacementCandidate]) -> Collection[PlacementCandidate]:
    return candidates_of(affinity, instances, lambda each: each.accepting)


def order_of(tenant: UUID, instances: Iterable[PlacementCandidate]) -> list[PlacementCandidate]:
    """``instances``, the tenant's first choice first. A total order: no two instances have one id."""
    return sorted(instances, key=lambda each: (-_score(tenant, each), each.id))


def _score(tenant: UUID, instance: PlacementCandidate) -> float:
    """An instance of twice the capacity is the first choice of twice as many tenants."""
    drawn = int.from_bytes(hashlib.blake2b(tenant.bytes + instance.id.encode(), digest_size=_HASH_BYTES).digest())
    return -instance.capacity / math.log((drawn + 0.5) / 256**_HASH_BYTES)


def first_within_bound(ordered: Collection[PlacementCandidate], load: Mapping[str, int]) -> PlacementCandidate:
    """The first that is within its bound with one unit more. Bounds are rounded up, so the least loaded one is."""
    most = bounds_of(ordered, load)
    return next(each for each in ordered if load.get(each.id, 0) + 1 <= most[each.id])


def bounds_of(instances: Collection[PlacementCandidate], load: Mapping[str, int], more: int = 1) -> dict[str, int]:
    """What each may carry at most, by its id: :data:`BOUND` times its share of what all carry, and of ``more``."""
    capacity = sum(each.capacity for each in instances)
    total = more + sum(load.get(each.id, 0) for each in instances)
    return {each.id: math.ceil(BOUND * total * each.capacity / capacity) for each in instances}
