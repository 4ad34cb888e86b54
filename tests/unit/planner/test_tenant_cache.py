"""Tenants in memory: bounded by bytes, and dropped when somebody else may have written."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from services.planner.database import tenant_cache
from services.planner.database.tenant_cache import OVERHEAD, TenantCache
from services.planner.domain.plan import plan
from services.planner.domain.state import TenantState
from services.planner.rows.tenants import Tenant
from tests.unit.planner.given import NAMESPACE, WORKSPACE, changed, gone, spec
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
        cache.keep_tenants(each.tenant.full_name, [each])
    return cache.size


def kept(cache: TenantCache, state: TenantState) -> list[TenantState]:
    return list(cache.find_tenants(state.tenant.full_name) or ())


def test_tenant_when_kept_then_it_is_there_until_it_is_gone() -> None:
    cache, first = TenantCache(10**9), state(1)
    cache.keep_tenants(first.tenant.full_name, [first])
    assert kept(cache, first) == [first]
    cache.keep_tenant(first.tenant, None)
    assert (cache.find_tenants(first.tenant.full_name), cache.size, len(cache)) == (None, 0, 0)


def test_tenants_when_they_had_one_name_then_all_of_them_are_kept_or_none() -> None:
    cache, first = TenantCache(10**9), state(1)
    second = first._replace(tenant=replace(first.tenant, id=UUID(int=2)))
    cache.keep_tenant(second.tenant, second)
    assert cache.find_tenants(first.tenant.full_name) is None
    cache.keep_tenants(first.tenant.full_name, [first])
    cache.keep_tenant(second.tenant, second)
    assert kept(cache, first) == [first, second]
    cache.keep_tenant(first.tenant, None)
    assert kept(cache, first) == [second]
    cache.forget_name(first.tenant.full_name)
    assert (len(cache), cache.size) == (0, 0)


def test_tenants_when_they_are_too_large_together_then_the_least_recently_used_goes() -> None:
    first, second, third = (state(number) for number in (1, 2, 3))
    cache = TenantCache(size(first, second, third) - 1)
    cache.keep_tenants(first.tenant.full_name, [first])
    cache.keep_tenants(second.tenant.full_name, [second])
    assert kept(cache, first) == [first]
    cache.keep_tenants(third.tenant.full_name, [third])
    assert [bool(kept(cache, each)) for each in (first, second, third)] == [True, False, True]


def test_tenant_when_it_alone_is_too_large_then_it_is_not_kept() -> None:
    large = state(1, deployments=20)
    cache = TenantCache(size(large) - 1)
    cache.keep_tenants(large.tenant.full_name, [large])
    assert (len(cache), cache.size) == (0, 0)


@pytest.mark.parametrize("content", [spec(), spec(source={"path": "a" * 500})])
def test_size_when_a_tenant_changes_then_it_is_that_of_the_tenant_as_it_is(content: dict[str, object]) -> None:
    world, cache = World(), TenantCache(10**9)
    cache.keep_tenants((WORKSPACE, NAMESPACE), [])
    for events in ([changed(1)], [changed(2, "api", uid="uid-2", content=content)], [gone(3, "api", uid="uid-2")]):
        world.take(*events)
        (now,) = world.memory.values()
        cache.keep_tenant(now.tenant, now)
        assert cache.size == size(now) > OVERHEAD


def test_size_when_one_row_of_many_changes_then_only_what_differs_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    world, cache, known = World(), TenantCache(10**9), state(1, deployments=50)
    cache.keep_tenants(known.tenant.full_name, [known])
    measured: list[object] = []
    monkeypatch.setattr(tenant_cache, "_size", lambda row: measured.append(row) or 0)  # type: ignore[func-returns-value]
    event = changed(2, "w-7", uid="uid-1-7", generation=2, content=spec(source={"path": "other"}))
    cache.keep_tenant(known.tenant, plan(known, [event], world.view, world.policy, NOW).state)
    assert 0 < len(measured) < 20


def test_size_when_other_instances_hold_objects_of_a_tenant_then_they_count_until_they_are_gone() -> None:
    cache, alone = TenantCache(10**9), state(1)
    cache.keep_tenants(alone.tenant.full_name, [alone])
    (objects,) = alone.objects_by_instance.values()
    both = alone._replace(objects_by_instance={**alone.objects_by_instance, "another": objects})
    for known in (both, alone):
        cache.keep_tenant(known.tenant, known)
        assert cache.size == size(known)
    assert size(both) > size(alone)


def test_size_when_a_character_is_wide_then_every_character_of_its_text_is() -> None:
    plain = state(1, deployments=10)
    rows = {known: replace(row, spec="a" * 1000 + "\N{PARTY POPPER}") for known, row in plain.deployments.items()}
    narrow = {known: replace(row, spec="a" * 1001) for known, row in plain.deployments.items()}
    larger = size(plain._replace(deployments=rows)) - size(plain._replace(deployments=narrow))
    assert larger > 10 * 3 * 1000


def test_tenants_when_it_is_not_known_what_the_database_holds_then_all_are_forgotten() -> None:
    cache = TenantCache(10**9)
    for each in (state(1), state(2)):
        cache.keep_tenants(each.tenant.full_name, [each])
    cache.forget_tenants()
    assert (len(cache), cache.size) == (0, 0)
