"""The instances of a ring as a rollout sees them: old ones, and new ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow

Cell = tuple[str, str, str, str]
"""Engine cluster, engine, class and owner: within it a tenant may move whatever it has."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The instances of a ring, as a rollout sees them."""

    sources: tuple[EngineInstanceRow, ...]
    """Those that do not run the version, or of which nobody sees what they run."""
    targets: tuple[EngineInstanceRow, ...]
    """Those that do, and take tenants."""
    unknown: tuple[EngineInstanceRow, ...]
    """Those of which no agent has told anything yet."""


def ring_of(rollout: Rollout, ring: str, fleet: Fleet) -> Ring:
    """The instances of ``ring``; those that are drained, retired or not ready yet are left out.

    So are those that are given up and that nobody reaches: what is on them is not to be moved or looked at.
    """
    members = [row for row in fleet.instances.values() if row.ring == ring and _is_serving(row, fleet)]
    new = [row for row in members if runs(row, rollout, fleet)]
    unknown = [row for row in members if row not in new and row.id not in fleet.health]
    return Ring(
        tuple(row for row in members if row not in new and row not in unknown),
        tuple(row for row in new if row.is_taking and not fleet.is_down(row.id)),
        tuple(unknown),
    )


def _is_serving(row: EngineInstanceRow, fleet: Fleet) -> bool:
    if row.is_retired or row.is_unready or row.state == "drained" or row.engine not in fleet.engines:
        return False
    return not (row.is_leaving and fleet.is_out_of_reach(row.id))


def runs(row: EngineInstanceRow, rollout: Rollout, fleet: Fleet) -> bool:
    """Whether an instance is of the rollout's release: as its agent tells, or else as it was ordered."""
    return fleet.observed_release(row) == rollout.release


def cell_of(row: EngineInstanceRow) -> Cell:
    """The cell that an instance is in: tenants of the others in it may come to it, whatever they have."""
    return (row.engine_cluster, row.engine, row.engine_class, row.dedicated_to)


def drain_instances(instances: Iterable[str], fleet: Fleet) -> Fleet:
    """The fleet with these instances draining: no new tenant is placed on them."""
    for known in sorted(instances):
        row = fleet.instances[known]
        if row.is_taking:
            fleet = fleet.with_instance(replace(row, state="draining"))
    return fleet
