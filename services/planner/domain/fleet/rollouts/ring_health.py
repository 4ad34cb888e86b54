"""What of a ring's instances does not work, and what a rollout makes of that: wait, stop, or go on without it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.ring_instances import Cell, cell_of
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow

TOLD_OF_ALL_AFTER = timedelta(seconds=20)
"""Two of the intervals at which agents measure (``HEALTH_INTERVAL_SECONDS`` of theirs, 10): each instance has its own,
and what befalls several at once is told of all of them by then."""


class Trouble(NamedTuple):
    """An instance of a ring that does not work, or is not well."""

    reason: str = ""
    """Which, and why; empty: none that matters."""
    is_of_version: bool = False
    """Whether that says something of the version."""


def find_trouble(rollout: Rollout, fleet: Fleet, now: datetime) -> Trouble:
    """A new instance that is down by its own agent's word, while the old ones work, says something of the version.

    One that is out of reach does not: that is its cluster, or its agent. It is compared with the old ones of its cell,
    and only when it has been down, and one of them up, for a while: what befalls all of them is not told of each in the
    same moment, nor is its end. Where no old one is, nothing can be compared, and it is waited for.
    All else has to be over first. An old instance that nobody is on any more is not waited for; that it is down, too,
    says that the cause is shared if no other one of its cell works.
    """

    def is_proof(row: EngineInstanceRow) -> bool:
        return not fleet.is_down(row.id) and _is_lasting(row.id, TOLD_OF_ALL_AFTER, fleet, now)

    inhabited = _instances_with_tenants(rollout, fleet)
    old, new = _find_down(rollout.source_ids, fleet), _find_down(rollout.target_ids, fleet)
    proven = _cells_with_proof(rollout, fleet, is_proof)
    of_version = [
        each
        for each in new
        if not fleet.is_out_of_reach(each)
        and _is_lasting(each, TOLD_OF_ALL_AFTER, fleet, now)
        and _cell_of_id(each, fleet) in proven
    ]
    if of_version and inhabited.isdisjoint(old):
        return Trouble(fleet.down_in_words(of_version[0]), is_of_version=True)
    shared = {_cell_of_id(each, fleet) for each in new} - proven
    waited_for = [*(each for each in old if each in inhabited or _cell_of_id(each, fleet) in shared), *new]
    return Trouble(fleet.down_in_words(waited_for[0])) if waited_for else Trouble()


def find_illness(rollout: Rollout, fleet: Fleet, now: datetime, patience: timedelta, late: Collection[str]) -> Trouble:
    """A new instance with tenants that is ill, as remediation has it, or that this keeps new tenants from.

    It says something of the version if it is ``late`` to be well again, and an old one of its cell has been well for
    ``patience``, the time that this may take, its cordon included, after what has befallen all. Where the old ones are
    as ill, or where there is none, nothing can be compared.
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
    """Cells with an old instance that is a proof that what is wrong there is the version."""
    return {cell_of(row) for row in _old_in_service(rollout, fleet) if is_proof(row)}


def _is_lasting(instance: str, time: timedelta, fleet: Fleet, now: datetime) -> bool:
    """Whether it has been as it is for so long."""
    health = fleet.health.get(instance)
    return health is None or now - health.since >= time


def _cell_of_id(instance: str, fleet: Fleet) -> Cell:
    return cell_of(fleet.instances[instance])


def occupied(instances: Iterable[str], fleet: Fleet) -> list[str]:
    """Those with tenants, or with objects of tenants that have left."""
    return sorted(each for each in instances if fleet.holding(each).tenants or fleet.holding(each).objects)


def left_behind(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """Old instances that nobody reaches, and that no tenant is on: only what their agents have to remove yet."""
    left = occupied(rollout.source_ids - _instances_with_tenants(rollout, fleet), fleet)
    return frozenset(each for each in left if fleet.is_out_of_reach(each))


def without_old(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """New instances in whose cell no old one is, up or down: nobody has come to them from one, or can go back."""
    cells = {cell_of(row) for row in _old_in_service(rollout, fleet)}
    return frozenset(each for each in rollout.target_ids if _cell_of_id(each, fleet) not in cells)


def without_way_back(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """New instances whose tenants have no old one to go back to: all of their cell are down, or retired."""
    up = {cell_of(row) for row in _old_that_are_up(rollout, fleet)}
    return frozenset(each for each in rollout.target_ids if _cell_of_id(each, fleet) not in up)


def _old_in_service(rollout: Rollout, fleet: Fleet) -> list[EngineInstanceRow]:
    """Old instances that are not retired."""
    return [row for each in rollout.source_ids if not (row := fleet.instances[each]).is_retired]


def _old_that_are_up(rollout: Rollout, fleet: Fleet) -> list[EngineInstanceRow]:
    """Those of them that are not down."""
    return [row for row in _old_in_service(rollout, fleet) if not fleet.is_down(row.id)]


def _find_down(instances: Iterable[str], fleet: Fleet) -> list[str]:
    return sorted(each for each in instances if fleet.is_down(each) and not fleet.instances[each].is_retired)


def _instances_with_tenants(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    tenants = fleet.tenants.on(rollout.source_ids | rollout.target_ids)
    return frozenset(each.engine_instance_id for each in tenants.values())
