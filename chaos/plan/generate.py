"""From a seed to a plan. Pure: the same seed and size make the same plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from chaos.plan.operations import Operation
from chaos.plan.plan import Plan, Step
from chaos.plan.random_faults import overlapping, random_faults
from chaos.plan.random_operations import random_operations
from chaos.plan.size import Size, Targets


def generate(seed: int, size: Size, targets: Targets) -> Plan:
    """The plan of ``seed``. Its faults do not depend on what is done meanwhile."""
    of_users, of_faults = Random(seed), Random(f"faults of {seed}")  # noqa: S311 - to be repeated, not to be secret
    operations = list(islice(random_operations(of_users, size, targets), size.operations))
    faults = list(overlapping(of_faults, list(islice(random_faults(of_faults, targets), size.faults))))
    return Plan(seed, tuple(_spread(operations, faults)))


def _spread(operations: list[Operation], faults: list[tuple[Step, ...]]) -> Iterator[Step]:
    """The first faults come when there is something to lose, the last before the end."""
    distance = len(operations) / (len(faults) + 1)
    due = {round(distance * (number + 1)): number for number in range(len(faults))}
    for position, operation in enumerate(operations):
        if position in due:
            yield from faults[due[position]]
        yield operation
