"""How even a fleet is, and how many tenants move when an instance joins it or leaves it. Pure: rules and no process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from services.common.messages.compiled import RowKind
from services.planner.domain.fleet.moves.rebalance import PlacedTenant, rebalance
from services.planner.domain.fleet.placement.assignments import Affinity
from services.planner.domain.fleet.placement.placement import place
from services.planner.domain.ids import tenant_id
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant

CLUSTERS = ("north", "south")
SEED = 13
MEASURED_EVERY = 100
"""So many tenants are placed on what was measured last: planners measure every ten seconds."""
MOST_SPREAD = 1.25
MOST_MOVED = 0.15
MOST_TIMES_IDEAL = 1.5


@dataclass(frozen=True, slots=True)
class Change:
    """What an instance that joins or leaves makes of a fleet."""

    name: str
    moved: float
    """Share of all tenants."""
    ideal: float
    """The share that has to move: of an instance that leaves its own tenants, of one that joins an even share."""
    spread: float
    """Afterwards: the load of the fullest instance by that of the average."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A fleet that was filled, and the same after changes."""

    tenants: int
    applications: int
    spread: float
    changes: tuple[Change, ...]


def instances(count: int) -> list[PlacementCandidate]:
    """Of one size, in both clusters by turns."""
    return [
        PlacementCandidate(
            id=f"engine-{number}",
            namespace=f"argocd-{number}",
            accepting=True,
            engine=DEFAULT_ENGINE,
            capacity=5_000,
            engine_cluster=CLUSTERS[number % len(CLUSTERS)],
        )
        for number in range(count)
    ]


def sizes(tenants: int, applications: int) -> list[int]:
    """How many Applications each tenant has: one at least, a few of them many; in an order that is drawn once."""
    drawn = random.Random(SEED)  # noqa: S311 - the same each time
    weights = [1 / (rank + 1) ** 0.5 for rank in range(tenants)]
    more = Counter(drawn.choices(range(tenants), weights, k=max(0, applications - tenants)))
    found = [1 + more[rank] for rank in range(tenants)]
    drawn.shuffle(found)
    return found


def filled(fleet: Sequence[PlacementCandidate], loads: Sequence[int]) -> list[PlacedTenant]:
    """A tenant for each of ``loads``, placed one after the other."""
    carried, measured, placed = Counter[str](), dict[str, int](), []
    for number, load in enumerate(loads):
        if number % MEASURED_EVERY == 0:
            measured = dict(carried)
        workspace = f"workspace-{number}"
        tenant = Tenant(tenant_id(workspace, "default"), workspace, "default", 0, "")
        chosen = place(tenant, fleet, measured).id
        carried[chosen] += load
        placed.append(PlacedTenant(replace(tenant, engine_instance_id=chosen), load, Affinity(workspace)))
    return placed


def spread_of(carried: Mapping[str, int], fleet: Sequence[PlacementCandidate]) -> float:
    """The load of the fullest instance by that of the average."""
    loads = [carried.get(each.id, 0) for each in fleet]
    return max(loads) * len(loads) / sum(loads)


def carried_by(placed: Sequence[PlacedTenant]) -> Counter[str]:
    """The load of each instance."""
    carried = Counter[str]()
    for each in placed:
        carried[each.tenant.engine_instance_id] += each.load
    return carried


def changed(name: str, placed: Sequence[PlacedTenant], fleet: Sequence[PlacementCandidate], ideal: float) -> Change:
    """What becomes of tenants as they are placed, if ``fleet`` is what there is from now on."""
    moves = {move.placed.tenant.id: move.target.id for move in rebalance(placed, fleet, {})}
    carried = Counter[str]()
    for each in placed:
        carried[moves.get(each.tenant.id, each.tenant.engine_instance_id)] += each.load
    staying = [each for each in fleet if not each.leaving]
    return Change(name, len(moves) / len(placed), ideal, spread_of(carried, staying))


def measure(tenants: int, applications: int, count: int) -> Spread:
    """A fleet of ``count`` instances, the same when the last has just joined, and when the last leaves."""
    fleet = instances(count)
    application = ENGINES[DEFAULT_ENGINE].load_of(RowKind.APPLICATION)
    loads = [size * application for size in sizes(tenants, applications)]
    placed, fewer = filled(fleet, loads), filled(fleet[:-1], loads)
    on_last = sum(each.tenant.engine_instance_id == fleet[-1].id for each in placed) / len(placed)
    last_leaves = [*fleet[:-1], replace(fleet[-1], accepting=False, leaving=True)]
    return Spread(
        tenants,
        sum(loads) // application,
        spread_of(carried_by(placed), fleet),
        (
            changed(f"{count - 1} to {count} instances", fewer, fleet, 1 / count),
            changed(f"{count} to {count - 1} instances", placed, last_leaves, on_last),
        ),
    )


def find_exceeded(found: Spread) -> Iterator[str]:
    """Bounds that are not kept, in lines."""
    for name, spread in (("filled", found.spread), *((each.name, each.spread) for each in found.changes)):
        if spread > MOST_SPREAD:
            yield f"{name}: an instance carries {spread:.2f} times the average, more than {MOST_SPREAD}"
    for each in found.changes:
        if each.moved > MOST_MOVED:
            yield f"{each.name}: {each.moved:.1%} of the tenants move, more than {MOST_MOVED:.0%}"
        if each.moved > MOST_TIMES_IDEAL * each.ideal:
            yield f"{each.name}: {each.moved:.1%} of the tenants move, and only {each.ideal:.1%} have to"


def table_of(found: Spread) -> Table:
    """The figures, for people."""
    title = f"Placement of {found.tenants} tenants with {found.applications} Applications"
    table = Table("fleet", "tenants that move", "of which have to", "fullest ÷ average", title=title)
    table.add_row("filled", "", "", f"{found.spread:.3f}")
    for each in found.changes:
        table.add_row(each.name, f"{each.moved:.1%}", f"{each.ideal:.1%}", f"{each.spread:.3f}")
    return table
