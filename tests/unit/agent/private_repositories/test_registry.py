"""What is remembered of private repositories, by whom it can be lost, and what one tenant costs the others."""

from __future__ import annotations

import asyncio
import base64

import pytest

from services.agent.private_repositories.known_repositories import (
    FORMER_FIELD,
    TENANT_LIMIT,
    UNKNOWN_OWNER,
    PrivateRepositoryRegistry,
    TenantLimitReached,
    owner_of,
)
from services.agent.private_repositories.registry_secret import FIELD, NAME, secret_name
from services.agent.private_repositories.repository_identity import Identity, identity_of
from services.common.errors import Permanent, Retry
from services.common.kubernetes import Manifest
from tests.unit.agent.fakes import LABEL, MemoryCluster
from tests.unit.fake_clock import FakeClock

ONE, TWO, THREE = (identity_of(f"https://h.example/{name}") for name in ("one", "two", "three"))
OURS, THEIRS = "ours", "theirs"
OUR_SECRET, THEIR_SECRET = secret_name(owner_of(OURS)), secret_name(owner_of(THEIRS))
KIBIBYTE = 1024


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(FakeClock())


def secret(cluster: MemoryCluster, name: str = OUR_SECRET) -> Manifest:
    return cluster.objects["Secret", name]


def nobody(_repository: bytes) -> None:
    """Has a login."""


async def another(cluster: MemoryCluster) -> PrivateRepositoryRegistry:
    """As read by whoever takes over."""
    registry = PrivateRepositoryRegistry(cluster, "argocd")
    await registry.load_repositories(nobody)
    return registry


def known(registry: PrivateRepositoryRegistry, *identities: Identity) -> list[Identity | None]:
    return [registry.identity_in_force(each.repository) for each in identities]


async def test_entry_when_it_was_saved_then_whoever_takes_over_knows_it(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE, OURS)
    registry.add_repository(TWO, OURS)
    await registry.save_all()
    registry.remove_repository(TWO)
    await registry.save_repository(TWO.repository)
    assert known(await another(cluster), ONE, TWO) == [ONE, None]


