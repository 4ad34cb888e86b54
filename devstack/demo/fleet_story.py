"""The acts about the fleet: real Argo CDs are added, broken, healed and replaced, and no tenant notices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from rich import box
from rich.table import Table

from devstack.demo.argocds import OLD_ARGOCD, Instance, version
from devstack.demo.board import Row
from devstack.demo.continuity import Continuity, continuity_of
from devstack.demo.fleet_watch import FleetWatch
from devstack.demo.story import Story
from devstack.demo.users import Act
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.stack import second_cluster
from devstack.toolchain.install import NEWEST_ARGOCD
from services.cli.fleet.fleet_view import FleetSnapshot
from services.common.errors import Unavailable
from services.common.kubernetes import Manifest
from services.common.messages import Health

SOAK = "3s"
CROWD = ("team-amber", "team-cyan", "team-olive", "team-plum")
"""Tenants besides those of the other acts."""
TRAVELLER = Row("team-coral", "site", "create")
"""Moves to the other engine cluster: it deploys to a cluster that it brings, and to none that it would leave."""
STEP_SECONDS = 120.0


@dataclass(slots=True)
class Durations:
    """How long each thing took, for the summary."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measured(self, what: str) -> Iterator[None]:
        """The block is one of them."""
        began = time.monotonic()
        yield
        self.seconds[what] = time.monotonic() - began

    def summary(self) -> Table:
        """All of them; only shown when each act has checked what it says."""
        table = Table("the fleet", "seconds", title="Summary of the fleet", box=box.SIMPLE)
        table.columns[1].justify = "right"
        for what, seconds in self.seconds.items():
            table.add_row(what, f"{seconds:.1f}")
        if self.seconds:
            table.add_row("gaps in tenants' status, workloads touched", "none")
        return table


