"""What nothing follows from is not loaded with its tenant, and is found when it matters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.planner.domain.dormancy import WAITING_KEPT
from services.planner.domain.state import TenantState
from tests.unit.planner.given import (
    ENVIRONMENT,
    SYNC_RUN,
    changed,
    environment,
    gone,
    resource,
    resource_gone,
    resync,
    spec,
    sync_run,
)
from tests.unit.planner.tenant import finish, operation, rows
from tests.unit.planner.world import World

WRONG = spec(source={"path": "/"})


def limit(world: World, **limits: int) -> None:
    world.policy = replace(world.policy, limits=REGISTRY.limits(limits))


def loaded(world: World) -> TenantState:
    """The only tenant, as a planner reads it that has not seen it before."""
    (tenant,) = world.tenants
    world.memory.clear()
    return world.state(tenant)


def test_runs_when_they_are_over_and_gone_then_none_is_loaded_and_none_runs_again(manual: World) -> None:
    for number in range(5):
        manual.take(sync_run(10 * number + 2, f"run-{number}"))
        finish(manual, 10 * number + 3, f"run-{number}")
        manual.take(resource_gone(10 * number + 4, SYNC_RUN, f"run-{number}"))
    assert (len(manual.sync_runs), len(loaded(manual).sync_runs)) == (5, 0)
    manual.take(sync_run(2, "run-0", epoch=9))
    assert (rows(manual, "SyncOperation"), operation(manual, "run-0")["phase"]) == ([], "Succeeded")


def test_resources_when_they_are_beyond_the_quota_then_the_oldest_are_loaded_and_get_the_room_that_others_leave(
    world: World,
) -> None:
    limit(world, **{MANAGED_ENVIRONMENT.kind: 1})
    world.take(*(environment(number, f"e-{number:03d}") for number in range(WAITING_KEPT + 50)))
    assert len(loaded(world).plain_resources) == WAITING_KEPT + 1
    for number in range(WAITING_KEPT + 20):
        world.memory.clear()
        world.take(resource_gone(1000 + number, ENVIRONMENT, f"e-{number:03d}"))
        (admitted,) = [row.name for row in world.resources.values() if not row.over_quota]
        assert admitted == f"e-{number + 1:03d}"


def test_environment_when_more_secrets_than_are_kept_wait_before_it_then_it_gets_the_room_that_another_leaves(
    world: World,
) -> None:
    limit(world, **{SECRET.kind: 0, MANAGED_ENVIRONMENT.kind: 1})
    sealed = {"type": "managed-gitops.redhat.com/managed-environment", "sealed": "x", "keyId": "k"}
    world.take(environment(1, "first"))
    world.take(*(resource(2 + number, "Secret", f"s-{number:03d}", sealed) for number in range(WAITING_KEPT + 49)))
    world.take(environment(900, "second"))
    world.memory.clear()
    world.take(resource_gone(901, ENVIRONMENT, "first"))
    (left,) = [row for row in world.resources.values() if row.kind == ENVIRONMENT]
    assert (left.name, left.over_quota) == ("second", False)


def test_secret_when_it_is_beyond_the_quota_and_named_then_it_is_loaded(world: World) -> None:
    limit(world, **{SECRET.kind: 0, MANAGED_ENVIRONMENT.kind: 10**6})
    sealed = {"type": "managed-gitops.redhat.com/managed-environment", "sealed": "x", "keyId": "k"}
    world.take(*(resource(number, "Secret", f"s-{number:03d}", sealed) for number in range(WAITING_KEPT + 50)))
    assert len(loaded(world).plain_resources) == WAITING_KEPT
    for generation in (1, 2):
        world.memory.clear()
        world.take(environment(900 + generation, "e", f"s-{WAITING_KEPT + 49:03d}", generation=generation))
        (refused,) = [row for row in world.resources.values() if row.kind == ENVIRONMENT]
        assert "QuotaExceeded" in refused.refusal


def test_deployments_when_they_are_wrong_then_no_more_are_loaded_than_may_be_had(world: World) -> None:
    limit(world, **{GITOPS_DEPLOYMENT.kind: 5})
    world.take(*(changed(n, f"w-{n:03d}", uid=f"uid-{n}", content=WRONG) for n in range(50)))
    assert (len(world.deployments), len(loaded(world).deployments)) == (50, 5)
    assert len(world.workspace) == 50


@pytest.mark.parametrize("number", [0, 49])
def test_deployment_when_it_is_dormant_then_it_is_found_by_whatever_concerns_it(world: World, number: int) -> None:
    limit(world, **{GITOPS_DEPLOYMENT.kind: 5})
    world.take(*(changed(n, f"w-{n:03d}", uid=f"uid-{n}", content=WRONG) for n in range(50)))
    name, uid = f"w-{number:03d}", f"uid-{number}"
    world.memory.clear()
    world.take(changed(60, name, uid=uid, generation=2))
    assert world.application(uid) is not None
    world.memory.clear()
    world.take(gone(61, f"w-{number + 1 if number == 0 else 1:03d}", uid=f"uid-{number + 1 if number == 0 else 1}"))
    assert len(world.deployments) == 49


def test_deployment_when_it_is_dormant_then_a_namesake_replaces_it_and_a_list_that_lacks_it_ends_it(
    world: World,
) -> None:
    limit(world, **{GITOPS_DEPLOYMENT.kind: 2})
    world.take(*(changed(n, f"w-{n}", uid=f"uid-{n}", content=WRONG) for n in range(9)))
    world.memory.clear()
    world.take(changed(20, "w-8", uid="uid-again"))
    assert [row.uid for row in world.deployments.values() if row.name == "w-8"] == ["uid-again"]
    world.take(resync(30, epoch=9))
    assert {row.uid for row in world.deployments.values()} == {"uid-again"}