async def test_entries_when_saved_together_then_written_together(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    for identity in (ONE, TWO, THREE):
        registry.add_repository(identity, OURS)
    await asyncio.gather(*(registry.save_repository(each.repository) for each in (ONE, TWO, THREE)))
    assert cluster.writes() == [("create", OUR_SECRET)]


async def test_registry_when_nothing_has_changed_then_nothing_is_written(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    await registry.save_all()
    assert cluster.writes() == []


async def test_secret_when_its_last_entry_goes_then_it_goes_too_and_may_come_again(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    for change in (registry.add_repository, lambda identity, _: registry.remove_repository(identity)) * 2:
        change(ONE, OURS)
        await registry.save_all()
    assert cluster.writes() == [("create", OUR_SECRET), ("delete", OUR_SECRET)] * 2


async def test_registry_when_two_write_then_neither_loses_what_the_other_wrote(cluster: MemoryCluster) -> None:
    zombie, successor = await another(cluster), await another(cluster)
    for registry, identity in ((zombie, ONE), (successor, TWO), (zombie, THREE)):
        registry.add_repository(identity, OURS)
        await registry.save_all()
    assert known(await another(cluster), ONE, TWO, THREE) == [ONE, TWO, THREE]


async def test_registry_when_two_write_a_repository_for_two_tenants_then_one_of_them_has_it(
    cluster: MemoryCluster,
) -> None:
    zombie, successor = await another(cluster), await another(cluster)
    for registry, lane in ((zombie, OURS), (successor, THEIRS)):
        registry.add_repository(ONE, lane)
        await registry.save_all()
    present = await another(cluster)
    assert known(present, ONE) == [ONE]
    await present.save_all()
    assert len({OUR_SECRET, THEIR_SECRET} & {*cluster.names("Secret")}) == 1
    assert known(await another(cluster), ONE) == [ONE]


async def test_registry_when_its_secret_was_deleted_then_it_is_made_anew(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE, OURS)
    await registry.save_all()
    cluster.remove("Secret", OUR_SECRET)
    registry.add_repository(TWO, OURS)
    await registry.save_all()
    assert known(await another(cluster), ONE, TWO) == [ONE, TWO]


async def test_entry_when_it_cannot_be_written_then_it_holds_and_is_written_later(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE, OURS)
    cluster.failing = Retry("no answer")
    with pytest.raises(Retry):
        await registry.save_repository(ONE.repository)
    assert known(registry, ONE) == [ONE]
    cluster.failing = None
    await registry.save_repository(ONE.repository)
    assert known(await another(cluster), ONE) == [ONE]


async def test_removal_when_another_spelling_is_meant_then_the_entry_stays(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE, OURS)
    registry.remove_repository(identity_of("https://h.example/ONE"))
    assert known(registry, ONE) == [ONE]


async def test_hundred_tenants_when_one_takes_all_that_it_may_then_it_alone_is_refused_and_others_write_little(
    cluster: MemoryCluster,
) -> None:
    registry, hostile = await another(cluster), "hostile"
    for number in range(TENANT_LIMIT):
        registry.add_repository(identity_of(f"https://h.example/hostile/{number}"), hostile)
    await registry.save_all()
    with pytest.raises(TenantLimitReached):
        registry.add_repository(ONE, hostile)
    cluster.calls.clear()
    for tenant in range(99):
        identity = identity_of(f"https://h.example/tenant-{tenant}")
        registry.add_repository(identity, f"tenant-{tenant}")
        await registry.save_repository(identity.repository)
    hostiles = secret_name(owner_of(hostile))
    assert hostiles not in {name for _, name in cluster.writes()}
    others = [len(secret(cluster, name)["data"][FIELD]) for name in cluster.names("Secret") if name != hostiles]
    assert (len(others), max(others)) == (99, 48)
    assert len(await another(cluster)) == TENANT_LIMIT + 99


async def test_secret_when_full_then_it_is_small_and_names_nobody(cluster: MemoryCluster) -> None:
    registry = await another(cluster)
    for number in range(TENANT_LIMIT):
        registry.add_repository(identity_of(f"https://h.example/{number}"), OURS)
    await registry.save_all()
    content = base64.b64decode(secret(cluster)["data"][FIELD])
    assert len(content) < 40 * KIBIBYTE
    assert b"h.example" not in content


@pytest.mark.parametrize("content", ["?", "", base64.b64encode(b"x" * 35).decode()])
async def test_secret_when_it_is_not_as_it_was_written_then_it_is_not_taken_for_empty(
    cluster: MemoryCluster, content: str
) -> None:
    registry = await another(cluster)
    registry.add_repository(ONE, OURS)
    await registry.save_all()
    secret(cluster)["data"][FIELD] = content
    with pytest.raises(Permanent, match=OUR_SECRET):
        await another(cluster)


def put_former(cluster: MemoryCluster, *identities: Identity) -> None:
    """As agents wrote it before there was one for each tenant."""
    content = b"".join(each.repository + each.spelling for each in identities)
    data = {FORMER_FIELD: base64.b64encode(content).decode()}
    cluster.put("Secret", NAME, {"metadata": {"labels": dict(LABEL)}, "data": data})


async def test_former_secret_when_taken_over_then_each_entry_is_its_tenants_or_nobodys(cluster: MemoryCluster) -> None:
    put_former(cluster, ONE, TWO)
    registry = PrivateRepositoryRegistry(cluster, "argocd")
    await registry.load_repositories({ONE.repository: OURS}.get)
    assert cluster.names("Secret") == sorted([NAME, OUR_SECRET, secret_name(UNKNOWN_OWNER)])
    assert known(await another(cluster), ONE, TWO) == [ONE, TWO]
    assert len(base64.b64decode(secret(cluster, NAME)["data"][FORMER_FIELD])) % 32, "agents of before take it for empty"


async def test_former_secret_when_it_was_taken_over_then_it_is_not_again(cluster: MemoryCluster) -> None:
    put_former(cluster, ONE)
    registry = await another(cluster)
    registry.remove_repository(ONE)
    await registry.save_all()
    cluster.calls.clear()
    assert known(await another(cluster), ONE) == [None]
    assert cluster.writes() == []


async def test_former_secret_when_taking_it_over_fails_half_way_then_it_is_taken_over_the_next_time(
    cluster: MemoryCluster,
) -> None:
    put_former(cluster, ONE)
    cluster.refusing[NAME] = Retry("away")
    with pytest.raises(Retry):
        await another(cluster)
    cluster.refusing.clear()
    assert known(await another(cluster), ONE) == [ONE]


@pytest.mark.parametrize("content", ["?", base64.b64encode(b"x" * 31).decode()])
async def test_former_secret_when_it_is_damaged_then_it_is_not_taken_for_empty(
    cluster: MemoryCluster, content: str
) -> None:
    put_former(cluster, ONE)
    secret(cluster, NAME)["data"][FORMER_FIELD] = content
    with pytest.raises(Permanent, match=NAME):
        await another(cluster)
