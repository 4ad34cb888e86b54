"""Thousands of each kind from one tenant: what is stored and what follows from it stays within the allowance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.sync_run.model import SYNC_RUN
from services.planner.domain.events import Event
from tests.unit.planner.given import changed, credential, environment, resource, spec, sync_run
from tests.unit.planner.world import World

CROWD = 4_000
"""Twice the largest allowance, and more."""
BATCH = 500
LIMITS = REGISTRY.limits()
MEBIBYTE = 1024 * 1024


def crowd(world: World, make: Callable[[int], Event]) -> None:
    """All of them, as the loop takes them: in batches."""
    for first in range(0, CROWD, BATCH):
        world.take(*(make(number) for number in range(first, first + BATCH)))


def stored(world: World) -> int:
    """Bytes of everything that users wrote."""
    deployments = sum(len(known.spec or "") + len(known.pending_spec or "") for known in world.deployments.values())
    return deployments + sum(len(known.spec) for known in world.resources.values())


def test_deployments_when_they_are_a_crowd_then_as_many_have_an_application_as_may(world: World) -> None:
    crowd(world, lambda number: changed(number, f"w-{number:05d}", uid=f"uid-{number}"))
    applications = [row for row in world.engine.values() if row.kind == "Application"]
    pending = [known for known in world.deployments.values() if known.pending_spec is not None]
    assert (len(applications), len(pending)) == (LIMITS.of(GITOPS_DEPLOYMENT.kind), LIMITS.of(GITOPS_DEPLOYMENT.kind))
    assert stored(world) < MEBIBYTE


def test_deployments_when_a_crowd_waits_for_an_environment_then_as_many_pending_are_kept_as_may(world: World) -> None:
    remote = spec(destination={"environment": "none", "namespace": "web"})
    crowd(world, lambda number: changed(number, f"w-{number:05d}", uid=f"uid-{number}", content=remote))
    assert sum(known.pending_spec is not None for known in world.deployments.values()) == LIMITS.of(
        GITOPS_DEPLOYMENT.kind
    )
    assert [row for row in world.engine.values() if row.kind == "Application"] == []


def test_secrets_when_they_are_a_crowd_then_no_more_is_stored_than_the_allowance_and_a_little(world: World) -> None:
    sealed = {"type": "t", "sealed": "x" * 20_000, "keyId": "k"}
    crowd(world, lambda number: resource(number, "Secret", f"s-{number:05d}", sealed))
    assert sum(not known.over_quota for known in world.resources.values()) == LIMITS.of(SECRET.kind)
    assert stored(world) < LIMITS.of(SECRET.kind) * 20_100 + CROWD * 3


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda number: environment(number, f"e-{number:05d}"), LIMITS.of(MANAGED_ENVIRONMENT.kind)),
        (lambda number: credential(number, f"c-{number:05d}"), LIMITS.of(REPOSITORY_CREDENTIAL.kind)),
        (lambda number: sync_run(number, f"r-{number:05d}"), LIMITS.of(SYNC_RUN.kind)),
    ],
    ids=["environments", "credentials", "sync runs"],
)
def test_resources_when_they_are_a_crowd_then_the_first_are_within_the_allowance(
    world: World, make: Callable[[int], Event], limit: int
) -> None:
    crowd(world, make)
    within = sorted(known.created_at for known in world.resources.values() if not known.over_quota)
    assert within == [number * 1000 for number in range(limit)]
