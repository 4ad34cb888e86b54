"""The user of a tenant that is moved between simulators of Argo CD: what they ask for meanwhile, and may rely on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from typing import Any

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import KubeClient, Manifest
from tests.e2e.api import Api, Cluster
from tests.e2e.held import Held
from tests.e2e.kills import MOST_MOVES, Kills, starts_seen, steps_from
from tests.e2e.operators import listed, sole_instance, until_seen
from tests.e2e.status_history import BY_PATCH, BY_SIMULATOR, seen_by_user
from tests.e2e.tenant import Tenant, path

KEPT, CHANGED, MANUAL = "kept", "changed", "by-hand"
"""Deployments: of the first nothing is asked."""

HEARD_WITHIN = timedelta(seconds=75)
"""An agent that nobody kills tells of each instance every minute."""


@dataclass
class MovedUser:
    """Asks for something during each move: a change of what is automated, a sync run of what is manual."""

    tenant: Tenant
    api: Api
    created: dict[str, Manifest]
    """Deployments by name."""
    needed: set[str]
    """Names of what the engine needs for them."""
    specs: dict[str, Manifest]
    """Of their Applications before any move, by the deployment's name."""
    runs: list[Manifest] = field(default_factory=list)

    @classmethod
    async def begin(cls, tenant: Tenant, api: Api, environment: str, held: Held) -> MovedUser:
        """All that they have is deployed to an environment, but what is manual, by an instance of this cluster."""
        destination = {"environment": environment, "namespace": "web"}
        created = {name: await tenant.create(name, destination=destination) for name in (KEPT, CHANGED)}
        created[MANUAL] = await tenant.create(MANUAL, type="manual", destination=destination)
        for name in (KEPT, CHANGED):
            await tenant.until_status("it is synced", name, sync__status="Synced", health__status="Healthy")
        await tenant.until_status("it is compared", MANUAL, sync__status="OutOfSync")
        needed = await _needed(created, held)
        return cls(
            tenant, api, created, needed, {name: held.application(each)["spec"] for name, each in created.items()}
        )

    @classmethod
    async def begin_on(
        cls, stack: HostedStack, instance: str, tenant: Tenant, api: Api, cluster: Cluster, held: Held
    ) -> MovedUser:
        """Likewise, by this instance, to the first environment that they have."""
        with sole_instance(stack, instance):
            await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
            await api.environment("prod", apiURL=cluster.url)
            return await cls.begin(tenant, api, "prod", held)

    async def ask(self) -> None:
        """For the next version of both."""
        number = len(self.runs)
        await self.tenant.patch(CHANGED, path(_version(number)))
        self.runs.append(await self.api.sync_run(f"run-{number}", MANUAL))

    async def until_it_is_there(self) -> None:
        """All that was asked for: the resources say so."""
        number = len(self.runs) - 1
        await self.tenant.until_status(
            "it is changed",
            CHANGED,
            reconciledState__source__path=_version(number),
            sync__status="Synced",
            health__status="Healthy",
        )
        await self.api.until_phase(f"run-{number}", "Succeeded")

    async def require_moved(self, source: Held, target: Held) -> None:
        """All of it is there once, as its resources say, and nothing is left where it was."""
        assert await _needed(self.created, target) == self.needed
        for name, created in self.created.items():
            wanted = self.tenant.deployments.objects[self.tenant.namespace, name]["spec"]["source"]
            before = self.specs[name]
            assert target.application(created)["spec"] == before | {"source": before["source"] | wanted}
        await source.until_without(self.needed)


async def _needed(created: dict[str, Manifest], held: Held) -> set[str]:
    return {name for each in created.values() for name in await held.objects_of(each)}


def _version(number: int) -> str:
    return f"apps/version-{number}"


@asynccontextmanager
async def unnoticed(user: MovedUser, *engine_clusters: KubeClient) -> AsyncIterator[None]:
    """While the block runs each sync run begins once, and the user sees nothing that they have not asked for."""
    async with (
        starts_seen(*engine_clusters) as starts,
        seen_by_user(user.tenant, KEPT) as seen,
        seen_by_user(user.tenant, CHANGED) as seen_of_changed,
    ):
        yield
        assert (await seen.changes(BY_SIMULATOR), await seen_of_changed.changes(BY_PATCH)) == ([], [])
        assert (await seen.gaps(), await seen_of_changed.gaps()) == ([], [])
        assert [starts.count(run["metadata"]["uid"]) for run in user.runs] == [1] * len(user.runs)


@dataclass(frozen=True)
class Way:
    """A move from one place to another, and who is still to be killed in it."""

    source: Held
    target: Held
    kills: Kills
    order: Callable[[], Awaitable[None]]
    find_processes: Callable[[], Awaitable[Mapping[str, str]]]
    """Names by role."""

    async def go(self, user: MovedUser) -> None:
        """Once; all is there afterwards, as whoever is moved may rely on."""
        await _until_heard(self.kills.mover.stack)
        processes = await self.find_processes()
        await self.order()
        victims = sorted({role for _, role in self.kills.left})
        await self.kills.follow_move(user, victims, processes, steps_from(len(user.runs)))
        await user.require_moved(self.source, self.target)


async def _until_heard(stack: HostedStack) -> None:
    """Until no agent has been silent for long: one that is killed again and again tells of no instance.

    A move to or from one that nothing has been told of for three minutes is refused, or goes back.
    """

    def are_heard(shown: list[dict[str, Any]]) -> bool:
        told = (each["healthReportedAt"] for each in shown if each["state"] == "accepting")
        return all(datetime.now(UTC) - datetime.fromisoformat(each) < HEARD_WITHIN for each in told if each)

    await until_seen(lambda: listed(stack, "list"), are_heard)


async def go_until_all_are_killed(user: MovedUser, *ways: Way) -> None:
    """One way after the other, and again, until nobody is left to be killed."""
    for way in islice(cycle(ways), MOST_MOVES):
        if any(each.kills.left for each in ways):
            await way.go(user)
    assert [each.kills.left for each in ways] == [set()] * len(ways)
