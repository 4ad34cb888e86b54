"""An agent that ends before any one of its effects, and another that takes over: all is as if none had ended.

The effects are not listed here. Whatever the agent asks of the API server, of a tenant's cluster or repository, or of
Kafka goes through the parts that are given to it: each such call is an effect, and the process ends before the n-th,
for every n. A step that is added to the code is stopped at without a new test.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from services.agent.credentials.check_result import CheckResult, RepositoryAccess
from services.agent.credentials.clusters.service_account import GRANTED, SERVICE_ACCOUNT, Account
from services.agent.credentials.secret_recipe import ClusterRecipe
from services.agent.instances.instance_controller import InstanceController
from services.agent.objects.engine_state import EngineState
from services.agent.objects.live_operation import RUN_INFO, RUNNING, TERMINATING
from services.agent.objects.managed_kinds import CASCADE_FINALIZER
from services.agent.private_repositories.isolation import REPO_SERVER_TIMEOUT
from services.agent.private_repositories.known_repositories import FORMER_FIELD, MOVED, owner_of
from services.agent.private_repositories.registry_secret import NAME as FORMER
from services.agent.private_repositories.registry_secret import secret_name
from services.agent.private_repositories.repository_identity import identity_of
from services.agent.reconcile.object_steps import OPERATION_PATIENCE
from services.agent.reconcile.sync_steps import SYNC_SEQUENCE
from services.agent.stream.owned_instances import pass_row, start_work
from services.common.json_values import canonical
from services.common.kafka import OffsetTracker
from services.common.kubernetes import Manifest
from services.common.messages import ORPHAN_REMOVAL, EngineResource, Removed, SyncMoved
from services.common.messages.compiled import AT_ONCE, RELEASE
from tests.unit.agent.driver import PARTITION
from tests.unit.agent.fakes import (
    LABEL,
    SETTINGS,
    FakeChecker,
    MemoryCluster,
    MemoryReports,
    dependencies_of,
    secret_of,
)
from tests.unit.agent.rows import application_row, cluster_row, project_row, repository_row, sync_row
from tests.unit.fake_clock import FakeClock, settle

URL = "https://example.com/team/repo"
OURS, THEIRS = "project-ours", "project-theirs"
LOGIN = repository_row("login", URL, OURS)
REGISTRY = secret_name(owner_of(OURS))
OURS_ALONE = [project_row(OURS, sourceRepos=[URL]), application_row("app", lane=OURS, repoURL=URL)]
BOTH = [*OURS_ALONE, project_row(THEIRS, sourceRepos=[URL]), application_row("their-app", lane=THEIRS, repoURL=URL)]
ENVIRONMENT = cluster_row("managed-env-1", lane=OURS)
ORPHANS = ("orphan-1", "orphan-2", "orphan-3")
GRACE_SECONDS = 1000
"""More than an orphan's time of grace, and the time between two looks."""
SYNCS = [replace(sync_row(f"run-{number}", number), lane=OURS) for number in (1, 2)]


@dataclass
class Effects:
    """Counts what a process does to the world, and ends it before the n-th effect: nothing happens from then on."""

    fatal: int
    done: int = 0
    is_dead: bool = False

    def happens(self) -> bool:
        """Whether the process is alive to do it."""
        self.done += not self.is_dead
        self.is_dead = self.is_dead or self.done == self.fatal
        return not self.is_dead

    async def await_death(self) -> None:
        """Return if the process is alive; never otherwise."""
        if not self.happens():
            await asyncio.Event().wait()


class CrashingPart:
    """A part of the world as one process sees it: each coroutine that it calls is an effect."""

    def __init__(self, part: Any, effects: Effects) -> None:
        self._part, self._effects = part, effects

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._effects.await_death()
            return await found(*arguments, **named)

        return call


class CrashingReports:
    """Observations of one process: none leaves it after its end, nor comes back to it."""

    def __init__(self, reports: MemoryReports, effects: Effects) -> None:
        self._reports, self._effects = reports, effects

    def send_observation(self, row: EngineResource, event: Any, delivered: Callable[[bool], None]) -> None:
        if self._effects.happens():
            self._reports.send_observation(row, event, lambda arrived: self._effects.is_dead or delivered(arrived))

    def send_report(self, instance: str, event: Any, delivered: Callable[[bool], None]) -> None:
        if self._effects.happens():
            self._reports.send_report(instance, event, lambda arrived: self._effects.is_dead or delivered(arrived))


