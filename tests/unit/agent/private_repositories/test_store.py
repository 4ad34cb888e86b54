"""What is remembered of private repositories, and by whom it can be lost."""

from __future__ import annotations

import asyncio
import base64

import pytest

from services.agent.private_repositories.stored_registry import (
    LIMIT,
    NAME,
    PrivateRepositoryStore,
    StoreFull,
    identity_of,
)
from services.common.errors import Permanent, Retry
from services.common.kubernetes import Manifest
from tests.unit.agent.fakes import MemoryCluster
from tests.unit.fake_clock import FakeClock

ONE, TWO, THREE = (identity_of(f"https://h.example/{name}") for name in ("one", "two", "three"))
MEBIBYTE = 1024 * 1024


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(FakeClock())


def secret(cluster: MemoryCluster) -> Manifest:
    return cluster.objects["Secret", NAME]


async def another(cluster: MemoryCluster) -> PrivateRepositoryStore:
    """As read by whoever takes over."""
    registry = PrivateRepositoryStore(cluster, "argocd")
    await registry.load_repositories()
    return registry


async def test_entry_when_it_was_saved_then_whoever_takes_over_knows_it(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE)
    registry.add_repository(TWO)
    await registry.save_repositories()
    registry.remove_repository(TWO)
    await registry.save_repositories()
    successor = await another(cluster)
    assert (successor.identity_in_force(ONE.repository), successor.identity_in_force(TWO.repository)) == (ONE, None)


async def test_entries_when_saved_together_then_written_together(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    for identity in (ONE, TWO, THREE):
        registry.add_repository(identity)
    await asyncio.gather(*(registry.save_repositories() for _ in range(3)))
    assert cluster.writes() == [("create", NAME)]


async def test_registry_when_nothing_has_changed_then_nothing_is_written(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    await registry.save_repositories()
    assert cluster.writes() == []


async def test_registry_when_two_write_then_neither_loses_what_the_other_wrote(cluster: MemoryCluster) -> None:
    zombie, successor = await another(cluster), await another(cluster)
    for registry, identity in ((zombie, ONE), (successor, TWO), (zombie, THREE)):
        registry.add_repository(identity)
        await registry.save_repositories()
    present = await another(cluster)
    assert [present.identity_in_force(each.repository) for each in (ONE, TWO, THREE)] == [ONE, TWO, THREE]


async def test_registry_when_its_secret_was_deleted_then_it_is_made_anew(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE)
    await registry.save_repositories()
    cluster.remove("Secret", NAME)
    registry.add_repository(TWO)
    await registry.save_repositories()
    assert (await another(cluster)).identity_in_force(TWO.repository) == TWO


async def test_entry_when_it_cannot_be_written_then_it_holds_and_is_written_later(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE)
    cluster.failing = Retry("no answer")
    with pytest.raises(Retry):
        await registry.save_repositories()
    assert registry.identity_in_force(ONE.repository) == ONE
    cluster.failing = None
    await registry.save_repositories()
    assert (await another(cluster)).identity_in_force(ONE.repository) == ONE


async def test_removal_when_another_spelling_is_meant_then_the_entry_stays(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE)
    registry.remove_repository(identity_of("https://h.example/ONE"))
    assert registry.identity_in_force(ONE.repository) == ONE


async def test_registry_when_full_then_no_other_is_taken_and_those_there_hold(cluster: MemoryCluster) -> None:
    registry = PrivateRepositoryStore(cluster, "argocd", limit=1)
    registry.add_repository(ONE)
    with pytest.raises(StoreFull):
        registry.add_repository(TWO)
    assert registry.identity_in_force(ONE.repository) == ONE


async def test_secret_when_full_then_it_is_well_below_what_a_secret_may_hold_and_names_nobody(
    cluster: MemoryCluster,
) -> None:
    registry = await another(cluster)
    for number in range(LIMIT):
        registry.add_repository(identity_of(f"https://h.example/{number}"))
    await registry.save_repositories()
    content = base64.b64decode(secret(cluster)["data"]["repositories"])
    assert len(content) < 0.7 * MEBIBYTE
    assert b"h.example" not in content


@pytest.mark.parametrize("content", ["?", base64.b64encode(b"x" * 31).decode()])
async def test_secret_when_it_is_not_as_it_was_written_then_it_is_not_taken_for_empty(
    cluster: MemoryCluster, content: str
) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE)
    await registry.save_repositories()
    secret(cluster)["data"]["repositories"] = content
    with pytest.raises(Permanent, match=NAME):
        await another(cluster)
