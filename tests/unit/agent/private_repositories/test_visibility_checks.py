"""Attempts at private repositories whose server does not answer, by a tenant that keeps changing what it wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from services.agent.background_tasks import BackgroundTasks
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.private_repositories.known_repositories import PrivateRepositoryRegistry
from services.agent.private_repositories.repository_identity import Identity
from services.agent.private_repositories.visibility_checks import ATTEMPTS_PER_TENANT, VisibilityChecks
from tests.unit.agent.fakes import FakeChecker, MemoryCluster
from tests.unit.agent.rows import application_row
from tests.unit.fake_clock import FakeClock, settle

URL = "https://example.com/team/repo"
SPELLINGS = [URL, f"{URL}.git", "https://EXAMPLE.com/team/repo", "https://example.com/Team/repo", f"{URL}.GIT"]
OTHERS = [f"https://example.com/team/{number}" for number in range(3 * ATTEMPTS_PER_TENANT)]
KEY = ObjectKey("Application", "argocd", "app")


class Tenant:
    """Wants repositories of a server that does not answer until it is told to."""

    def __init__(self) -> None:
        self.checker, self.closed, self.defects = FakeChecker(), list[ObjectKey](), list[BaseException]()
        self.answers = asyncio.Event()
        self.checker.gates = {f"public {url}": self.answers for url in (*SPELLINGS, *OTHERS)}
        self.tasks = BackgroundTasks(self.defects.append)
        clock = FakeClock()
        registry = PrivateRepositoryRegistry(MemoryCluster(clock), "argocd")
        self.visibility = VisibilityChecks(
            self.tasks, self.checker, clock, registry, on_public=self._on_public, on_tried=self._on_tried
        )

    async def wants(self, url: str, key: ObjectKey = KEY) -> bool:
        """Whether it may be refused the repository."""
        has_tried = self.visibility.has_tried(key, application_row(key.name, repoURL=url), url)
        await settle()
        return has_tried

    def tried(self) -> list[str]:
        """The URLs of all attempts that were begun."""
        return [url for url, _ in self.checker.probed]

    async def _on_public(self, identity: Identity) -> None:
        raise AssertionError(identity)

    def _on_tried(self, keys: Iterable[ObjectKey]) -> None:
        self.closed += keys


@pytest.fixture
async def tenant() -> AsyncIterator[Tenant]:
    made = Tenant()
    yield made
    made.tasks.cancel_all()
    await made.tasks.wait_for_all()
    assert made.defects == []


async def test_attempt_when_its_spelling_alternates_then_one_is_under_way_and_the_last_follows(tenant: Tenant) -> None:
    for url in 20 * SPELLINGS:
        await tenant.wants(url)
    assert tenant.tried() == [URL]
    tenant.answers.set()
    await settle()
    assert tenant.tried() == [URL, SPELLINGS[-1]]
    assert tenant.closed == [KEY]
    assert await tenant.wants(SPELLINGS[-1])


async def test_attempt_when_its_object_is_deleted_and_created_again_then_it_is_the_same_attempt(tenant: Tenant) -> None:
    for _ in range(20):
        await tenant.wants(URL)
        tenant.visibility.forget_object(KEY)
    await tenant.wants(URL)
    tenant.answers.set()
    await settle()
    assert tenant.tried() == [URL]
    assert await tenant.wants(URL)


async def test_attempts_when_a_tenant_wants_one_repository_after_the_other_then_few_are_under_way(
    tenant: Tenant,
) -> None:
    for url in 5 * OTHERS:
        await tenant.wants(url)
    assert tenant.tried() == OTHERS[:ATTEMPTS_PER_TENANT]
    tenant.answers.set()
    await settle()
    assert tenant.tried() == [*OTHERS[:ATTEMPTS_PER_TENANT], OTHERS[-1]]


async def test_attempts_when_many_objects_want_a_repository_each_then_each_is_tried_in_the_end(tenant: Tenant) -> None:
    keys = [ObjectKey("Application", "argocd", f"app-{number}") for number in range(len(OTHERS) + len(SPELLINGS))]
    for key, url in zip(keys, OTHERS + SPELLINGS, strict=True):
        await tenant.wants(url, key)
    tenant.answers.set()
    await settle()
    assert sorted(tenant.tried()) == sorted(OTHERS + SPELLINGS)
    assert sorted(tenant.closed) == sorted(keys)


async def test_attempt_when_nothing_wants_it_at_its_end_then_the_next_one_asks_the_server_again(tenant: Tenant) -> None:
    await tenant.wants(URL)
    tenant.visibility.forget_object(KEY)
    tenant.answers.set()
    await settle()
    assert not await tenant.wants(URL)
    assert tenant.tried() == [URL, URL]