@dataclass
class World:
    """What outlives a process: the cluster, Kafka, and what was committed there."""

    fatal: int
    clock: FakeClock = field(default_factory=FakeClock)
    reports: MemoryReports = field(default_factory=MemoryReports)
    log: list[EngineResource] = field(default_factory=list)
    committed: int = 0
    started: Counter[str] = field(default_factory=Counter)
    """How often each run was started."""
    released: set[str] = field(default_factory=set)
    """Applications that are another instance's by now, and what they have deployed."""
    broken: list[str] = field(default_factory=list)
    """What must not be, and was: when a process ended, or for Argo CD to see."""

    def __post_init__(self) -> None:
        self.cluster, self.checker = MemoryCluster(self.clock), FakeChecker()
        self.defects: list[BaseException] = []
        made = secret_of(LOGIN, url=URL)
        self.checker.outcomes[LOGIN.name] = CheckResult(made, "Told", "", access=RepositoryAccess.LOGIN)
        self.effects = Effects(self.fatal)
        self.instance = self._new_process()

    def _new_process(self) -> InstanceController:
        engine = EngineState(is_inspected=True)
        cluster: Any = CrashingPart(self.cluster, self.effects)
        checker: Any = CrashingPart(self.checker, self.effects)
        reports: Any = CrashingReports(self.reports, self.effects)
        parts = dependencies_of(cluster, checker, reports, self.clock, self.defects.append, engine)
        return InstanceController("argocd", "argocd", parts, SETTINGS)

    async def begin(self) -> None:
        """A process takes the instance over: it reads the topic, and is sent again what was not committed."""
        self.offsets = OffsetTracker()
        self.offsets.assign_partitions({PARTITION: self.committed})
        newest = {row.identity: (offset, row) for offset, row in enumerate(self.log)}
        rows = [row for _, row in newest.values() if not row.deleted]
        open_ = [row for offset, row in newest.values() if offset >= self.committed and not row.deleted]
        self.instance.start()
        await settle()
        start_work(self.instance, rows, open_)
        for offset in range(self.committed, len(self.log)):
            self._hand_over(offset, is_newest=newest[self.log[offset].identity][0] == offset)
        await settle()

    async def send(self, *rows: EngineResource) -> None:
        """Rows come, one after another; a process that ends is followed by another."""
        for row in rows:
            self.log.append(row)
            self._hand_over(len(self.log) - 1)
            await self.wait()

    async def wait(self, seconds: float = 1.0) -> None:
        """Time passes, and Argo CD does its part."""
        for _ in range(4):
            await self.clock.advance(seconds / 4)
            self._play_argocd()
            await settle()
            self.committed = max(self.committed, self.offsets.committable_offset(PARTITION) or 0)
            if self.effects.is_dead:
                await self._follow()

    def _hand_over(self, offset: int, *, is_newest: bool = True) -> None:
        tracked = self.offsets.track_offset(PARTITION, offset)
        assert tracked is not None
        effects, row = self.effects, self.log[offset]

        def acknowledge() -> None:
            if not effects.is_dead:
                self.offsets.acknowledge_offset(tracked)

        if not is_newest:
            acknowledge()
        else:
            pass_row(self.instance, row, acknowledge)

    async def _follow(self) -> None:
        """The process has ended; another one takes over."""
        self._look()
        await self.instance.stop()
        self.effects = Effects(fatal=-1)
        self.instance = self._new_process()
        await self.begin()

    def _look(self) -> None:
        """Argo CD has the login only if the repository is known to be private, and nobody else may read it."""
        secrets = {name for kind, name in self.cluster.objects if kind == "Secret"}
        project = self.cluster.objects.get(("AppProject", THEIRS))
        if LOGIN.name in secrets and REGISTRY not in secrets:
            self.broken.append("the login is given to Argo CD, and nobody remembers the repository")
        if LOGIN.name in secrets and project is not None and URL in project["spec"]["sourceRepos"]:
            self.broken.append("the login is given to Argo CD, and another tenant may still read the repository")
        former = self.cluster.objects.get(("Secret", FORMER))
        if former is not None and former["data"][FORMER_FIELD] == MOVED and REGISTRY not in secrets:
            self.broken.append("the Secret of before is said to have been moved, and nobody remembers the repository")

    def _play_argocd(self) -> None:
        """It ends the syncs that it finds, and lets go of what is being deleted: with all that this has deployed."""
        for (kind, name), found in list(self.cluster.objects.items()):
            if kind != "Application":
                continue
            if found["metadata"].get("deletionTimestamp"):
                if name in self.released:
                    self.broken.append("Argo CD deletes what a released Application has deployed")
                self.cluster.edit(kind, name, {"metadata": {"finalizers": None}})
            elif found.get("operation"):
                self._play_operation(kind, name, found)

    def _play_operation(self, kind: str, name: str, found: Manifest) -> None:
        """One that runs already has no end, unless somebody ends it."""
        operation, phase = found["operation"], found.get("status", {}).get("operationState", {}).get("phase")
        if phase == RUNNING:
            return
        if phase != TERMINATING:
            self.started[operation["info"][0]["value"]] += 1
        end = "Failed" if phase == TERMINATING else "Succeeded"
        state = {"operation": operation, "phase": end, "finishedAt": "2026-01-01T00:00:09Z"}
        self.cluster.edit(kind, name, {"operation": None, "status": {"operationState": state}})


