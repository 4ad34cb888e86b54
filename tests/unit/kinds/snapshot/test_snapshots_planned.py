"""Snapshots: ten thousand of a tenant are known, and none is at hand unless something names it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.kind import CustomKind, Reference
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.text import MAX_COMPONENTS, MAX_IMAGE, MAX_LABEL
from services.kinds.snapshot.kind import KIND
from services.kinds.snapshot.model import SNAPSHOT, SnapshotSpec
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.domain.steps.quotas import KEPT_BEYOND_QUOTA
from services.watcher.commands.translation import spec_within
from tests.unit.kinds.toy.kind import KIND as TOY
from tests.unit.planner.given import as_sent, changed, in_namespace, resource, resource_gone, resync
from tests.unit.planner.world import World

NAMING = replace(TOY, reference=Reference("snapshot", SNAPSHOT))
WITH_NAMING = Registry((*REGISTRY.kinds, NAMING))
"""With a kind whose resources name snapshots."""


@pytest.fixture
def world() -> World:
    return World(policy=Policy(kinds=WITH_NAMING, limits=WITH_NAMING.limits()))


def snapshot(second: int, name: str = "", **parts: Any) -> Event:
    return resource(second, SNAPSHOT.kind, name or f"s-{second}", {"application": "shop"}, **parts)


def names_it(second: int, name: str, named: str, **parts: Any) -> Event:
    return resource(second, NAMING.name, name, {"snapshot": named}, **parts)


def loaded(world: World) -> TenantState:
    """The only tenant, as a planner reads it that has not seen it before."""
    (tenant,) = world.tenants
    world.memory.clear()
    return world.state(tenant)


def known(world: World) -> dict[str, PlainResource]:
    return {row.name: row for row in world.resources.values() if row.kind == SNAPSHOT.kind}


def at_hand(state: TenantState) -> set[str]:
    return {row.name for row in state.plain_resources_of_kind(SNAPSHOT.kind).values()}


def test_snapshot_when_it_is_sent_then_whose_it_is_and_a_short_digest_of_each_image_leave_the_cluster() -> None:
    deep: Any = {"tool": {}}
    for _ in range(300):
        deep = {"more": deep}
    manifest = {
        "spec": {
            "application": "shop",
            "components": [{"name": "web", "containerImage": "registry.example.com/web@sha256:0"}],
            "artifacts": {"unstableFields": deep},
        }
    }
    sent = '{"application":"shop","images":["veFIDj2Bv-rD"]}'
    assert spec_within(100, KIND.projection)(manifest, "") == (sent, ""), "watchers of all releases make the same of it"


def largest(tag: str = "") -> dict[str, Any]:
    names = [f"{number:03}".ljust(MAX_LABEL, "x") for number in range(MAX_COMPONENTS)]
    components = [{"name": name, "containerImage": f"{name}:{tag}".ljust(MAX_IMAGE, "y")} for name in names]
    return {"application": "a" * MAX_LABEL, "components": components}


def test_snapshot_when_it_is_as_large_as_may_be_and_beyond_the_quota_then_all_that_is_sent_of_it_is_kept() -> None:
    world = World(policy=Policy(limits=REGISTRY.limits({SNAPSHOT.kind: 1})))
    world.take(snapshot(1, "one"), as_sent(2, SNAPSHOT.kind, "two", largest()))
    sent = known(world)["two"]
    assert (sent.over_quota, sent.omitted, len(json.loads(sent.spec)["images"])) == (True, "", MAX_COMPONENTS)
    assert len(sent.spec) <= KEPT_BEYOND_QUOTA
    world.take(resource_gone(3, SNAPSHOT.kind, "one"))
    assert not known(world)["two"].over_quota


def test_snapshots_when_a_newer_watcher_tells_more_of_them_then_they_stay_dormant_and_nothing_else_is_written(
    world: World,
) -> None:
    world.policy = replace(world.policy, promotes_snapshots=True)
    world.take(*(snapshot(number) for number in range(1, 11)))
    whole = {"application": "shop", "components": [{"name": "web", "containerImage": "registry.example.com/web:1"}]}
    world.take(*(as_sent(number, SNAPSHOT.kind, f"s-{number}", whole, epoch=9) for number in range(1, 11)))
    assert {len(json.loads(row.spec)["images"]) for row in known(world).values()} == {1}
    for state in (*world.memory.values(), loaded(world)):
        assert (at_hand(state), state.admitted_dormant) == (set(), {SNAPSHOT.kind: 10})
    assert (world.workspace, world.child_objects) == ({}, {})


def test_snapshots_when_nothing_names_them_then_they_are_counted_and_none_is_at_hand(world: World) -> None:
    world.take(*(snapshot(number) for number in range(1, 31)))
    (kept,) = world.memory.values()
    for state in (kept, loaded(world)):
        assert (at_hand(state), state.admitted_dormant) == (set(), {SNAPSHOT.kind: 30})
    assert len(known(world)) == 30
    assert world.workspace == {}, "their status is other services'"


def test_snapshot_when_a_resource_names_it_then_it_is_at_hand_for_as_long_as_that_is_so(world: World) -> None:
    world.take(*(snapshot(number) for number in range(1, 5)))
    world.take(names_it(10, "a", "s-3"))
    (kept,) = world.memory.values()
    assert (at_hand(kept), kept.admitted_dormant) == ({"s-3"}, {SNAPSHOT.kind: 3})
    world.take(changed(11))
    (kept,) = world.memory.values()
    assert at_hand(kept) == {"s-3"}, "and after other changes"
    world.take(resource_gone(12, NAMING.name, "a"))
    (kept,) = world.memory.values()
    assert (at_hand(kept), kept.admitted_dormant) == (set(), {SNAPSHOT.kind: 4})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["snapshot-first", "named-first"])
def test_snapshot_when_it_and_what_names_it_come_in_any_order_then_it_is_at_hand(
    world: World, order: tuple[int, int]
) -> None:
    events = (snapshot(1, "new"), names_it(2, "a", "new"))
    for each in order:
        world.take(events[each])
    (kept,) = world.memory.values()
    assert at_hand(kept) == {"new"}
    world.memory.clear()
    world.take(changed(3))
    (kept,) = world.memory.values()
    assert at_hand(kept) == {"new"}, "a planner that takes the tenant over looks it up"


def test_snapshots_when_there_are_more_than_the_quota_then_the_newest_get_the_room_that_others_leave(
    world: World,
) -> None:
    world.policy = replace(world.policy, limits=WITH_NAMING.limits({SNAPSHOT.kind: 3}))
    world.take(*(snapshot(number) for number in range(1, 4)))
    world.take(snapshot(4))
    world.take(snapshot(5))
    assert [row.over_quota for row in known(world).values()] == [False, False, False, True, True]
    world.take(resource_gone(6, SNAPSHOT.kind, "s-2"))
    assert {name: row.over_quota for name, row in known(world).items()} == {
        "s-1": False,
        "s-3": False,
        "s-4": False,
        "s-5": True,
    }
    assert loaded(world).admitted_dormant == {SNAPSHOT.kind: 3}


def test_snapshots_when_a_newer_list_shows_them_then_they_stay_dormant_and_those_that_it_lacks_are_gone(
    world: World,
) -> None:
    world.take(*(snapshot(number) for number in range(1, 11)))
    again = world.take(*(snapshot(number, version=number, epoch=9) for number in range(1, 10)))
    assert [each.dormant for each in again.plain_resource_sightings] == [True] * 9
    assert again.plain_resources == (), "they are the same"
    world.take(resync(30, epoch=9, kind=SNAPSHOT.kind))
    assert known(world).keys() == {f"s-{number}" for number in range(1, 10)}
    assert loaded(world).admitted_dormant == {SNAPSHOT.kind: 9}


def test_snapshot_when_another_one_takes_its_name_then_the_first_is_gone(world: World) -> None:
    world.take(snapshot(1, "again", uid="first"))
    world.take(snapshot(2, "again", uid="second"))
    assert [row.uid for row in world.resources.values()] == ["second"]
    assert loaded(world).admitted_dormant == {SNAPSHOT.kind: 1}


def test_snapshots_when_their_namespace_is_made_again_then_none_of_before_is_left(world: World) -> None:
    world.take(*in_namespace(("first", 1), *(snapshot(number) for number in range(1, 11))))
    world.take(*in_namespace(("second", 2), snapshot(20, uid="newest")))
    assert [row.uid for row in world.resources.values()] == ["newest"]


def test_kind_when_something_follows_from_its_resources_then_it_cannot_be_dormant() -> None:
    with pytest.raises(ValueError, match="cannot be dormant"):
        replace(KIND, accept_spec=lambda *_: SnapshotSpec(application=""))


def test_snapshots_when_followed_then_their_kind_is_dormant() -> None:
    assert isinstance(KIND, CustomKind)
    assert [kind.name for kind in REGISTRY.dormant] == [SNAPSHOT.kind]
    assert REGISTRY.limits().of(SNAPSHOT.kind) == 10_000


def quota(world: World, name: str) -> list[tuple[str, str, str]]:
    """What a Snapshot says of that."""
    rows = [row for row in world.workspace.values() if (row.kind, row.name) == (SNAPSHOT.kind, name)]
    return [
        (each["status"], each["reason"], each["message"])
        for row in rows
        for each in json.loads(row.status)["quotaConditions"]
    ]


def test_snapshot_when_there_is_no_room_for_it_then_it_says_so_until_there_is_some() -> None:
    world = World(policy=Policy(limits=REGISTRY.limits({SNAPSHOT.kind: 1})))
    world.take(snapshot(1, "one"), snapshot(2, "two"))
    assert quota(world, "one") == [], "one that there is room for says nothing"
    ((status, reason, message),) = quota(world, "two")
    assert (status, reason) == ("True", "ErrorOccurred")
    assert message.startswith("quota exceeded: this namespace may have 1 Snapshots")
    world.memory.clear()
    world.take(resource_gone(3, SNAPSHOT.kind, "one"))
    assert quota(world, "two") == [("False", "ErrorOccurredResolved", "")]
    world.memory.clear()
    world.take(resource_gone(4, SNAPSHOT.kind, "two"))
    assert quota(world, "two") == []
