"""When a private repository that nobody names is forgotten, and when it must not be."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from services.agent.private_repositories.known_repositories import PrivateRepositoryRegistry
from services.agent.private_repositories.registry_expiry import EXPIRY_SECONDS, SETTLED, RegistryExpiry
from services.agent.private_repositories.repository_identity import identity_of
from services.common.kubernetes import Rejected
from tests.unit.agent.fakes import MemoryCluster
from tests.unit.fake_clock import FakeClock

ONE = identity_of("https://h.example/one")
REPO_SERVER = {"app.kubernetes.io/name": "argocd-repo-server"}
DISK = {"name": "tmp", "emptyDir": {}}
LASTING = {"name": "tmp", "persistentVolumeClaim": {"claimName": "checkouts"}}
LONG = SETTLED + timedelta(minutes=1)


class World:
    """A registry with one repository, which a row names."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = MemoryCluster(self.clock)
        self.named = {ONE.repository}
        self.registry = PrivateRepositoryRegistry(self.cluster, "argocd")
        self.registry.add_repository(ONE, "ours")
        self.expiry = RegistryExpiry(
            self.registry, self.cluster, "argocd", self.clock, lambda repository: repository in self.named
        )

    def start_repo_server(self, name: str = "a", at: datetime | None = None, volume: Any = DISK) -> None:
        began = {"creationTimestamp": (at or self.clock.now()).isoformat(), "labels": REPO_SERVER}
        self.cluster.put("Pod", name, {"metadata": began, "spec": {"volumes": [volume]}})

    async def expire_after(self, passed: timedelta) -> bool:
        """Returns whether the repository is still known."""
        self.clock.seconds += passed.total_seconds()
        await self.expiry.expire_entries()
        return self.registry.identity_in_force(ONE.repository) is not None

    async def unname(self) -> None:
        self.named.clear()
        await self.expire_after(timedelta())


@pytest.fixture
def world() -> World:
    world = World()
    world.start_repo_server()
    return world


async def test_repository_when_nobody_names_it_and_the_repo_server_is_younger_then_it_is_forgotten(
    world: World,
) -> None:
    await world.unname()
    world.clock.seconds += LONG.total_seconds()
    world.start_repo_server()
    assert not await world.expire_after(timedelta())
    assert world.cluster.names("Secret") == []


async def test_repository_when_the_repo_server_may_have_it_then_it_is_never_forgotten(world: World) -> None:
    await world.unname()
    assert await world.expire_after(timedelta(days=365))


async def test_repository_when_one_of_two_repo_servers_may_have_it_then_it_is_kept(world: World) -> None:
    await world.unname()
    world.clock.seconds += LONG.total_seconds()
    world.start_repo_server("b")
    assert await world.expire_after(LONG)


async def test_repository_when_its_rows_went_just_before_the_repo_server_began_then_it_is_kept(world: World) -> None:
    await world.unname()
    world.clock.seconds += SETTLED.total_seconds() / 2
    world.start_repo_server()
    assert await world.expire_after(LONG)


async def test_repository_when_somebody_names_it_then_it_is_kept(world: World) -> None:
    world.start_repo_server(at=world.clock.now() + LONG)
    assert await world.expire_after(LONG * 2)


async def test_repository_when_it_was_named_again_meanwhile_then_its_time_begins_anew(world: World) -> None:
    await world.unname()
    world.named.add(ONE.repository)
    assert await world.expire_after(LONG)
    world.start_repo_server()
    await world.unname()
    assert await world.expire_after(LONG)


async def test_repository_when_the_disk_outlives_its_pod_then_it_is_kept(world: World) -> None:
    await world.unname()
    world.clock.seconds += LONG.total_seconds()
    world.start_repo_server(volume=LASTING)
    assert await world.expire_after(LONG)


async def test_repository_when_no_repo_server_is_to_be_seen_then_it_is_kept(world: World) -> None:
    world.cluster.remove("Pod", "a")
    await world.unname()
    assert await world.expire_after(LONG)


async def test_time_when_another_agent_takes_over_then_it_goes_on(world: World) -> None:
    await world.unname()
    successor = PrivateRepositoryRegistry(world.cluster, "argocd")
    await successor.load_repositories(lambda _: None)
    entry = successor.entry_of(ONE.repository)
    assert entry is not None
    assert entry.unnamed_since == int(world.clock.now().timestamp())


async def test_sweep_when_pods_may_not_be_listed_then_it_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise Rejected("API server answered 403 Forbidden: no", 403)
        yield

    await world.unname()
    monkeypatch.setattr(world.cluster, "list_pages", refuse)
    with pytest.raises(Rejected):
        await world.expire_after(timedelta(seconds=EXPIRY_SECONDS))
    assert world.registry.identity_in_force(ONE.repository) is not None
