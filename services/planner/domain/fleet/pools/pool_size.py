"""How many instances a load needs, and how full one may be. Pure.

By this a pool grows and shrinks, a rollout installs new instances, and an overloaded instance is relieved.
"""

from __future__ import annotations

import math

from services.planner.domain.fleet.placement.measured_load import load_of_deployments
from services.planner.domain.fleet.pools.pool_rows import EnginePool

TARGET, SLACK, OVERLOAD = 0.7, 0.55, 0.85
"""Shares of a capacity. TARGET: what an instance is to carry. SLACK: what the others may carry when one is given up.
OVERLOAD: what an instance carries at most before it is overloaded."""


def lacking_instances(load: int, pool: EnginePool, count: int, capacity: int, share: float = TARGET) -> int:
    """How many more instances the pool needs to carry ``load`` and to have its spare ones, whatever its maximum.

    Args:
        load: as measured.
        pool: its minimum, its spare instances, and the capacity of each that it adds.
        count: how many instances there are.
        capacity: of all of these together, in Applications.
        share: of all capacities together, which the load may take up.
    """
    needed = load / (share * load_of_deployments(1)) + pool.spare * pool.capacity
    return max(math.ceil((needed - capacity) / pool.capacity), pool.minimum - count, 0)


def target_load(capacity: int) -> float:
    """The load that an instance of a capacity, in Applications, is to carry."""
    return TARGET * load_of_deployments(capacity)


def is_overloaded(load: int, capacity: int) -> bool:
    """Whether an instance of a capacity, in Applications, carries more than it should for long."""
    return load > OVERLOAD * load_of_deployments(capacity)