def with_manifest(row: EngineResource, **fields: Any) -> EngineResource:
    """``row`` compiled anew, with these fields."""
    return replace(row, manifest=canonical(json.loads(row.manifest) | fields), digest=f"{row.digest}-2")


APPLICATION = application_row("app", lane=OURS)
AUTOMATED = with_manifest(
    APPLICATION, spec=json.loads(APPLICATION.manifest)["spec"] | {"syncPolicy": {"automated": {"prune": True}}}
)


def absent(*rows: EngineResource) -> list[EngineResource]:
    return [replace(row, desired="absent", seen_at=row.seen_at) for row in rows]


def deleted(*rows: EngineResource) -> list[EngineResource]:
    return [replace(row, deleted=True) for row in rows]


async def sync_and_remove(world: World) -> None:
    await world.begin()
    await world.send(*OURS_ALONE, SYNCS[0], *deleted(SYNCS[0]), SYNCS[1])
    await world.send(replace(OURS_ALONE[1], manifest=OURS_ALONE[1].manifest.replace("manifests", "other"), digest="2"))
    gone = [SYNCS[1], *absent(OURS_ALONE[1])]
    await world.send(*deleted(gone[0]), gone[1])


async def isolate(world: World) -> None:
    await world.begin()
    await world.send(*BOTH, LOGIN)
    await world.wait(REPO_SERVER_TIMEOUT.total_seconds() + 1)


async def environment_comes_and_goes(world: World) -> None:
    await world.begin()
    await world.send(ENVIRONMENT)
    await world.send(replace(ENVIRONMENT, manifest=ENVIRONMENT.manifest.replace("uid-1", "uid-2"), digest="2"))
    await world.send(*absent(ENVIRONMENT))
    await world.wait(60)
    await world.send(*deleted(ENVIRONMENT))


async def release_to_another_instance(world: World) -> None:
    """Of an Application that Argo CD syncs by itself, and is syncing, without end."""
    await world.begin()
    await world.send(project_row(OURS), AUTOMATED)
    await world.wait()
    state = {"operationState": {"phase": RUNNING, "startedAt": world.clock.now().isoformat()}}
    by_itself = {"initiatedBy": {"automated": True}}
    world.cluster.edit("Application", AUTOMATED.name, {"metadata": {"finalizers": [CASCADE_FINALIZER]}})
    world.cluster.edit("Application", AUTOMATED.name, {"operation": by_itself, "status": state})
    world.released.add(AUTOMATED.name)
    await world.send(with_manifest(AUTOMATED, **{RELEASE: True}))
    await world.wait(3 * OPERATION_PATIENCE.total_seconds())