@dataclass(slots=True)
class FleetStory:
    """Each act has something happen, waits for what must follow, and fails loudly if it does not."""

    stack: HostedStack
    story: Story
    watch: FleetWatch
    north: Mirror
    """Applications of the second engine cluster."""
    durations: Durations = field(default_factory=Durations)
    old: str = field(default_factory=lambda: version(OLD_ARGOCD))
    new: str = field(default_factory=lambda: version(NEWEST_ARGOCD))

    def first_act(self) -> Act:
        """Before there is any tenant."""
        return (f"The fleet begins with one instance: Argo CD {self.old}", self.beginning)

    def acts(self) -> tuple[Act, ...]:
        """In order, once there are tenants."""
        return (
            ("The fleet grows: an instance is added, and tenants spread", self.growth),
            ("Its Argo CD breaks: found, evacuated, healed", self.outage),
            (f"Argo CD {self.new} comes to the fleet: ring canary first, then general", self.rollout),
            (f"A tenant moves to an Argo CD of the other engine cluster, {second_cluster.NAME}", self.other_cluster),
        )

    @property
    def general(self) -> Instance:
        """With which the fleet begins."""
        return Instance(1, "general-1", "general", self.old)

    @property
    def canary(self) -> Instance:
        """That is added, and breaks."""
        return Instance(2, "canary-1", "canary", self.old)

    @property
    def newer(self) -> tuple[Instance, Instance]:
        """Of the new version, by ring."""
        return Instance(3, "canary-2", "canary", self.new), Instance(4, "general-2", "general", self.new)

    @property
    def other(self) -> Instance:
        """In the second engine cluster."""
        return Instance(1, "north-1", "general", self.new, second_cluster.NAME)

    async def beginning(self) -> None:
        """The stack's own row says nothing of a version, so another takes its place while nobody is on it."""
        (known,) = self.watch.snapshot.instances()
        await self.watch.order(f"drain {known.id}")
        await self.watch.order(f"retire {known.id}")
        await self._join(self.general)

    async def growth(self) -> None:
        """Of one instance become two."""
        self.story.users.board.settle()  # when tenants move, their Applications come and go
        await self._welcome_crowd()
        async with self._unnoticed():
            with self.durations.measured(f"{self.canary.id}: from its start to accepting tenants"):
                await self._start(self.canary)
                await self._join(self.canary)
            with self.durations.measured("tenants spread over both"):
                await self._rebalance()

    async def outage(self) -> None:
        """The controller is killed, and nobody is told."""
        name = self.canary.id
        evacuated = sorted(self._tenants_on(self.canary))
        async with self._unnoticed() as continuity:
            began = time.monotonic()
            self.watch.say(f"  {self.canary.controller} is killed; on {name}: {', '.join(evacuated)}")
            await asyncio.to_thread(self.stack.kill, self.canary.controller)
            with self.durations.measured(f"{name}: from the kill to found down"):
                await self.watch.until(
                    f"{name} is found to be down", lambda snapshot: snapshot.fleet.is_down(name), STEP_SECONDS
                )
            await self._until_left(name)
            self.durations.seconds[f"{name}: from the kill to evacuated"] = time.monotonic() - began
            with self.durations.measured("a commit of an evacuated tenant, while it is down, to deployed"):
                rows = [Row(tenant, "web", "commit, evacuated", "commit, evacuated") for tenant in evacuated]
                await self._commit(continuity, rows, "v3")
            with self.durations.measured(f"{name}: from its start to healed"):
                await asyncio.to_thread(self.stack.start, self.canary.controller)
                await self.watch.until(f"{name} is well again", lambda snapshot: _is_well(snapshot, name), STEP_SECONDS)
            await self._give_up_replacement()
            await self._rebalance()

    async def rollout(self) -> None:
        """Blue and green in each ring; what is replaced is given up, and stopped."""
        canary, general = self.newer
        async with self._unnoticed() as continuity:
            await self._start(canary)
            await self._join(canary)
            await self.watch.order(f"rollout start {self.new} --rings canary,general --soak {SOAK}")
            with self.durations.measured(f"ring canary: all tenants on Argo CD {self.new}"):
                await self._until_rolled("ring canary is done", lambda snapshot: _is_retired(snapshot, self.canary.id))
            await self._stop(self.canary)
            await self._start(general)
            await self._join(general)
            with self.durations.measured(f"ring general: all tenants on Argo CD {self.new}"):
                await self._until_rolled("the rollout is done", _is_done)
            await self._stop(self.general)
            with self.durations.measured(f"a commit of each tenant, to deployed by Argo CD {self.new}"):
                tenants = sorted({tenant for tenant, _ in self.story.users.deployments.objects})
                rows = [Row(tenant, "web", f"commit, {self.new}", f"commit, Argo CD {self.new}") for tenant in tenants]
                await self._commit(continuity, rows, "v4")

    async def other_cluster(self) -> None:
        """With an API server and an agent of its own: all of the tenant goes there, and its workload is as it was."""
        tenant, name = TRAVELLER.tenant, TRAVELLER.name
        await self.story.users.namespace(tenant)
        await asyncio.gather(self.story.bring_cluster(tenant, name), self._start(self.other))
        await self._join(self.other)
        self.story.users.board.settle()  # as in :meth:`growth`
        async with self._unnoticed() as continuity:
            with self.durations.measured(f"{tenant}: moved to cluster {self.other.cluster}"):
                await self.watch.order(f"move {tenant} --to {self.other.id}")
                await self.watch.until(
                    f"{tenant} is on {self.other.id}",
                    lambda snapshot: _has_moved(snapshot, self.other.id),
                    STEP_SECONDS,
                )
            await self._require_moved()
            with self.durations.measured(f"a commit of {tenant}, to deployed from there"):
                await self._commit(continuity, [Row(tenant, name, "commit, moved", "commit, moved")], "v5")

    async def _require_moved(self) -> None:
        """Its Application is in the second cluster, and in no other: raises Unavailable."""
        uid = self.story.users.uid(TRAVELLER)
        await self.north.until("its Application is there", lambda objects: _has_application(objects, uid))
        await self.story.users.applications.until("it is not here", lambda objects: not _has_application(objects, uid))

    async def _welcome_crowd(self) -> None:
        """So that there is somebody to spread."""
        for tenant in CROWD:
            await self.story.users.namespace(tenant)
        await asyncio.gather(*(self.story.create(Row(tenant, "web", "create", "CR")) for tenant in CROWD))
        self.story.users.board.settle()

    async def _join(self, instance: Instance) -> None:
        await self.watch.order(instance.added_by)
        await self.watch.until(
            f"{instance.id} accepts tenants", lambda snapshot: _is_accepting(snapshot, instance.id), STEP_SECONDS
        )

    async def _start(self, instance: Instance) -> None:
        self.watch.say(f"  real Argo CD {instance.version} starts in namespace {instance.namespace}")
        for process in instance.processes:
            await asyncio.to_thread(self.stack.start, process)

    async def _stop(self, instance: Instance) -> None:
        for process in reversed(instance.processes):
            await asyncio.to_thread(self.stack.kill, process)

    async def _rebalance(self) -> None:
        await self.watch.order("rebalance")
        await self.watch.until("both instances have tenants", _is_spread, STEP_SECONDS)

    async def _give_up_replacement(self) -> None:
        """It was ordered when the evacuation began, and nobody installs it: Argo CDs of the demo are processes."""
        for row in self.watch.snapshot.instances():
            if row.state == "provisioning":
                await self.watch.order(f"retire {row.id}")

    async def _until_left(self, name: str) -> None:
        def is_left(snapshot: FleetSnapshot) -> bool:
            return not snapshot.fleet.holding(name).tenants and not snapshot.moves()

        await self.watch.until(f"{name} is evacuated", is_left, STEP_SECONDS)

    async def _until_rolled(self, what: str, holds: Callable[[FleetSnapshot], bool]) -> None:
        """Raises Unavailable with the rollout's own reason if it has failed."""
        await self.watch.until(what, lambda snapshot: holds(snapshot) or _has_failed(snapshot), STEP_SECONDS)
        rollout = self.watch.snapshot.rollout
        if rollout is not None and _has_failed(self.watch.snapshot):
            raise Unavailable(f"the rollout has {rollout.step}: {rollout.reason}")

    async def _commit(self, continuity: Continuity, rows: list[Row], value: str) -> None:
        """Until now nobody has noticed anything; from now on each of these deployments has something new."""
        continuity.require_unnoticed()
        with continuity.committing(*((row.tenant, row.name) for row in rows)):
            await asyncio.gather(*(self.story.commit(row, value) for row in rows))
        continuity.begin()

    @asynccontextmanager
    async def _unnoticed(self) -> AsyncIterator[Continuity]:
        """Raises Unavailable if tenants notice anything of what the block does."""
        async with continuity_of(self.story) as continuity:
            yield continuity
            continuity.require_unnoticed()

    def _tenants_on(self, instance: Instance) -> set[str]:
        """By the Applications that are in its namespace."""
        here = {name for namespace, name in self.story.users.applications.objects if namespace == instance.namespace}
        deployments = self.story.users.deployments.objects
        return {
            tenant
            for (tenant, _), manifest in deployments.items()
            if any(name.endswith(manifest["metadata"]["uid"]) for name in here)
        }


