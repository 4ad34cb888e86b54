"""The instances of a ring as a rollout sees them: old ones, new ones, and those that it lacks. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid5

from services.common.messages import AddEngineInstance, FleetOrder
from services.planner.domain.fleet.pools.pool_rows import EnginePool, namespace_of
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow, Fleet

ACTOR = "rollout"
"""Who orders the instances that join a ring."""
TAKING = ("accepting", "full")
"""States in which an instance may get tenants of its ring."""
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
    """The instances of ``ring``; those that are drained, retired, failed or being installed are left out.

    So are those that are given up and that nobody reaches: what is on them is not to be moved or looked at.
    """
    members = [row for row in fleet.instances.values() if row.ring == ring and _is_serving(row, fleet)]
    new = [row for row in members if runs(row, rollout, fleet)]
    unknown = [row for row in members if row not in new and row.id not in fleet.health]
    return Ring(
        tuple(row for row in members if row not in new and row not in unknown),
        tuple(row for row in new if row.state in TAKING and not fleet.is_down(row.id)),
        tuple(unknown),
    )


def _is_serving(row: EngineInstanceRow, fleet: Fleet) -> bool:
    if row.is_retired or row.is_unready or row.state == "drained" or row.engine not in fleet.engines:
        return False
    return not (row.is_leaving and fleet.is_out_of_reach(row.id))


def runs(row: EngineInstanceRow, rollout: Rollout, fleet: Fleet) -> bool:
    """Whether an instance is of the rollout's release: as its agent tells, or else as it was ordered."""
    told = fleet.health.get(row.id)
    version = (told.version if told is not None else "") or row.wanted_version or ""
    return (version, row.profile or "") == (rollout.version, rollout.profile)


def release(rollout: Rollout) -> str:
    """What is rolled out, in words."""
    return f"{rollout.version} with profile {rollout.profile}" if rollout.profile else rollout.version


def cell_of(row: EngineInstanceRow) -> Cell:
    """Whose tenants may be on it, whatever they have."""
    return (row.engine_cluster, row.engine, row.engine_class, row.dedicated_to)


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a ring's new instances lack in one of its cells."""

    cell: Cell
    carried: int
    """Applications of the old instances."""
    room: int
    """For Applications."""


def shortages(ring: Ring, fleet: Fleet) -> list[Shortage]:
    """Cells whose new instances have no room for all that the old ones carry; or are none."""
    found = []
    for cell in sorted({cell_of(row) for row in ring.sources}):
        alike = [row for row in ring.targets if cell_of(row) == cell]
        carried = sum(fleet.holding(row.id).deployments for row in ring.sources if cell_of(row) == cell)
        room = sum(max(0, row.capacity - fleet.holding(row.id).deployments) for row in alike)
        if not alike or room < carried:
            found.append(Shortage(cell, carried, room))
    return found


def lacking_room(lacking: Shortage, rollout: Rollout, fleet: Fleet) -> str:
    """A shortage in words, with what becomes of it: an instance is being installed, has failed, or has to be added."""
    cluster, _, engine_class, owner = lacking.cell
    for_whom = f" for workspace {owner}" if owner else ""
    return (
        f"ring {rollout.ring} needs {engine_class} instances of {release(rollout)} in cluster {cluster}{for_whom} with "
        f"room for {lacking.carried} Applications, and has room for {lacking.room}: {_remedy(lacking, rollout, fleet)}"
    )


def _remedy(lacking: Shortage, rollout: Rollout, fleet: Fleet) -> str:
    joining = _joining(lacking, rollout, fleet)
    failed = next((row for row in joining if row.state == "failed"), None)
    if failed is not None:
        return f"engine instance {failed.id} has failed, {failed.state_message}"
    return f"engine instance {joining[0].id} is being installed" if joining else "'gitopsctl engines add' adds one"


def missing_instances(fleet: Fleet, now: datetime) -> list[FleetOrder]:
    """Orders of instances that a provisioner installs, where the ring that is looked at lacks some and has a pool.

    Beyond the limits of the pool, as the old ones go.
    """
    rollout = fleet.rollout
    if rollout is None or rollout.step != "provisioning" or not rollout.is_due(now):
        return []
    ring, orders = ring_of(rollout, rollout.ring, fleet), list[FleetOrder]()
    for lacking in () if ring.unknown else shortages(ring, fleet):
        cluster, engine, engine_class, _ = lacking.cell
        pool = fleet.pools.get((cluster, rollout.ring))
        if pool is None or engine_class != "shared":
            continue
        for name in fleet.next_names(cluster, rollout.ring, _missing_count(lacking, pool, rollout, fleet)):
            wanted = AddEngineInstance(
                id=name,
                engine_cluster=cluster,
                namespace=namespace_of(name),
                engine=engine,
                engine_class=engine_class,
                dedicated_to="",
                ring=rollout.ring,
                capacity=pool.capacity,
                wanted_version=rollout.version,
                profile=rollout.profile,
            )
            orders.append(FleetOrder(uuid5(rollout.id, name), ACTOR, now, wanted))
    return orders


def _missing_count(lacking: Shortage, pool: EnginePool, rollout: Rollout, fleet: Fleet) -> int:
    """How many instances of the pool a cell lacks beside those that join it.

    One that has failed counts: the next would fail likewise.
    """
    joining = _joining(lacking, rollout, fleet)
    missing = lacking.carried - lacking.room - sum(row.capacity for row in joining)
    return math.ceil(missing / pool.capacity) if missing > 0 else int(not joining)


def _joining(lacking: Shortage, rollout: Rollout, fleet: Fleet) -> list[EngineInstanceRow]:
    """New instances of a cell that are being installed, or have failed."""
    return [
        row for row in fleet.instances.values()
        if (cell_of(row), row.ring) == (lacking.cell, rollout.ring) and row.is_unready and runs(row, rollout, fleet)
    ]  # fmt: skip
