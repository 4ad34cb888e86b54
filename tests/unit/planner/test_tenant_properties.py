"""Whatever tenants make and agents report, of all kinds: what is compiled is its tenant's own, and always the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.common.messages import Command, ResourceGone
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.domain.events import Event
from services.planner.engines.available import ENGINES
from services.planner.rows.compiled import TENANT
from tests.unit.planner.given import (
    Applied,
    Checked,
    Removed,
    changed,
    credential,
    environment,
    observed,
    secret,
    spec,
    sync_run,
)
from tests.unit.planner.world import FLEET, World

NAMESPACES = ("team-a", "team-b")
KINDS = ("secret", "login", "environment", "credential", "here", "there", "manual", "run")
SAYS = ("good", "bad", "gone")
step = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(KINDS), st.sampled_from(["make", "change", "end"]))
answer = st.tuples(st.just("agent"), st.integers(0, 9), st.sampled_from(SAYS))
stories = st.lists(st.one_of(step, step, step, answer), max_size=25)


class Teller:
    """Tells a story as events: of each resource one incarnation at a time, with growing versions."""

    def __init__(self) -> None:
        self.second = 0
        self.alive: dict[tuple[str, str], Event] = {}
        self.made: dict[tuple[str, str], int] = {}

    def tell(self, namespace: str, kind: str, action: str) -> list[Event]:
        self.second += 1
        place = (namespace, kind)
        if action == "end" and place not in self.alive:
            return []
        if action == "end":
            return [self._gone(self.alive.pop(place))]
        if place not in self.alive:
            self.made[place] = self.made.get(place, 0) + 1
        self.alive[place] = self._event(namespace, kind, f"{namespace}-{kind}-{self.made[place]}")
        return [self.alive[place]]

    def _gone(self, event: Event) -> Event:
        message: Any = event.message
        change = message.event
        ended = ResourceGone(change.kind, change.name, change.uid, str(self.second))
        return replace(event, message=replace(message, event=ended))

    def _event(self, namespace: str, kind: str, uid: str) -> Event:
        second, where = self.second, {"namespace": namespace, "uid": uid}
        remote = spec(destination={"environment": "prod", "namespace": f"on-{namespace}"})
        made: dict[str, Callable[[], Event]] = {
            "secret": lambda: secret(second, **where),
            "login": lambda: secret(second, "login", "repository-credential", **where),
            "environment": lambda: environment(second, namespaces=[f"on-{namespace}"], generation=second, **where),
            "credential": lambda: credential(second, generation=second, **where),
            "run": lambda: sync_run(second, deployment="manual", **where),
            "manual": lambda: changed(second, "manual", content=spec(type="manual"), generation=second, **where),
            "there": lambda: changed(second, "there", content=remote, generation=second, **where),
            "here": lambda: changed(second, "here", generation=second, **where),
        }
        return made[kind]()


def answers(world: World, second: int, number: int, says: str) -> list[Event]:
    """What an agent reports of one of the rows."""
    rows = sorted(world.engine.values(), key=lambda row: (row.kind, row.name))
    if not rows:
        return []
    row = rows[number % len(rows)]
    about = {"instance": row.engine_instance_id, "kind": row.kind, "name": row.name, "namespace": row.tenant_namespace}
    if row.desired == "absent":
        return [observed(second, Removed(forced=says == "bad"), **about)] if says != "good" else []
    if row.kind.endswith("Secret"):
        return [observed(second, Checked(row.digest, "Succeeded" if says == "good" else "Refused", ""), **about)]
    return [observed(second, Applied(row.digest), **about)] if row.kind != "SyncOperation" else []


def lived(story: Sequence[tuple[Any, Any, Any]]) -> tuple[World, list[Event]]:
    """The world after ``story``, each event a batch; and the log of it."""
    world, teller, log = World(fleet=FLEET[:1]), Teller(), list[Event]()
    for who, what, how in story:
        teller.second += 1
        told = answers(world, teller.second, what, how) if who == "agent" else teller.tell(who, what, how)
        for event in told:
            world.take(event)
        log += told
    return world, log


def remove_absent(world: World) -> None:
    """Agents remove all that shall go, and what shall go once that is gone."""
    while absent := [row for row in world.engine.values() if row.desired == "absent"]:
        for row in absent:
            about = {"instance": row.engine_instance_id, "kind": row.kind, "name": row.name}
            world.take(observed(1000, Removed(forced=False), namespace=row.tenant_namespace, **about))


def shown(world: World) -> dict[str, Any]:
    """What the world is told: objects that shall be, and statuses, less what only tells of the past."""
    statuses = {key: _present(json.loads(row.status)) for key, row in world.workspace.items()}
    return {
        "objects": {key: row.digest for key, row in world.engine.items() if row.desired == "present"},
        "statuses": {key: status for key, status in statuses.items() if status},
    }


def _present(status: dict[str, Any]) -> dict[str, Any]:
    """Without conditions that are resolved, and when others came."""
    conditions = [
        {name: value for name, value in each.items() if not name.endswith("Time")}
        for each in status.get("conditions", [])
        if each["status"] != "False"
    ]
    parts = {name: part for name, part in status.items() if name != "conditions"}
    return parts | ({"conditions": conditions} if conditions else {})


@given(stories)
def test_rows_when_compiled_then_each_has_an_owner_that_is_there_and_is_of_its_tenant(story: list[Any]) -> None:
    world, _ = lived(story)
    engine = next(iter(ENGINES.values()))
    for row in world.engine.values():
        owners: dict[str, Any] = {GITOPS_DEPLOYMENT.kind: world.deployments, TENANT: world.tenants}
        owner = owners.get(row.owner_kind, world.resources).get(row.owner_id)
        assert owner is not None, f"{row.kind} {row.name} is nobody's"
        tenant = world.tenants[getattr(owner, "tenant_id", row.owner_id)]
        assert (row.workspace, row.tenant_namespace) == tenant.full_name
        assert row.lane == engine.lane(tenant.id)


@given(stories)
def test_applications_when_compiled_then_they_are_in_their_tenants_project_which_allows_what_they_want(
    story: list[Any],
) -> None:
    world, _ = lived(story)
    projects = {row.name: json.loads(row.manifest)["spec"] for row in world.engine.values() if row.kind == "AppProject"}
    for row in world.engine.values():
        if row.kind != "Application" or row.desired != "present":
            continue
        wanted = json.loads(row.manifest)["spec"]
        assert wanted["project"] == row.lane
        project = projects[row.lane]
        assert wanted["source"]["repoURL"].removesuffix(".git") in {
            url.removesuffix(".git") for url in project["sourceRepos"]
        }
        destinations = {(each.get("name"), each["namespace"]) for each in project["destinations"]}
        assert (wanted["destination"].get("name"), wanted["destination"]["namespace"]) in destinations
        assert wanted["destination"]["namespace"] in {row.tenant_namespace, f"on-{row.tenant_namespace}"}


@given(stories)
def test_rows_when_the_log_is_planned_twice_then_they_are_as_after_once(story: list[Any]) -> None:
    world, log = lived(story)
    remove_absent(world)
    before = shown(world), dict(world.sync_runs)
    for event in log:
        if isinstance(event.message, Command):
            world.take(event)
    remove_absent(world)
    assert (shown(world), dict(world.sync_runs)) == before


@given(stories, st.integers(1, 6))
def test_rows_when_events_are_coalesced_in_batches_then_they_are_as_one_by_one(story: list[Any], size: int) -> None:
    world, log = lived(story)
    together = World(fleet=FLEET[:1])
    for first in range(0, len(log), size):
        together.take(*log[first : first + size])
    assert shown(together)["objects"] == shown(world)["objects"]
    assert together.workspace.keys() == world.workspace.keys()


@given(st.permutations([(namespace, kind) for namespace in NAMESPACES for kind in KINDS if kind != "run"]))
def test_rows_when_resources_are_made_in_another_order_then_they_are_the_same(order: list[tuple[str, str]]) -> None:
    def made(places: Sequence[tuple[str, str]]) -> dict[str, Any]:
        world, teller = World(fleet=FLEET[:1]), Teller()
        seconds = {place: number for number, place in enumerate(sorted(places), start=1)}
        for place in places:
            teller.second = seconds[place] - 1
            world.take(*teller.tell(*place, "make"))
        return shown(world)

    assert made(order) == made(sorted(order))


@given(stories)
def test_rows_when_everything_has_ended_and_agents_have_removed_it_then_nothing_is_left(story: list[Any]) -> None:
    world, teller = World(fleet=FLEET[:1]), Teller()
    for who, what, how in story:
        for event in teller.tell(who, what, how) if who != "agent" else answers(world, teller.second, what, how):
            world.take(event)
    for namespace, kind in sorted(teller.alive):
        world.take(*teller.tell(namespace, kind, "end"))
    remove_absent(world)
    assert world.engine == {}
    left = {name: rows for name, rows in world.rows().items() if rows and name not in {"audit_records"}}
    assert left.keys() <= {"tenants", "resources", "sync_runs"}
    assert all(world.sync_runs[known].state in {"Ended", "Refused"} for known in world.resources)