def _is_accepting(snapshot: FleetSnapshot, name: str) -> bool:
    row = snapshot.fleet.instances.get(name)
    return row is not None and row.state == "accepting"


def _is_retired(snapshot: FleetSnapshot, name: str) -> bool:
    return snapshot.fleet.instances[name].is_retired


def _is_spread(snapshot: FleetSnapshot) -> bool:
    return not snapshot.moves() and all(snapshot.fleet.holding(row.id).tenants for row in snapshot.instances())


def _is_well(snapshot: FleetSnapshot, name: str) -> bool:
    is_healthy = snapshot.fleet.health[name].health == Health.HEALTHY.value
    return is_healthy and snapshot.remedy(name) is None and name not in snapshot.fleet.cordoned


def _has_moved(snapshot: FleetSnapshot, name: str) -> bool:
    return not snapshot.moves() and bool(snapshot.fleet.holding(name).tenants)


def _has_application(applications: Mapping[tuple[str, str], Manifest], uid: str) -> bool:
    return any(name.endswith(uid) for _, name in applications)


def _is_done(snapshot: FleetSnapshot) -> bool:
    return snapshot.rollout is not None and snapshot.rollout.step == "done"


def _has_failed(snapshot: FleetSnapshot) -> bool:
    return snapshot.rollout is not None and snapshot.rollout.step in {"failed", "aborted"}
