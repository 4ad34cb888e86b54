"""After a planner was mended: what follows from resources that have not changed is compiled anew when operators ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.common.messages import Command, LookAgain
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.domain.events import Event
from services.planner.engines.argocd.implementation import ArgoCD
from services.planner.engines.interface import Manifest
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    NAMESPACE,
    WORKSPACE,
    at,
    changed,
    credential,
    environment,
    gone,
    secret,
    traceparent,
)
from tests.unit.planner.world import World


class Mended(ArgoCD):
    """Argo CD, whose objects are others once it is mended; and of which kinds it was asked for some."""

    def __init__(self) -> None:
        self.mark, self.compiled = "", set[str]()

    def deployment(self, *args: Any) -> Manifest:
        return self._marked(super().deployment(*args))

    def projects(self, *args: Any) -> tuple[Manifest, ...]:
        return tuple(map(self._marked, super().projects(*args)))

    def objects(self, *args: Any, **options: Any) -> tuple[Manifest, ...]:
        return tuple(map(self._marked, super().objects(*args, **options)))

    def _marked(self, made: Manifest) -> Manifest:
        self.compiled.add(made.kind)
        return replace(made, text=made.text + self.mark)


def look_again(kind: str = "", namespace: str = NAMESPACE) -> Event:
    return Event(Command(WORKSPACE, WORKSPACE, namespace, at(90), LookAgain(kind)), 0, traceparent(90))


@pytest.fixture
def engine() -> Mended:
    return Mended()


@pytest.fixture
def world(engine: Mended) -> World:
    """A tenant with one of everything, planned before the engine was mended."""
    world = World(engines={"argocd": engine})
    world.take(secret(1), environment(2), secret(3, "login", "repository-credential"), credential(4))
    world.take(changed(5), changed(6, "gone", uid="uid-2"), gone(7, "gone", uid="uid-2"))
    world.take(changed(8, namespace="team-b", uid="uid-3"))
    engine.mark = " "
    engine.compiled.clear()
    return world


def test_tenant_when_it_is_looked_at_again_then_all_that_is_desired_of_it_is_written_as_compiled_now(
    world: World,
) -> None:
    written = world.take(look_again())
    assert {row.kind for row in written.engine} == {"Application", "AppProject", "ClusterSecret", "RepositorySecret"}
    assert {row.tenant_namespace for row in written.engine} == {NAMESPACE}
    assert all(row.manifest.endswith(" ") for row in written.engine)
    assert "gitopsdepl-uid-2" not in {row.name for row in written.engine}


@pytest.mark.parametrize(
    ("kind", "compiled"),
    [
        (GITOPS_DEPLOYMENT.kind, {"Application", "AppProject"}),
        (ENVIRONMENT, {"ClusterSecret", "AppProject"}),
        (CREDENTIAL, {"RepositorySecret", "AppProject"}),
    ],
)
def test_kind_when_it_is_looked_at_again_then_resources_of_others_are_not_compiled(
    world: World, engine: Mended, kind: str, compiled: set[str]
) -> None:
    world.take(look_again(kind))
    assert engine.compiled == compiled


def test_tenant_when_the_rules_are_as_before_then_nothing_is_written(world: World, engine: Mended) -> None:
    engine.mark = ""
    written = world.take(look_again())
    assert engine.compiled
    assert (written.engine, written.workspace, written.audit_records, written.deployments) == ((), (), (), ())


def test_tenant_when_nobody_knows_it_then_none_is_made(world: World) -> None:
    assert world.take(look_again(namespace="nobody")).tenants == ()
