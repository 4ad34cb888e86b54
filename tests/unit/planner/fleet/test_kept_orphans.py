"""What agents keep though no row desires it is remembered; an approval of exactly that becomes a row."""

from __future__ import annotations

import orjson

from services.common.messages import ORPHAN_REMOVAL, Command, Observation, OrphansApproved, OrphansKept
from services.planner.domain.events import Event
from services.planner.domain.fleet.reports.report_rows import KeptOrphans
from tests.unit.planner.given import at, changed, traceparent
from tests.unit.planner.world import World

INSTANCE = "engine-1"
ONE, TWO = "Application/gitopsdepl-one", "Secret/two"


def kept(second: int, *objects: str, finished: tuple[str, ...] = (), instance: str = INSTANCE) -> Event:
    event = OrphansKept(100, len(objects), objects, finished)
    return Event(Observation("", "", instance, "", "", at(second), event), 3, traceparent(second))


def approved(second: int, digest: str, instance: str = INSTANCE) -> Event:
    message = Command("", "", "", at(second), OrphansApproved(instance, digest))
    return Event(message, 3, traceparent(second))


def only(world: World) -> KeptOrphans:
    (row,) = world.kept_orphans.values()
    return row


def approvals(world: World) -> dict[str, list[str]]:
    """Of each approval, by its digest, what may go."""
    rows = [row for row in world.engine.values() if row.kind == ORPHAN_REMOVAL]
    return {row.name: orjson.loads(row.manifest)["objects"] for row in rows}


def test_orphans_when_an_agent_keeps_them_then_they_are_remembered_until_it_keeps_none() -> None:
    world = World()
    world.take(kept(1, TWO, ONE))
    row = only(world)
    assert (row.engine_instance_id, row.partition, row.existing, row.total) == (INSTANCE, 3, 100, 2)
    assert orjson.loads(row.objects) == [ONE, TWO]
    world.take(kept(2))
    assert world.kept_orphans == {}


def test_orphans_when_an_agent_tells_of_them_then_no_tenant_is_made() -> None:
    world = World()
    written = world.take(kept(1, ONE), approved(2, "unknown"))
    assert (written.tenants, written.parked) == ((), ())


def test_name_when_the_same_is_kept_then_it_is_the_same_and_else_another() -> None:
    digests = []
    for event in (kept(1, ONE), kept(2, ONE), kept(3, ONE, TWO), kept(4, ONE, instance="engine-2")):
        world = World()
        world.take(event)
        digests.append(only(world).digest)
    assert digests[0] == digests[1]
    assert len({*digests}) == 3


def test_removal_when_what_is_kept_is_approved_then_its_agent_gets_a_row_that_names_it() -> None:
    world = World()
    world.take(kept(1, ONE, TWO))
    digest = only(world).digest
    world.take(approved(2, digest))
    assert approvals(world) == {digest: [ONE, TWO]}
    assert {row.engine_instance_id for row in world.engine.values()} == {INSTANCE}


def test_removal_when_something_else_is_kept_by_then_then_the_approval_counts_for_nothing() -> None:
    world = World()
    world.take(kept(1, ONE))
    digest = only(world).digest
    world.take(kept(2, ONE, TWO), approved(3, digest))
    assert approvals(world) == {}
    world.take(kept(4), approved(5, digest))
    assert approvals(world) == {}


def test_removal_when_the_approval_is_for_another_instance_then_nothing_goes() -> None:
    world = World()
    world.take(kept(1, ONE))
    world.take(approved(2, only(world).digest, "engine-2"))
    assert approvals(world) == {}


def test_approval_when_its_agent_has_finished_then_its_row_goes_and_no_other() -> None:
    world = World()
    world.take(kept(1, ONE))
    first = only(world).digest
    world.take(approved(2, first))
    world.take(kept(3, TWO))
    second = only(world).digest
    world.take(approved(4, second), changed(5))
    world.take(kept(6, TWO, finished=(first,)))
    assert approvals(world) == {second: [TWO]}
    assert "gitopsdepl-uid-1" in {row.name for row in world.engine.values()}


def test_reports_when_several_of_an_instance_are_in_a_batch_then_the_last_counts() -> None:
    world = World()
    written = world.take(kept(1, ONE, finished=("a",)), kept(2, ONE, TWO, finished=("b",)), kept(3, TWO))
    assert [orjson.loads(row.objects) for row in written.kept_orphans] == [[TWO]]
    assert {key.name for key in written.engine_gone} == {"a", "b"}
    written = world.take(kept(4, ONE), kept(5, finished=("c",)))
    assert (written.kept_orphans, written.kept_orphans_gone) == ((), (INSTANCE,))


def test_orphans_when_an_agent_tells_of_an_instance_that_there_is_not_then_they_are_passed_over() -> None:
    """A row for them could not say where it is streamed to, and the batch would fail."""
    world = World()
    world.take(kept(1, ONE, instance="invented"))
    assert world.kept_orphans == {}
