"""What of a ring's instances does not work, and what a rollout makes of that: wait, stop, or go on without it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from services.planner.domain.fleet.rollouts.ring_instances import cell_of
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import SILENT, EngineInstanceRow, Fleet


class Trouble(NamedTuple):
    """An instance of a ring that does not work."""

    reason: str = ""
    """Which, and why; empty: none that matters."""
    is_of_version: bool = False
    """Whether that says something of the version."""


def find_trouble(rollout: Rollout, fleet: Fleet) -> Trouble:
    """A new instance that is down by its own agent's word, while the old ones work, says something of the version.

    All else has to be over first. An old instance that nobody is on any more is not waited for; that it is down, too,
    says that the cause is shared if no other one works.
    """
    inhabited, is_any_up = _inhabited(fleet), bool(_up(rollout, fleet))
    old = [each for each in _down(rollout.source_ids, fleet) if each in inhabited or not is_any_up]
    new = _down(rollout.target_ids, fleet)
    told = [each for each in new if fleet.health[each].reason != SILENT]
    if told and not old:
        return Trouble(fleet.down_in_words(told[0]), is_of_version=True)
    waited_for = [*(each for each in old if told or each in inhabited), *new]
    return Trouble(fleet.down_in_words(waited_for[0])) if waited_for else Trouble()


def occupied(instances: Iterable[str], fleet: Fleet) -> list[str]:
    """Those with tenants, or with objects of tenants that have left."""
    return sorted(each for each in instances if fleet.holding(each).tenants or fleet.holding(each).objects)


def left_behind(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """Old instances that nobody reaches, and that no tenant is on: only what their agents have to remove yet."""
    left = occupied(rollout.source_ids - _inhabited(fleet), fleet)
    return frozenset(each for each in left if fleet.is_out_of_reach(each))


def without_way_back(rollout: Rollout, fleet: Fleet) -> frozenset[str]:
    """New instances whose tenants have no old one to go back to: all of their cell are down, or retired."""
    up = {cell_of(row) for row in _up(rollout, fleet)}
    return frozenset(each for each in rollout.target_ids if cell_of(fleet.instances[each]) not in up)


def _up(rollout: Rollout, fleet: Fleet) -> list[EngineInstanceRow]:
    """Old instances that are not down."""
    old = [fleet.instances[each] for each in rollout.source_ids]
    return [row for row in old if not (row.is_retired or fleet.is_down(row.id))]


def _down(instances: Iterable[str], fleet: Fleet) -> list[str]:
    return sorted(each for each in instances if fleet.is_down(each) and not fleet.instances[each].is_retired)


def _inhabited(fleet: Fleet) -> frozenset[str]:
    return frozenset(each.engine_instance_id for each in fleet.tenants.values())
