"""Snapshots, and runs that are complete, in PostgreSQL: a change reads as much however many of them the tenant has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import psycopg
import pytest

from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.rows import COMPLETE_AT_HAND
from services.kinds.shared.text import MAX_COMPONENTS
from services.kinds.snapshot.model import SNAPSHOT
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.domain.state import TenantState
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.reading import rows_read
from tests.component.planner.sweeping import due_sweep, remove_part, remove_parts
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed, resource, resource_gone, resync

FEW, MANY = 20, 400
PART = 50
LARGEST = [f"{number:012}" for number in range(MAX_COMPONENTS)]
"""Images of a Snapshot with as many components as may be."""
POLICY = Policy(guard=SweepGuard(share=1.0, at_once=PART))
NOW = at(1_000_000)


@dataclass
class Tenant:
    """One tenant, and the planner's session."""

    database: Database
    session: DatabaseSession
    seconds: Iterator[int] = field(default_factory=lambda: count(10_000))

    def take(self, *events: Event) -> None:
        """Plan these, and commit."""
        for part in split_at_markers(events):
            self.session.save_changes(plan_batch(part, self.session, POLICY, NOW), ())

    def read(self, *events: Event) -> int:
        return rows_read(self.database, self.session, lambda: self.take(*events))

    def has(self, first: int, last: int) -> None:
        self.take(*(snapshot(number) for number in range(first, last)))

    def state(self) -> TenantState:
        """As a planner reads it that has not seen it before."""
        self.session.tenants.forget_tenants()
        (state,) = self.session.load_tenants([(WORKSPACE, NAMESPACE)]).tenants[WORKSPACE, NAMESPACE]
        return state

    def has_runs(self, first: int, last: int) -> None:
        self.take(*(complete_run(number) for number in range(first, last)))

    def rows(self, kind: str = SNAPSHOT.kind) -> list[tuple[bool, int]]:
        """Whether each is dormant, and its epoch."""
        with psycopg.connect(self.database.owner_url) as owner:
            return owner.execute("SELECT dormant, epoch FROM resources WHERE kind = %s", (kind,)).fetchall()


def snapshot(number: int, epoch: int = 1, images: Sequence[str] = LARGEST) -> Event:
    content = {"application": "shop", "images": images}
    return resource(number + 1, SNAPSHOT.kind, f"s-{number}", content, epoch=epoch)


def complete_run(number: int) -> Event:
    promotion = {"manualPromotion": {"targetEnvironment": "dev"}}
    told = json.dumps({"state": "Complete", "completionResult": "Success", "environmentStatus": []})
    content = {"application": "shop", "snapshot": "s-1"} | promotion
    return resource(number + 1, PROMOTION_RUN.kind, f"run-{number}", content, recalled=told)


@pytest.fixture
def tenant(database: Database) -> Iterator[Tenant]:
    """With a deployment and a few snapshots."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "engine-1", "argocd-1")
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
        made = Tenant(database, session)
        made.take(changed(1))
        made.has(0, FEW)
        yield made


def deployment_changed(tenant: Tenant) -> int:
    second = next(tenant.seconds)
    return tenant.read(changed(second, generation=second))


def snapshot_came_and_went(tenant: Tenant) -> int:
    second = next(tenant.seconds)
    return tenant.read(snapshot(second)) + tenant.read(resource_gone(second + 1, SNAPSHOT.kind, f"s-{second}"))


@pytest.mark.parametrize("batch", [deployment_changed, snapshot_came_and_went])
def test_change_when_its_tenant_has_many_snapshots_then_it_reads_as_much_as_with_few(
    tenant: Tenant, batch: Callable[[Tenant], int]
) -> None:
    batch(tenant)
    few = batch(tenant)
    tenant.has(FEW, MANY)
    batch(tenant)
    assert 0 < batch(tenant) <= few


def test_tenant_when_it_is_read_then_its_snapshots_are_counted_by_an_index_and_not_read(tenant: Tenant) -> None:
    tenant.has(FEW, MANY)
    read = rows_read(tenant.database, tenant.session, tenant.state)
    state = tenant.state()
    assert (state.plain_resources, dict(state.admitted_dormant)) == ({}, {SNAPSHOT.kind: MANY})
    assert read <= MANY + 50, "an entry of the index for each, and none of their rows"


@pytest.mark.parametrize("images", [LARGEST, ["another"]], ids=["the-same", "as-a-newer-watcher-tells"])
def test_snapshots_when_listed_again_then_they_stay_dormant_and_what_the_list_lacks_goes(
    tenant: Tenant, images: Sequence[str]
) -> None:
    tenant.take(*(snapshot(number, epoch=9, images=images) for number in range(FEW - 5)))
    assert sorted(tenant.rows()) == [(True, 1)] * 5 + [(True, 9)] * (FEW - 5)
    tenant.take(resync(50_000, epoch=9, kind=SNAPSHOT.kind))
    remove_parts(tenant.session, POLICY, NOW)
    assert tenant.rows() == [(True, 9)] * (FEW - 5)
    assert dict(tenant.state().admitted_dormant) == {SNAPSHOT.kind: FEW - 5}


def test_snapshot_when_an_event_names_it_then_it_is_loaded_and_counted_no_more_until_the_plan_is_over(
    tenant: Tenant,
) -> None:
    tenant.state()
    tenant.take(resource_gone(60_000, SNAPSHOT.kind, "s-3"))
    assert len(tenant.rows()) == FEW - 1
    assert dict(tenant.state().admitted_dormant) == {SNAPSHOT.kind: FEW - 1}


def test_snapshots_when_a_list_lacks_all_then_each_part_reads_and_removes_as_much_whatever_is_left(
    tenant: Tenant,
) -> None:
    tenant.has(FEW, MANY)
    tenant.take(resync(50_000, epoch=9, kind=SNAPSHOT.kind))
    read, left = [], [len(tenant.rows())]
    while (due := due_sweep(tenant.session)) is not None:
        read.append(rows_read(tenant.database, tenant.session, partial(remove_part, tenant.session, due, POLICY, NOW)))
        left.append(len(tenant.rows()))
    assert left == [*range(MANY, 0, -PART), 0]
    assert max(read) <= 5 * PART, "a few for each that goes, and not those that are left"


def test_runs_when_many_are_complete_then_none_is_refused_and_a_change_reads_no_more_than_with_the_newest(
    tenant: Tenant,
) -> None:
    tenant.has_runs(0, COMPLETE_AT_HAND)
    deployment_changed(tenant)
    few = deployment_changed(tenant)
    tenant.has_runs(COMPLETE_AT_HAND, COMPLETE_AT_HAND + FEW)
    deployment_changed(tenant)
    assert 0 < deployment_changed(tenant) <= few
    assert (
        sorted(dormant for dormant, _ in tenant.rows(PROMOTION_RUN.kind)) == [False] * COMPLETE_AT_HAND + [True] * FEW
    )
    kept = tenant.state().plain_resources_of_kind(PROMOTION_RUN.kind).values()
    assert {row.name for row in kept} == {f"run-{number}" for number in range(FEW, COMPLETE_AT_HAND + FEW)}
    assert not any(row.over_quota for row in kept)