async def give_up_what_another_instance_has(world: World) -> None:
    """Nobody could reach this one for a while: its tenant has moved, and Argo CD has gone on with what it had."""
    made = json.loads(AUTOMATED.manifest)
    world.cluster.put("Application", AUTOMATED.name, made)
    state = {"operationState": {"phase": RUNNING, "startedAt": world.clock.now().isoformat()}}
    world.cluster.edit("Application", AUTOMATED.name, {"metadata": {"finalizers": [CASCADE_FINALIZER]}})
    world.cluster.edit("Application", AUTOMATED.name, {"operation": {}, "status": state})
    world.released.add(AUTOMATED.name)
    world.log += [project_row(OURS), *absent(with_manifest(AUTOMATED, **{RELEASE: True, AT_ONCE: True}))]
    await world.begin()
    await world.wait()
    await world.send(*absent(project_row(OURS)))


async def give_up_what_was_synced_while_nobody_looked(world: World) -> None:
    """The agent before this one ended once it had given the Application its run, of which nothing was told.

    The planner has to hear of that before it hears that the Application is gone: it orders on the target what did not
    begin.
    """
    operation = {"info": [{"name": RUN_INFO, "value": "run-1"}]}
    given = {"annotations": {SYNC_SEQUENCE: "1"}, "finalizers": [CASCADE_FINALIZER]}
    state = {"operation": operation, "phase": "Succeeded", "finishedAt": "2026-01-01T00:00:09Z"}
    world.cluster.put("Application", APPLICATION.name, json.loads(APPLICATION.manifest))
    world.cluster.edit("Application", APPLICATION.name, {"metadata": given, "status": {"operationState": state}})
    world.released.add(APPLICATION.name)
    world.log += [project_row(OURS), SYNCS[0], with_manifest(APPLICATION, **{RELEASE: True, AT_ONCE: True})]
    await world.begin()
    await world.wait()
    await world.send(*deleted(SYNCS[0], APPLICATION), *absent(project_row(OURS)))
    of_the_move = [event for event in world.reports.of(APPLICATION.name) if isinstance(event, SyncMoved | Removed)]
    if not isinstance(of_the_move[0], SyncMoved):
        world.broken.append("an Application is said to be gone before the end of its run")


async def former_secret_is_taken_over(world: World) -> None:
    """Of an agent of before, which had one for all tenants."""
    known = identity_of(URL)
    content = base64.b64encode(known.repository + known.spelling).decode()
    world.cluster.put("Secret", FORMER, {"metadata": {"labels": dict(LABEL)}, "data": {FORMER_FIELD: content}})
    world.log += [*OURS_ALONE, LOGIN]
    await world.begin()
    await world.wait()


async def approved_orphans_go(world: World) -> None:
    """Two of three that agents keep, because they are all that there is."""
    for name in ORPHANS:
        world.cluster.put("Application", name, json.loads(application_row(name).manifest))
    await world.begin()
    await world.wait(GRACE_SECONDS)
    await world.wait(GRACE_SECONDS)
    approval = json.dumps({"objects": [f"Application/{name}" for name in ORPHANS[:2]]})
    row = replace(application_row("digest"), kind=ORPHAN_REMOVAL, namespace="", manifest=approval)
    await world.send(row)
    for _ in range(3):
        await world.wait(GRACE_SECONDS)
    await world.send(*deleted(row))
    await world.wait(GRACE_SECONDS)


async def ended(story: Callable[[World], Awaitable[None]], fatal: int) -> World:
    """The world after a story, told to a process that ends before its effect ``fatal``, and to its successor."""
    world = World(fatal)
    await story(world)
    for _ in range(3):
        await world.wait(REPO_SERVER_TIMEOUT.total_seconds() + 1)
    await world.instance.stop()
    assert world.defects == []
    return world


def contents(world: World) -> dict[tuple[str, str], Manifest]:
    """All objects, less what the API server counts."""
    found = copy.deepcopy(world.cluster.objects)
    for manifest in found.values():
        for counted in ("uid", "resourceVersion"):
            manifest["metadata"].pop(counted, None)
    return found


def told(world: World) -> dict[str, Any]:
    """The last that is reported of each object, and what of each run."""
    last = {name: event for name, event in world.reports.sent if not isinstance(event, SyncMoved)}
    runs = {event.run: event.phase for _, event in world.reports.sent if isinstance(event, SyncMoved)}
    removed = {name for name, event in world.reports.sent if isinstance(event, Removed)}
    return {"last": last, "runs": runs, "removed": removed, "instance": world.reports.told[-1:]}


