"""Which instances of a ring do not work, and whether a rollout waits for them, stops, or goes on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.ring_instances import Cell, cell_of
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow

REPORTED_OF_ALL_AFTER = timedelta(seconds=20)
"""How long until what befalls several instances at once is reported of all of them: two of the intervals at which
agents measure each instance (their setting ``HEALTH_INTERVAL_SECONDS``, 10)."""


class Trouble(NamedTuple):
    """An instance of a ring that is down or ill, if there is one."""

    reason: str = ""
    """Which instance, and why, in words; empty: there is none that the rollout waits for."""
    is_of_version: bool = False
    """Whether the version is taken to be the cause."""


def find_trouble(rollout: Rollout, fleet: Fleet, now: datetime) -> Trouble:
    """An instance of the ring that is down, if the rollout has to stop or to wait for it.

    The version is taken to be the cause if a new instance has been down for a while, its agent says so, and an old
    instance of its cell has been up for a while. It has to be a while, because what befalls all instances is not
    reported of each at the same moment, nor is its end. An instance that is out of reach says nothing about the
    version: the cause is its cluster, or its agent. If the cell has no old instance, there is nothing to compare with.

    In all other cases the rollout waits until the instances are up again. It does not wait for an old instance without
    tenants, unless a new one of its cell is down and no old one works: then the cause is shared.
    """

    def is_proof(row: EngineInstanceRow) -> bool:
        return not fleet.is_down(row.id) and _is_lasting(row.id, REPORTED_OF_ALL_AFTER, fleet, now)

    inhabited = _instances_with_tenants(rollout, fleet)
    old, new = _find_down(rollout.source_ids, fleet), _find_down(rollout.target_ids, fleet)
    proven = _cells_with_proof(rollout, fleet, is_proof)
    of_version = [
        each
        for each in new
        if not fleet.is_out_of_reach(each)
        and _is_lasting(each, REPORTED_OF_ALL_AFTER, fleet, now)
        and _cell_of_id(each, fleet) in proven
    ]
    if of_version and inhabited.isdisjoint(old):
        return Trouble(fleet.down_in_words(of_version[0]), is_of_version=True)
    shared = {_cell_of_id(each, fleet) for each in new} - proven
    waited_for = [*(each for each in old if each in inhabited or _cell_of_id(each, fleet) in shared), *new]
    return Trouble(fleet.down_in_words(waited_for[0])) if waited_for else Trouble()


def find_illness(rollout: Rollout, fleet: Fleet, now: datetime, patience: timedelta, late: Collection[str]) -> Trouble:
    """A new instance with tenants that is ill or cordoned, if there is one.

    The version is taken to be the cause if the instance is ``late`` to be well again, and an old one of its cell has
    been well, without a cordon, for ``patience``, which is how long recovery may take after something that befell all.
    If the old ones are ill as well, or if there is none, there is nothing to compare with.
    """

    def is_proof(row: EngineInstanceRow) -> bool:
        return fleet.is_well(row.id) and _is_lasting(row.id, patience, fleet, now)

    ill = sorted(
        each for each in rollout.target_ids & _instances_with_tenants(rollout, fleet) if not fleet.is_well(each)
    )
    if not ill:
        return Trouble()
    proven = _cells_with_proof(rollout, fleet, is_proof)
    of_version = [each for each in ill if each in late and _cell_of_id(each, fleet) in proven]
    return Trouble(fleet.ill_in_words([*of_version, *ill][0]), is_of_version=bool(of_version))


def _cells_with_proof(rollout: Rollout, fleet: Fleet, is_proof: Callable[[EngineInstanceRow], bool]) -> set[Cell]:
    """Cells with an old instance that works, which proves that a new one of the cell is down or ill by its version."""
    return {cell_of(row) for row in _old_in_service(rollout, fleet) if is_proof(row)}


def _is_lasting(instance: str, time: timedelta, fleet: Fleet, now: datetime) -> bool:
    """Whether an instance has had its present health for ``time``."""
    health = fleet.health.get(instance)
    return health is None or now - health.since >= time


def _cell_of_id(instance: str, fleet: Fleet) -> Cell:
    return cell_of(fleet.instances[instance])


def occupied(instances: Iterable[str], fleet: Fleet) -> list[str]:
    """Ids of the instances with tenants, or with objects of tenants that have left."""
    return sorted(each for each in instances if fleet.holding(each).tenants or fleet.holding(each).objects)


def left_behind(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """Ids of old instances out of reach without tenants: they hold only what their agents have still to remove."""
    left = occupied(rollout.source_ids - _instances_with_tenants(rollout, fleet), fleet)
    return frozenset(each for each in left if fleet.is_out_of_reach(each))


def without_old(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """Ids of new instances whose cell has no old one, up or down: no tenant came from one, and none can go back."""
    cells = {cell_of(row) for row in _old_in_service(rollout, fleet)}
    return frozenset(each for each in rollout.target_ids if _cell_of_id(each, fleet) not in cells)


def without_way_back(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """Ids of new instances whose tenants cannot go back now: all old instances of the cell are down or retired."""
    up = {cell_of(row) for row in _old_that_are_up(rollout, fleet)}
    return frozenset(each for each in rollout.target_ids if _cell_of_id(each, fleet) not in up)


def _old_in_service(rollout: Rollout, fleet: Fleet) -> list[EngineInstanceRow]:
    """Old instances that are not retired."""
    return [row for each in rollout.source_ids if not (row := fleet.instances[each]).is_retired]


def _old_that_are_up(rollout: Rollout, fleet: Fleet) -> list[EngineInstanceRow]:
    """Old instances that are neither retired nor down."""
    return [row for row in _old_in_service(rollout, fleet) if not fleet.is_down(row.id)]


def _find_down(instances: Iterable[str], fleet: Fleet) -> list[str]:
    return sorted(each for each in instances if fleet.is_down(each) and not fleet.instances[each].is_retired)


def _instances_with_tenants(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    tenants = fleet.tenants.on(rollout.source_ids | rollout.target_ids)
    return frozenset(each.engine_instance_id for each in tenants.values())
