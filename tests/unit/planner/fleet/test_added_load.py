"""What a plan adds to the load that the next tenants are placed by, until that is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from services.planner.domain.events import Event
from services.planner.domain.fleet.placement.placement import bounds_of
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.pipeline.batch_planning import plan_batch
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.given import changed, gone, spec
from tests.unit.planner.world import FLEET, NOW, World

APPLICATION, PROJECT = 10, 1
THREE = [replace(FLEET[0], id=f"engine-{number}", namespace=f"argocd-{number}") for number in range(3)]
EMPTIEST = "engine-2"
TENANTS = 1000


@dataclass
class MeasuredWorld(World):
    """A planner that has measured what instances carry, and keeps what its plans add."""

    load: Mapping[str, int] = field(default_factory=dict)

    @property
    def view(self) -> PlacementView:
        return replace(super().view, load=self.load)

    def plan(self, *events: Event) -> Mapping[str, int]:
        """One batch; what that adds."""
        changes = plan_batch(events, self, self.policy, NOW)
        self.save_changes(changes)
        self.load = self.view.with_added_load(changes.added_load).load
        return changes.added_load


@pytest.mark.parametrize("batches", [1, 10])
def test_tenants_when_many_come_between_two_measurements_then_no_instance_is_beyond_its_bound(batches: int) -> None:
    stale = {each.id: 2000 for each in THREE if each.id != EMPTIEST}
    world = MeasuredWorld(THREE, load=stale)
    for batch in range(batches):
        names = [f"team-{number}" for number in range(batch, TENANTS, batches)]
        world.plan(*(changed(1, namespace=name, uid=name) for name in names))
    placed = Counter(each.engine_instance_id for each in world.tenants.values())
    assert placed.total() == TENANTS
    of_one = APPLICATION + PROJECT
    carried = {each.id: stale.get(each.id, 0) + of_one * placed[each.id] for each in THREE}
    bounds = bounds_of(THREE, carried)
    assert max(carried[each] - bounds[each] for each in carried) <= of_one
    assert carried == world.load


def test_deployment_when_it_is_new_then_its_instance_carries_more_and_once_it_is_known_no_more() -> None:
    world = MeasuredWorld(FLEET[:1])
    here = FLEET[0].id
    assert world.plan(changed(1)) == {here: APPLICATION + PROJECT}
    assert world.plan(changed(2, "api", uid="uid-2")) == {here: APPLICATION}
    assert world.plan(changed(3, generation=2, content=spec(source={"path": "apps/other"}))) == {}
    assert world.plan(gone(4, "api", uid="uid-2")) == {}


def test_tenant_when_it_is_new_and_deploys_nothing_yet_then_it_counts_as_one_deployment() -> None:
    world = MeasuredWorld(FLEET[:1])
    assert world.plan(changed(1, content=spec(type="neither"))) == {FLEET[0].id: APPLICATION}


def test_tenant_when_it_is_moved_then_what_that_brings_was_measured_when_it_was_ordered() -> None:
    world = MeasuredWorld(FLEET)
    world.plan(changed(1))
    (tenant,) = world.tenants.values()
    target = next(each.id for each in FLEET if each.id != tenant.engine_instance_id)
    move = replace(MOVE, tenant_id=tenant.id, source=tenant.engine_instance_id, target=target, step="reserved")
    world.moves[move.id] = move
    world.memory.clear()
    assert world.plan(changed(2, "api", uid="uid-2")) == {}
