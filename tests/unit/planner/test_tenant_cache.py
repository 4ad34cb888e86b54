"""Tenants in memory: bounded by bytes, and dropped when somebody else may have written."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from services.planner.database import tenant_cache
from services.planner.database.tenant_cache import OVERHEAD, TenantCache
from services.planner.domain.plan import plan
from services.planner.domain.state import TenantState
from services.planner.rows import Tenant
from tests.unit.planner.given import changed, gone, spec
from tests.unit.planner.world import NOW, World


def state(number: int, deployments: int = 1) -> TenantState:
    """A tenant with so many deployments."""
    world = World()
    world.take(*(changed(1, f"w-{each}", uid=f"uid-{number}-{each}") for each in range(deployments)))
    (made,) = world.memory.values()
    return made._replace(tenant=Tenant(UUID(int=number), "local", f"t-{number}", 0, "engine-1"))


def size(*states: TenantState) -> int:
    cache = TenantCache(10**9)
    for each in states:
        cache.keep_tenant(each.tenant.id, each)
    return cache.size


def test_tenant_when_kept_then_it_is_there_until_it_is_gone() -> None:
    cache, first = TenantCache(10**9), state(1)
    cache.keep_tenant(first.tenant.id, first)
    assert cache.find_tenant(first.tenant.id) is first
    cache.keep_tenant(first.tenant.id, None)
    assert (cache.find_tenant(first.tenant.id), cache.size, len(cache)) == (None, 0, 0)


def test_tenants_when_they_are_too_large_together_then_the_least_recently_used_goes() -> None:
    first, second, third = (state(number) for number in (1, 2, 3))
    cache = TenantCache(size(first, second, third) - 1)
    cache.keep_tenant(first.tenant.id, first)
    cache.keep_tenant(second.tenant.id, second)
    assert cache.find_tenant(first.tenant.id) is first
    cache.keep_tenant(third.tenant.id, third)
    assert [cache.find_tenant(each.tenant.id) is not None for each in (first, second, third)] == [True, False, True]


def test_tenant_when_it_alone_is_too_large_then_it_is_not_kept() -> None:
    large = state(1, deployments=20)
    cache = TenantCache(size(large) - 1)
    cache.keep_tenant(large.tenant.id, large)
    assert (len(cache), cache.size) == (0, 0)


@pytest.mark.parametrize("content", [spec(), spec(source={"path": "a" * 500})])
def test_size_when_a_tenant_changes_then_it_is_that_of_the_tenant_as_it_is(content: dict[str, object]) -> None:
    world, cache = World(), TenantCache(10**9)
    for events in ([changed(1)], [changed(2, "api", uid="uid-2", content=content)], [gone(3, "api", uid="uid-2")]):
        world.take(*events)
        ((tenant, kept),) = world.memory.items()
        cache.keep_tenant(tenant, kept)
        assert cache.size == size(kept) > OVERHEAD


def test_size_when_one_row_of_many_changes_then_only_what_differs_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    world, cache, known = World(), TenantCache(10**9), state(1, deployments=50)
    cache.keep_tenant(known.tenant.id, known)
    measured: list[object] = []
    monkeypatch.setattr(tenant_cache, "_size", lambda row: measured.append(row) or 0)  # type: ignore[func-returns-value]
    event = changed(2, "w-7", uid="uid-1-7", generation=2, content=spec(source={"path": "other"}))
    cache.keep_tenant(known.tenant.id, plan(known, [event], world.view, world.policy, NOW).state)
    assert 0 < len(measured) < 20


def test_size_when_a_character_is_wide_then_every_character_of_its_text_is() -> None:
    plain = state(1, deployments=10)
    rows = {known: replace(row, spec="a" * 1000 + "\N{PARTY POPPER}") for known, row in plain.deployments.items()}
    narrow = {known: replace(row, spec="a" * 1001) for known, row in plain.deployments.items()}
    larger = size(plain._replace(deployments=rows)) - size(plain._replace(deployments=narrow))
    assert larger > 10 * 3 * 1000


def test_tenants_when_it_is_not_known_what_the_database_holds_then_all_are_forgotten() -> None:
    cache = TenantCache(10**9)
    for each in (state(1), state(2)):
        cache.keep_tenant(each.tenant.id, each)
    cache.forget_tenants()
    assert (len(cache), cache.size) == (0, 0)
