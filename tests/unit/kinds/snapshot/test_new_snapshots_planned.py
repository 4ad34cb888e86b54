"""New Snapshots, planned: which are promoted by themselves, once, and which never are."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.kinds.application.kind import APPLICATION
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.rows import AUTOMATED_LABEL
from services.kinds.promotion_run.rules import TIME_FOR_A_STEP
from services.kinds.registry import REGISTRY
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot.promotion import MOST_WAITING, NEW_FOR, run_name
from services.planner.domain.appstudio.new_snapshots import RUNS_KEPT
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import at, resource, resource_gone
from tests.unit.planner.world import NOW, World

BEGIN = 1_000_000
"""Now."""


class Shop:
    """A namespace with an application, of which new Snapshots are promoted to dev; its watcher makes their runs."""

    def __init__(self, **policy: Any) -> None:
        self.world = World(policy=Policy(**({"promotes_snapshots": True} | policy)))
        self.second = BEGIN
        self.runs: dict[str, dict[str, Any]] = {}

    def open(self) -> None:
        self.take(APPLICATION.kind, "shop", {})
        self.environment("dev")

    def take(self, kind: str, name: str, content: dict[str, Any], **parts: Any) -> None:
        self.second += 1
        self.world.take(self._event(kind, name, content, **parts))

    def environment(self, name: str, strategy: str = "AppStudioAutomated", parent: str = "") -> None:
        content = {"displayName": name, "deploymentStrategy": strategy}
        self.take(ENVIRONMENT.kind, name, content | ({"parentEnvironment": parent} if parent else {}))

    def snapshot(self, name: str, application: str = "shop", *, age: timedelta = timedelta(0)) -> None:
        self.take(SNAPSHOT.kind, name, {"application": application}, age=age)

    def remove(self, name: str, kind: str = SNAPSHOT.kind) -> None:
        self.second += 1
        self.world.take(resource_gone(self.second, kind, name))

    def over_quota(self) -> set[str]:
        return {row.name for row in self.world.resources.values() if row.over_quota}

    def make_runs(self) -> None:
        """As a watcher does."""
        for row in self.wanted().values():
            manifest = json.loads(row.manifest)
            self.runs[row.name] = manifest
            self.take(PROMOTION_RUN.kind, row.name, manifest["spec"], metadata={"labels": manifest["labels"]})

    def end_runs(self) -> None:
        """Whatever there is of open runs: their time is over."""
        self.world.later += TIME_FOR_A_STEP
        while self.world.take_due():
            pass

    def wanted(self) -> dict[str, ChildRow]:
        return {row.name: row for row in self._rows() if row.desired == "present"}

    def unwanted(self) -> set[str]:
        return {row.name for row in self._rows() if row.desired == "absent"}

    def at_hand(self) -> set[str]:
        """Names of the Snapshots that a planner has that meets the tenant anew."""
        (tenant,) = self.world.tenants
        self.world.memory.clear()
        return {row.name for row in self.world.state(tenant).plain_resources_of_kind(SNAPSHOT.kind).values()}

    def _rows(self) -> list[ChildRow]:
        return [row for row in self.world.child_objects.values() if row.kind == PROMOTION_RUN.kind]

    def _event(self, kind: str, name: str, content: dict[str, Any], **parts: Any) -> Event:
        created_at = self.world.later + at(self.second) - parts.pop("age", timedelta(0))
        event = resource(self.second, kind, name, content, **parts)
        message: Any = event.message
        change = replace(message.event, created_at=int(created_at.timestamp()) * 1000)
        return replace(event, message=replace(message, event=change))


@pytest.fixture
def shop() -> Shop:
    made = Shop()
    made.open()
    return made


@pytest.fixture
def crowded() -> Shop:
    """There is room for one Snapshot, which was promoted."""
    shop = Shop(limits=REGISTRY.limits({SNAPSHOT.kind: 1}))
    shop.open()
    shop.snapshot("one")
    shop.make_runs()
    return shop


ONE, TWO = run_name("one", "dev"), run_name("two", "dev")


def test_snapshot_when_it_is_new_then_a_run_is_made_for_it_that_begins_with_the_first_environment(shop: Shop) -> None:
    shop.snapshot("one")
    (row,) = shop.wanted().values()
    assert (row.name, row.uid, row.owner_kind, row.owner_name) == (ONE, "", SNAPSHOT.kind, "one")
    manifest = json.loads(row.manifest)
    assert manifest["labels"] == {AUTOMATED_LABEL: "true"}
    assert manifest["spec"] == {
        "snapshot": "one",
        "application": "shop",
        "automatedPromotion": {"initialEnvironment": "dev"},
    }
    shop.make_runs()
    assert shop.wanted() == {}
    shop.snapshot("one")
    shop.world.take(resource_gone(shop.second, PROMOTION_RUN.kind, ONE))
    shop.snapshot("one")
    assert shop.wanted() == {}, "one that a user has deleted is not made again"


def test_snapshot_when_operators_do_not_want_it_then_nothing_follows_from_it() -> None:
    shop = Shop(promotes_snapshots=False)
    shop.open()
    shop.snapshot("one")
    assert (shop.wanted(), shop.at_hand()) == ({}, set())


def test_setting_when_it_is_turned_off_then_what_waits_is_not_promoted_any_more(shop: Shop) -> None:
    shop.snapshot("one")
    shop.world.policy = replace(shop.world.policy, promotes_snapshots=False)
    shop.snapshot("two")
    assert shop.wanted() == {}


def test_environments_when_none_is_automated_and_first_then_nothing_is_promoted_until_one_is() -> None:
    shop = Shop()
    shop.take(APPLICATION.kind, "shop", {})
    shop.environment("prod", "Manual")
    shop.environment("staging", parent="prod")
    shop.snapshot("one")
    assert (shop.wanted(), shop.at_hand()) == ({}, {"one"})
    shop.environment("dev")
    shop.environment("test")
    assert {*shop.wanted()} == {ONE, run_name("one", "test")}


def test_snapshot_when_it_is_told_before_its_application_then_it_is_promoted_once_that_is_there() -> None:
    shop = Shop()
    shop.environment("dev")
    shop.snapshot("one")
    assert shop.wanted() == {}
    shop.world.memory.clear()
    shop.take(APPLICATION.kind, "shop", {})
    assert {*shop.wanted()} == {ONE}


def test_snapshots_when_several_come_while_a_run_goes_on_then_the_newest_alone_is_next(shop: Shop) -> None:
    shop.snapshot("one")
    shop.make_runs()
    for name in ("skipped", "two"):
        shop.snapshot(name)
    assert shop.wanted() == {}
    shop.end_runs()
    assert {*shop.wanted()} == {TWO}


def test_snapshot_when_it_is_older_than_a_day_then_it_is_not_promoted(shop: Shop) -> None:
    shop.snapshot("old", age=NEW_FOR + timedelta(minutes=1))
    assert shop.wanted() == {}


def test_snapshot_when_it_waits_for_a_day_then_it_waits_no_more() -> None:
    shop = Shop()
    shop.environment("dev")
    shop.snapshot("one")
    shop.world.later += NEW_FOR + timedelta(minutes=1)
    shop.world.take_due()
    shop.take(APPLICATION.kind, "shop", {})
    assert (shop.wanted(), shop.at_hand()) == ({}, set())


def test_snapshots_when_the_database_was_lost_then_the_newest_is_promoted_once_more_at_most(shop: Shop) -> None:
    """Its run has its name, so it is there already unless a user has deleted it."""
    for name, age in (("older", timedelta(hours=2)), ("old", timedelta(hours=1)), ("one", timedelta(0))):
        shop.snapshot(name, age=age)
    assert {*shop.wanted()} == {ONE}


def test_snapshots_when_there_are_very_many_at_once_then_few_wait_and_each_application_has_one_run() -> None:
    shop = Shop()
    shop.environment("dev")
    for number in range(3 * MOST_WAITING):
        shop.snapshot(f"s-{number}", f"app-{number}")
    assert len(shop.at_hand()) == MOST_WAITING
    shop.take(APPLICATION.kind, "app-59", {})
    assert {*shop.wanted()} == {run_name("s-59", "dev")}


def test_snapshot_when_there_is_room_for_it_within_its_day_then_it_is_promoted_once(crowded: Shop) -> None:
    crowded.snapshot("two")
    crowded.end_runs()
    assert crowded.wanted() == {}
    crowded.remove("one")
    assert {*crowded.wanted()} == {TWO}
    crowded.make_runs()
    crowded.remove(TWO, PROMOTION_RUN.kind)
    crowded.snapshot("two")
    assert crowded.wanted() == {}


def test_snapshot_when_there_is_room_for_it_after_its_day_then_it_is_not_promoted(crowded: Shop) -> None:
    crowded.snapshot("two", age=NEW_FOR - timedelta(minutes=1))
    crowded.end_runs()
    crowded.remove("one")
    assert crowded.wanted() == {}


def test_snapshot_when_there_is_room_for_it_after_a_newer_one_was_promoted_then_it_is_not() -> None:
    """It was too large for the room that the newer one has got."""
    shop = Shop()
    shop.open()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({}, bytes_=1000))
    shop.take(SNAPSHOT.kind, "large", {"application": "shop", "images": ["x" * 2000]})
    shop.snapshot("two")
    shop.make_runs()
    shop.end_runs()
    assert shop.over_quota() == {"large"}
    shop.world.policy = Policy(promotes_snapshots=True)
    shop.take(APPLICATION.kind, "another", {})
    assert (shop.over_quota(), shop.wanted()) == (set(), {})
    shop.snapshot("three")
    assert {*shop.wanted()} == {run_name("three", "dev")}


def test_run_when_it_is_beyond_the_quota_then_no_other_one_follows_it() -> None:
    shop = Shop(limits=REGISTRY.limits({PROMOTION_RUN.kind: 0}))
    shop.open()
    shop.snapshot("one")
    shop.make_runs()
    shop.snapshot("two")
    assert shop.wanted() == {}


def test_runs_when_they_are_over_then_each_application_keeps_the_newest_and_those_of_users(shop: Shop) -> None:
    content = {"snapshot": "one", "application": "shop", "manualPromotion": {"targetEnvironment": "dev"}}
    shop.take(PROMOTION_RUN.kind, "mine", content)
    shop.end_runs()
    for number in range(RUNS_KEPT + 2):
        shop.snapshot(f"s-{number}")
        shop.make_runs()
        shop.end_runs()
    assert shop.unwanted() == {run_name("s-0", "dev"), run_name("s-1", "dev")}
    for name in shop.unwanted():
        shop.world.take(resource_gone(shop.second, PROMOTION_RUN.kind, name))
    assert shop.unwanted() == set()


def test_snapshot_when_it_is_deleted_before_its_run_is_made_then_there_is_none(shop: Shop) -> None:
    shop.snapshot("one")
    shop.world.take(resource_gone(shop.second, SNAPSHOT.kind, "one"))
    assert (shop.wanted(), shop.at_hand()) == ({}, set())


def test_run_names_when_pairs_would_share_one_then_they_do_not() -> None:
    assert run_name("a-b", "c") != run_name("a", "b-c")
    assert len(run_name("s" * 253, "e" * 63)) <= 250
    assert run_name("one", "dev").startswith("one-dev-")
    assert at(BEGIN) == NOW
