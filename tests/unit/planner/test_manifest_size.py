"""No row is so long that it cannot be sent or stored: for the largest tenant there can be, and whatever comes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from services.common.messages import MAX_MANIFEST
from services.common.urls import repository_url
from services.common.urls.repository_url import MAX_REPOSITORY
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.shared.text import MAX_LABEL, MAX_NAMESPACES
from services.planner.domain.events import Event
from services.planner.engines import interface
from services.planner.engines.interface import Manifest
from tests.unit.planner.given import CREDENTIAL, REPOSITORY, changed, environment, resource, secret, spec
from tests.unit.planner.tenant import conditions, manifest, row, rows
from tests.unit.planner.world import World

LIMITS = REGISTRY.limits()
BATCH = 250
SEALED = "x" * 175_000
"""As long as a Secret of 128 KiB is when it is sealed."""
LOGIN = {"type": "managed-gitops.redhat.com/repository-credential", "sealed": SEALED, "keyId": "k"}
KUBECONFIG = LOGIN | {"type": "managed-gitops.redhat.com/managed-environment"}


def repository(number: int) -> str:
    """One of ssh is the longest when it is normalised."""
    return f"git@git.example.com:a:{number}/".ljust(MAX_REPOSITORY, "r")


def namespaces(environment_number: int, generation: int) -> list[str]:
    return [f"{generation}-{environment_number}-{n}-".ljust(MAX_LABEL, "n") for n in range(MAX_NAMESPACES)]


def largest(*, cluster_resources: bool) -> Iterator[Event]:
    """Each kind as often as it may be, as long as it may be; environments as long as there are namespaces left."""
    yield resource(1, "Secret", "login", LOGIN)
    yield resource(2, "Secret", "kubeconfig", KUBECONFIG)
    for number in range(LIMITS.of(MANAGED_ENVIRONMENT.kind)):
        listed = namespaces(number, 1) if number < LIMITS.destinations // MAX_NAMESPACES + 1 else []
        yield environment(3 + number, f"e-{number}", namespaces=listed, clusterResources=cluster_resources)
    for number in range(LIMITS.of(REPOSITORY_CREDENTIAL.kind)):
        yield resource(500 + number, CREDENTIAL, f"c-{number}", {"repository": repository(number), "secret": "login"})
    for number in range(LIMITS.of(GITOPS_DEPLOYMENT.kind)):
        source = {"repoURL": repository(1000 + number), "path": "p" * 1024, "targetRevision": "v" * 256}
        yield changed(1000 + number, f"d-{number}", uid=f"uid-{number}", content=spec(source=source))


@pytest.mark.parametrize("cluster_resources", [False, True], ids=["namespaces", "clusters"])
def test_rows_when_a_tenant_has_all_that_it_may_then_none_is_too_long(world: World, cluster_resources: bool) -> None:
    events = list(largest(cluster_resources=cluster_resources))
    for first in range(0, len(events), BATCH):
        assert world.take(*events[first : first + BATCH]).oversized == ()
    listed = [known for known in rows(world, "AppProject") if known.name.endswith("-cluster") == cluster_resources]
    (project,) = (json.loads(known.manifest)["spec"] for known in listed)
    assert len(project["sourceRepos"]) == LIMITS.of(GITOPS_DEPLOYMENT.kind) + LIMITS.of(REPOSITORY_CREDENTIAL.kind)
    assert len(project["destinations"]) >= LIMITS.destinations - MAX_NAMESPACES
    assert max(len(known.manifest.encode()) for known in world.engine.values()) < MAX_MANIFEST


def test_project_when_its_environments_replace_their_lists_unchecked_then_it_is_not_too_long(world: World) -> None:
    world.take(secret(1))
    count = LIMITS.destinations // MAX_NAMESPACES
    for generation in range(1, 6):
        for number in range(count + 2):
            listed = namespaces(number, generation)
            world.take(environment(10 * generation + number, f"e-{number}", generation=generation, namespaces=listed))
    world.take(changed(99))
    assert len(manifest(world, "AppProject")["spec"]["destinations"]) <= LIMITS.destinations + 1


# What can only come if limits are raised, or from before there were any, is not written either


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "MAX_MANIFEST", 2000)


@pytest.mark.usefixtures("strict")
def test_project_when_it_would_be_too_long_then_it_stays_and_others_are_written(world: World) -> None:
    world.take(changed(1))
    project = row(world, "AppProject")
    long = [
        changed(2 + n, f"w-{n}", uid=f"uid-w-{n}", content=spec(source={"repoURL": repository(n)})) for n in range(4)
    ]
    changes = world.take(*long, changed(9, namespace="team-b", uid="uid-b"))
    assert changes.oversized == (
        (project.engine_instance_id, "AppProject", project.namespace, project.name, project.lane),
    )
    assert project in rows(world, "AppProject")
    assert world.application("uid-b") is not None
    assert len(rows(world, "AppProject")) == 2


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    ("event", "sealed"),
    [
        (environment(2, "it", "sealed"), KUBECONFIG),
        (resource(2, CREDENTIAL, "it", {"repository": REPOSITORY, "secret": "sealed"}), LOGIN),
    ],
    ids=["environment", "credential"],
)
def test_secret_when_its_recipe_would_be_too_long_then_the_user_is_told(
    world: World, event: Event, sealed: dict[str, str]
) -> None:
    world.take(resource(1, "Secret", "sealed", sealed), event)
    assert [known for known in world.engine.values() if known.kind.endswith("Secret")] == []
    (kind,) = {known.kind for known in world.workspace.values()}
    assert any("make the Secret smaller" in state[2] for state in conditions(world, kind, "it").values())


def test_deployment_when_its_repository_was_accepted_before_it_was_too_long_then_it_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = spec(source={"repoURL": "https://git.example.com/".ljust(MAX_REPOSITORY + 100, "a")})
    with monkeypatch.context() as before:
        before.setattr(repository_url, "MAX_REPOSITORY", 2048)
        world.take(changed(1, content=long))
    application = world.application()
    assert application is not None
    world.take(changed(2, version=2, epoch=2, content=long))
    assert world.application() == application
    assert "longer than 512" in conditions(world, "GitOpsDeployment", "web")["ErrorOccurred"][2]


def test_manifest_when_it_is_as_long_as_it_may_be_then_it_is_not_oversized() -> None:
    assert not Manifest("Application", "web", 1, "x" * MAX_MANIFEST).is_oversized
    assert Manifest("Application", "web", 1, "x" * (MAX_MANIFEST - 1) + "é").is_oversized
