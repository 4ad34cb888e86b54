"""A namespace that was deleted and made again by somebody else finds nothing of before."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.planner.domain.dormancy import WAITING_KEPT
from services.planner.domain.events import Event
from services.planner.rows import EngineRow
from tests.unit.planner.given import Checked, changed, credential, environment, in_namespace, observed, resync, secret
from tests.unit.planner.tenant import REMOTE, rows
from tests.unit.planner.world import World

FORMER, LATTER = ("former", 1000), ("latter", 60_000)
"""Uids of two namespaces of one name, and when they were created."""
KINDS = ("Application", "AppProject", "ClusterSecret", "RepositorySecret")


def everything(second: int, tag: str, epoch: int = 1) -> list[Event]:
    """One of each, whose names are always the same."""
    return [
        secret(second, epoch=epoch),
        environment(second + 1, uid=f"uid-prod-{tag}", secret_type="managed-gitops.redhat.com/managed-environment"),
        secret(second + 2, "login", "repository-credential", epoch=epoch),
        credential(second + 3, uid=f"uid-login-{tag}"),
        changed(second + 4, uid=f"uid-web-{tag}", content=REMOTE, epoch=epoch),
    ]


def wanted(world: World) -> dict[str, list[str]]:
    return {kind: [row.name for row in rows(world, kind) if row.desired == "present"] for kind in KINDS}


def works(world: World, second: int) -> None:
    for kind in ("ClusterSecret", "RepositorySecret"):
        for row in rows(world, kind):
            if row.desired == "present":
                result = Checked(row.digest, "Succeeded", "")
                world.take(observed(second, result, instance=row.engine_instance_id, kind=kind, name=row.name))


def shown(world: World) -> dict[str, str]:
    """Uid of the resource of each status, by name."""
    return {name: row.uid for (_, _, _, name), row in world.workspace.items()}


@pytest.fixture
def deployed(world: World) -> World:
    """A tenant that has one of everything, and all of it works."""
    world.take(*in_namespace(FORMER, *everything(1, "former")))
    works(world, 10)
    assert all(wanted(world).values())
    return world


def test_namespace_when_it_is_made_again_then_nothing_of_before_is_left(deployed: World) -> None:
    before = wanted(deployed)
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    after = wanted(deployed)
    assert after["Application"] == ["gitopsdepl-uid-other"]
    assert (after["ClusterSecret"], after["RepositorySecret"]) == ([], [])
    assert shown(deployed) == {}
    assert not [each.name for each in deployed.resources.values() if each.present]
    assert {row.desired for row in rows(deployed, "Application") if row.name in before["Application"]} == {"absent"}
    (project,) = (json.loads(row.manifest)["spec"] for row in rows(deployed, "AppProject"))
    assert not [url for url in project["sourceRepos"] if "private" in url]


def test_namespace_when_the_same_names_are_made_in_it_then_they_are_others_without_what_was_known(
    deployed: World,
) -> None:
    before = {kind: set(names) for kind, names in wanted(deployed).items() if kind != "AppProject"}
    deployed.take(*in_namespace(LATTER, *everything(70, "latter")))
    works(deployed, 80)
    after = wanted(deployed)
    assert all(after.values())
    assert not [kind for kind, names in before.items() if names & set(after[kind])]
    assert shown(deployed) == {"prod": "uid-prod-latter", "login": "uid-login-latter"}


def test_secret_when_it_is_handed_to_agents_then_they_are_told_which_namespace_it_is_sealed_for(
    deployed: World,
) -> None:
    def told(row: EngineRow) -> str:
        return str(json.loads(row.manifest)["recipe"]["secret"]["namespaceUID"])

    assert {told(row) for kind in ("ClusterSecret", "RepositorySecret") for row in rows(deployed, kind)} == {"former"}


def test_tenant_of_before_when_a_watcher_tells_its_namespace_then_it_is_that_and_keeps_everything(
    world: World,
) -> None:
    world.take(*everything(1, "former"))
    works(world, 10)
    before = (wanted(world), shown(world))
    world.take(*in_namespace(FORMER, *everything(1, "former", epoch=2)))
    assert (wanted(world), shown(world)) == before
    assert [tenant.namespace_uid for tenant in world.tenants.values()] == ["former"]
    world.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    assert wanted(world)["Application"] == ["gitopsdepl-uid-other"]


def test_message_when_it_is_late_and_of_the_namespace_of_before_then_it_changes_nothing(deployed: World) -> None:
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    before = deployed.rows()
    deployed.take(
        *in_namespace(FORMER, *everything(20, "former")), *in_namespace(FORMER, changed(30, "late", uid="uid-late"))
    )
    assert deployed.rows() == before


def test_message_when_it_tells_no_namespace_then_it_is_of_the_one_that_is_known(deployed: World) -> None:
    deployed.take(changed(20, "other", uid="uid-other"))
    assert len(wanted(deployed)["Application"]) == 2


def test_namespace_when_its_api_server_is_back_from_a_backup_then_the_older_one_counts(deployed: World) -> None:
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    later = LATTER[1] + 1
    deployed.take(*in_namespace(FORMER, *everything(20, "former", epoch=later)))
    assert wanted(deployed)["Application"] == ["gitopsdepl-uid-web-former"]
    assert [tenant.namespace_uid for tenant in deployed.tenants.values()] == ["former"]


def test_namespace_when_more_was_in_it_than_the_quotas_allow_then_that_is_forgotten_too(world: World) -> None:
    world.policy = replace(world.policy, limits=REGISTRY.limits({MANAGED_ENVIRONMENT.kind: 1}))
    crowd = (environment(number, f"e-{number:03d}") for number in range(1, WAITING_KEPT + 50))
    world.take(*in_namespace(FORMER, *crowd))
    world.memory.clear()
    world.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    assert (wanted(world)["ClusterSecret"], shown(world)) == ([], {})
    assert not [each for each in world.resources.values() if each.present]
    world.take(resync(80, 5, kind=MANAGED_ENVIRONMENT.kind))
    assert not world.resources