STORIES = [
    sync_and_remove,
    isolate,
    environment_comes_and_goes,
    release_to_another_instance,
    give_up_what_another_instance_has,
    give_up_what_was_synced_while_nobody_looked,
    former_secret_is_taken_over,
    approved_orphans_go,
]


@pytest.mark.parametrize("story", STORIES)
async def test_agent_when_it_ends_before_any_one_of_its_effects_then_its_successor_ends_where_it_would_have(
    story: Callable[[World], Awaitable[None]],
) -> None:
    expected = await ended(story, fatal=-1)
    number = expected.effects.done
    assert number > 8, "the effects are not seen any more"
    for fatal in range(1, number + 1):
        world = await ended(story, fatal)
        assert contents(world) == contents(expected), f"before effect {fatal} of {number}"
        assert told(world) == told(expected), f"before effect {fatal} of {number}"
        assert world.started == expected.started, f"before effect {fatal} of {number}"
        assert world.committed == len(world.log)
        assert world.broken == []


# A tenant's cluster


@dataclass
class TenantsCluster:
    """As much of a tenant's API server as an account is made in; the process ends before one of the calls."""

    effects: Effects
    objects: dict[tuple[str, str, str], Manifest] = field(default_factory=dict)

    async def find_object(self, resource: Any, namespace: str, name: str) -> Manifest | None:
        await self._enter()
        return copy.deepcopy(self.objects.get((resource.kind, namespace, name)))

    async def list_objects(self, resource: Any, query: str) -> Iterable[Manifest]:
        await self._enter()
        return [copy.deepcopy(each) for (kind, _, _), each in self.objects.items() if kind == resource.kind]

    async def apply_object(self, resource: Any, manifest: Manifest) -> None:
        await self._enter()
        meta = manifest["metadata"]
        self.objects[resource.kind, meta.get("namespace", ""), meta["name"]] = copy.deepcopy(manifest)

    async def remove_object(self, resource: Any, namespace: str, name: str) -> None:
        await self._enter()
        self.objects.pop((resource.kind, namespace, name), None)

    async def _enter(self) -> None:
        if not self.effects.happens():
            raise Ended

    @property
    def noted(self) -> set[str]:
        """Where the account's list says that there are rights."""
        for (kind, _, _), manifest in self.objects.items():
            if kind == SERVICE_ACCOUNT.kind:
                return set(manifest["metadata"]["annotations"][GRANTED].split(","))
        return set()

    @property
    def granted(self) -> set[str]:
        """Where there are rights."""
        return {namespace for kind, namespace, _ in self.objects if kind in {"Role", "RoleBinding"}}


class Ended(BaseException):
    """The process ends here."""


def recipe_for(*namespaces: str) -> ClusterRecipe:
    parts: Any = dict.fromkeys(ClusterRecipe.__dataclass_fields__)
    return ClusterRecipe(**parts | {"uid": "1", "namespaces": namespaces, "cluster_resources": False})


async def installed(cluster: TenantsCluster) -> None:
    """Once for two namespaces, then for one of them and another."""
    account: Any = Account(cluster, "1")  # type: ignore[arg-type]
    await account.install_account(recipe_for("a", "b"))
    await account.install_account(recipe_for("b", "c"))


async def removed(cluster: TenantsCluster) -> None:
    await Account(cluster, "1").remove_account(frozenset())  # type: ignore[arg-type]


@pytest.mark.parametrize("then", [installed, removed])
async def test_account_when_its_agent_ends_before_any_one_call_then_no_right_is_forgotten_and_the_next_agent_ends_it(
    then: Callable[[TenantsCluster], Awaitable[None]],
) -> None:
    async def all_of_it(cluster: TenantsCluster) -> None:
        await installed(cluster)
        await then(cluster)

    expected = TenantsCluster(Effects(fatal=-1))
    await all_of_it(expected)
    for fatal in range(1, expected.effects.done + 1):
        cluster = TenantsCluster(Effects(fatal))
        with pytest.raises(Ended):
            await all_of_it(cluster)
        assert cluster.granted <= cluster.noted, f"before call {fatal}"
        cluster.effects = Effects(fatal=-1)
        await then(cluster)
        assert cluster.objects == expected.objects, f"before call {fatal}"
