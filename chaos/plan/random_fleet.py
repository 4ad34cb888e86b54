"""What an operator of the fleet does by chance: moves of tenants, and instances that are emptied and filled. Pure."""

from __future__ import annotations

from random import Random

from chaos.plan.chance import one_in
from chaos.plan.operations import DrainInstance, MoveTenant, Operation, ReplaceInstance, UndrainInstance

INSTANCES = 2
"""Of engines in the stack."""
CANCELLED = 3
"""One in so many moves is taken back."""
LATEST_SECONDS = 0.5
"""After which that comes: a small tenant has been moved by then."""
REPLACED = 3
"""One in so many instances that are emptied is given up for another one."""
OPERATORS_TURN = 0
"""The tenant in whose turn instances are emptied and filled: one after the other, so that one always accepts."""


def move(random: Random, tenant: int) -> MoveTenant:
    """Of one tenant."""
    cancelled_after = round(random.uniform(0, LATEST_SECONDS), 2) if one_in(random, CANCELLED) else None
    return MoveTenant(tenant, cancelled_after)


class Emptied:
    """One instance at a time is emptied: it, or another one in its place, accepts again before the next one is."""

    def __init__(self) -> None:
        self._drained: int | None = None

    def make(self, random: Random, _tenant: int) -> Operation:
        """The next one."""
        if self._drained is not None:
            undrained, self._drained = self._drained, None
            return UndrainInstance(OPERATORS_TURN, undrained)
        instance = random.randrange(INSTANCES)
        if one_in(random, REPLACED):
            return ReplaceInstance(OPERATORS_TURN, instance)
        self._drained = instance
        return DrainInstance(OPERATORS_TURN, instance)
