"""How many instances carry a load, and how much of its capacity one may be full. Pure.

A pool grows and shrinks by it, a rollout installs new instances by it, and an overloaded instance is relieved by it.
"""

from __future__ import annotations

import math

from services.planner.domain.fleet.placement.measured_load import load_of_deployments
from services.planner.domain.fleet.pools.pool_rows import EnginePool

TARGET, SLACK, OVERLOAD = 0.7, 0.55, 0.85
"""Shares of a capacity: what an instance is to carry, what those that stay may carry when one is given up, and beyond
what an instance is overloaded."""


def lacking_instances(load: int, pool: EnginePool, count: int, capacity: int, share: float = TARGET) -> int:
    """How many more instances the pool needs, whatever its limit, to carry ``load`` and to have its spare ones.

    Args:
        load: as measured.
        pool: what its instances have that are added.
        count: how many there are.
        capacity: of all of these together, in Applications.
        share: of all capacities, at which they are to carry it.
    """
    needed = load / (share * load_of_deployments(1)) + pool.spare * pool.capacity
    return max(math.ceil((needed - capacity) / pool.capacity), pool.minimum - count, 0)


def target_load(capacity: int) -> float:
    """The load that an instance of a capacity, in Applications, is to carry."""
    return TARGET * load_of_deployments(capacity)


def is_overloaded(load: int, capacity: int) -> bool:
    """Whether an instance of a capacity, in Applications, carries more than it should for long."""
    return load > OVERLOAD * load_of_deployments(capacity)
