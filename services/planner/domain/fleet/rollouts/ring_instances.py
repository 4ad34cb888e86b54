"""The old and the new instances of a ring in a rollout. Pure."""

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
    """Old instances: they do not run the rollout's release, or nobody knows what they run."""
    targets: tuple[EngineInstanceRow, ...]
    """New instances: they run the release, take tenants, and are up."""
    unknown: tuple[EngineInstanceRow, ...]
    """Instances that no agent has reported on yet."""


def ring_of(rollout: Rollout, ring: str, fleet: Fleet) -> Ring:
    """The instances of ``ring``, without those that are drained, retired or not ready yet.

    Instances that are draining and out of reach are left out, too: nothing on them can be moved or judged.
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
    """Whether an instance is of the rollout's release: as its agent reports, or else as it was ordered."""
    return fleet.observed_release(row) == rollout.release


def cell_of(row: EngineInstanceRow) -> Cell:
    """The cell of an instance: tenants of the other instances in the cell may move to it, whatever they have."""
    return (row.engine_cluster, row.engine, row.engine_class, row.dedicated_to)


def drain_instances(instances: Iterable[str], fleet: Fleet) -> Fleet:
    """The fleet with these instances draining: no new tenant is placed on them."""
    for instance in sorted(instances):
        row = fleet.instances[instance]
        if row.is_taking:
            fleet = fleet.with_instance(replace(row, state="draining"))
    return fleet
