"""A SnapshotEnvironmentBinding, planned: its deployments and what it shows follow what others write and do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from services.kinds.environment.model import ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.shared.projection import MAX_STATUS_BYTES
from services.kinds.snapshot_environment_binding.kind import KIND
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.appstudio import bindings
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.domain.steps.child_objects import REAPPLY_AFTER
from services.planner.domain.steps.quotas import KEPT_BEYOND_QUOTA
from tests.unit.planner.given import changed, observed, resource, resource_gone, secret, status
from tests.unit.planner.workspace import DEPLOYMENT, Workspace
from tests.unit.planner.world import World

SOON = round(REAPPLY_AFTER.total_seconds())
PREFIX = "appstudio.openshift.io"
KEYS = {name: (DEPLOYMENT, f"web-shop-staging-{name}") for name in ("cart", "basket")}


def environment(second: int, name: str = "staging", **changes: Any) -> Event:
    content = {"displayName": name, "deploymentStrategy": "Manual"} | changes
    return resource(second, ENVIRONMENT.kind, name, content, generation=second)


ON_CLUSTER = {
    "kubernetesCredentials": {
        "targetNamespace": "shop",
        "apiURL": "https://api.example.com",
        "clusterCredentialsSecret": "kubeconfig",
        "allowInsecureSkipTLSVerify": False,
    }
}


def component(name: str, commit: str = "c1", **repository: Any) -> dict[str, Any]:
    content = {"url": "https://git.example.com/gitops", "branch": "main", "path": f"components/{name}"}
    return {"name": name, "gitopsRepository": content | {"commitID": commit} | repository}


def binding(
    second: int,
    name: str = "web",
    components: Sequence[str] = ("cart",),
    *,
    told: Sequence[dict[str, Any]] | None = None,
    labels: dict[str, str] | None = None,
    environment: str = "staging",
    status: dict[str, Any] | None = None,
    **facts: Any,
) -> Event:
    """``told``: what the build service says of components; if left out, of all of them something."""
    spec = {"application": "shop", "environment": environment, "snapshot": "one"}
    reported = {"components": [component(each) for each in components] if told is None else [*told]}
    return resource(
        second,
        BINDING.kind,
        name,
        spec | {"components": [{"name": each} for each in components]},
        generation=second,
        metadata={"labels": labels or {}},
        status=reported | (status or {}),
        **facts,
    )


def shown(world: World, name: str = "web") -> dict[str, Any]:
    (found,) = [each for each in world.workspace.values() if (each.kind, each.name) == (BINDING.kind, name)]
    content: dict[str, Any] = json.loads(found.status)
    return content


def condition(world: World, type_: str = "Reconciled", name: str = "web") -> tuple[str, str, str]:
    member = "componentDeploymentConditions" if type_ == "AllComponentsDeployed" else "bindingConditions"
    (found,) = [each for each in shown(world, name)[member] if each["type"] == type_]
    return (found["status"], found["reason"], found["message"])


def wanted(workspace: Workspace) -> set[str]:
    return {name for (_, name), row in workspace.rows().items() if row.desired == "present"}


@pytest.fixture
def ours() -> Workspace:
    """A namespace with a binding of two components, whose deployments are there."""
    workspace = Workspace()
    workspace.take(environment(1), binding(2, components=("cart", "basket"), labels={f"{PREFIX}/owner": "team"}))
    workspace.owners["uid-web"] = binding(2)
    workspace.second = 2
    workspace.settle()
    workspace.second += SOON
    return workspace


def again(workspace: Workspace, **changes: Any) -> None:
    """Write the binding anew."""
    workspace.second += 1
    given = {"components": ("cart", "basket"), "labels": {f"{PREFIX}/owner": "team"}} | changes
    workspace.take(binding(workspace.second, **given))


def test_binding_when_components_are_told_then_each_has_a_deployment_that_it_controls(ours: Workspace) -> None:
    row = ours.rows()[KEYS["cart"]]
    owner = (row.owner_api_version, row.owner_kind, row.owner_name, row.owner_uid)
    assert owner == (BINDING.api_version, BINDING.kind, "web", "uid-web")
    manifest = json.loads(row.manifest)
    assert manifest["spec"] == {
        "source": {"repoURL": "https://git.example.com/gitops", "path": "components/cart", "targetRevision": "main"},
        "destination": {"environment": "", "namespace": ""},
        "syncPolicy": {"syncOptions": []},
        "type": "automated",
    }
    assert manifest["labels"] == {
        f"{PREFIX}/application": "shop",
        f"{PREFIX}/component": "cart",
        f"{PREFIX}/environment": "staging",
        f"{PREFIX}/owner": "team",
    }
    assert ours.written == 2, "what is there is as it was wanted"
    assert {kind for kind, _ in ours.rows()} <= {child.value for child in KIND.children}, "what a watcher may make"


DRIFT: dict[str, dict[str, Any]] = {
    "another place": {"destination": {"environment": "mine", "namespace": "elsewhere"}},
    "another branch": {"source": {"repoURL": "https://git.example.com/gitops", "path": "x", "targetRevision": "other"}},
    "an option": {"syncPolicy": {"syncOptions": ["CreateNamespace=true"]}},
    "by hand": {"type": "manual"},
}


@pytest.mark.parametrize("change", DRIFT.values(), ids=DRIFT)
def test_deployment_when_somebody_edits_it_then_that_is_undone(ours: Workspace, change: dict[str, Any]) -> None:
    before = ours.live[KEYS["cart"]].spec
    ours.edit(KEYS["cart"], before | change)
    ours.settle()
    assert ours.live[KEYS["cart"]].spec == before
    assert ours.rows()[KEYS["cart"]].revision == 2


def test_deployment_when_somebody_changes_a_label_of_ours_then_that_is_undone_and_others_stay(ours: Workspace) -> None:
    ours.relabel(KEYS["cart"], {f"{PREFIX}/component": "basket", f"{PREFIX}/theirs": "x"})
    ours.settle()
    assert ours.live[KEYS["cart"]].labels[f"{PREFIX}/component"] == "cart"
    assert ours.live[KEYS["cart"]].labels[f"{PREFIX}/theirs"] == "x"


def test_binding_when_a_label_of_it_changes_then_its_deployments_follow(ours: Workspace) -> None:
    again(ours, labels={f"{PREFIX}/owner": "others", "example.com/mine": "y"})
    ours.settle()
    labels = [ours.live[key].labels for key in KEYS.values()]
    assert [each[f"{PREFIX}/owner"] for each in labels] == ["others", "others"]
    assert not any("example.com/mine" in each for each in labels)


def test_deployment_when_somebody_deletes_it_then_it_is_made_again(ours: Workspace) -> None:
    ours.remove(KEYS["cart"])
    ours.settle()
    assert KEYS["cart"] in ours.live


@pytest.mark.parametrize("told", [("cart",), ("cart", "basket")], ids=["the build service knows", "not yet"])
def test_component_when_it_is_removed_then_its_deployment_goes_and_no_other(
    ours: Workspace, told: tuple[str, ...]
) -> None:
    again(ours, components=("cart",), told=[component(each) for each in told])
    ours.settle()
    assert [*ours.live] == [KEYS["cart"]]
    assert [each["componentName"] for each in shown(ours.world)["gitopsDeployments"]] == ["cart"]


def test_binding_when_it_is_gone_then_so_are_its_deployments(ours: Workspace) -> None:
    ours.take(resource_gone(ours.second, BINDING.kind, "web"))
    ours.owners.clear()
    ours.collect_garbage()
    ours.settle()
    assert (ours.rows(), ours.live) == ({}, {})
    assert [each for each in ours.world.workspace.values() if each.kind == BINDING.kind] == []


def says(world: World, second: int, name: str, uid: str, **parts: Any) -> None:
    instance = next(iter(world.engine.values())).engine_instance_id
    world.take(observed(second, status(second, **parts), instance=instance, name=f"gitopsdepl-{uid}"))


def test_status_when_an_agent_tells_of_a_deployment_then_the_same_transaction_shows_it(ours: Workspace) -> None:
    assert condition(ours.world, "AllComponentsDeployed") == ("False", "CommitsUnsynced", "0 of 2 components deployed")
    uid = ours.live[KEYS["cart"]].uid
    parts = {"sync": {"status": "Synced", "revision": "c1"}, "health": {"status": "Healthy"}}
    says(ours.world, ours.second + 1, "cart", uid, **parts)
    assert shown(ours.world)["gitopsDeployments"] == [
        {"componentName": "basket", "gitopsDeployment": KEYS["basket"][1]},
        {
            "componentName": "cart",
            "gitopsDeployment": KEYS["cart"][1],
            "syncStatus": "Synced",
            "health": "Healthy",
            "commitID": "c1",
        },
    ]
    assert condition(ours.world, "AllComponentsDeployed") == ("False", "CommitsUnsynced", "1 of 2 components deployed")
    says(ours.world, ours.second + 2, "basket", ours.live[KEYS["basket"]].uid, **parts)
    assert condition(ours.world, "AllComponentsDeployed") == ("True", "CommitsSynced", "2 of 2 components deployed")


def test_status_when_it_is_compiled_from_memory_or_from_the_database_then_it_is_the_same(ours: Workspace) -> None:
    uid = ours.live[KEYS["cart"]].uid
    says(ours.world, ours.second + 1, "cart", uid, sync={"status": "Synced", "revision": "c1"})
    before = shown(ours.world)
    ours.world.memory.clear()
    says(ours.world, ours.second + 2, "basket", ours.live[KEYS["basket"]].uid, sync={"status": "OutOfSync"})
    now = shown(ours.world)["gitopsDeployments"]
    assert now[1] == before["gitopsDeployments"][1]
    assert now[0]["syncStatus"] == "OutOfSync"


def test_binding_when_nothing_is_told_of_components_then_it_waits_and_what_it_had_goes(ours: Workspace) -> None:
    again(ours, told=[])
    assert condition(ours.world)[:2] == ("False", "WaitingForComponentStatus")
    assert wanted(ours) == set()
    again(ours)
    assert condition(ours.world) == ("True", "Reconciled", "")
    assert wanted(ours) == {name for _, name in KEYS.values()}


def test_binding_when_its_repository_is_not_ready_then_what_it_has_stays_and_is_shown(ours: Workspace) -> None:
    again(ours, told=[], status={"gitopsRepoConditions": [{"type": "GitOpsRepository", "status": "False"}]})
    assert condition(ours.world)[:2] == ("False", "GitOpsRepoNotReady")
    assert wanted(ours) == {name for _, name in KEYS.values()}
    assert [each["componentName"] for each in shown(ours.world)["gitopsDeployments"]] == ["basket", "cart"]


def test_binding_when_a_component_is_told_twice_then_what_it_has_stays(ours: Workspace) -> None:
    again(ours, told=[component("cart"), component("cart")])
    assert condition(ours.world)[:2] == ("False", "DuplicateComponents")
    assert len(wanted(ours)) == 2


def test_binding_when_what_the_build_service_says_is_of_another_shape_then_that_is_told(ours: Workspace) -> None:
    again(ours, told=[{"name": "cart"}])
    assert condition(ours.world)[1] == "InvalidComponentStatus"
    assert "status.components.0.gitopsRepository" in condition(ours.world)[2]
    assert len(wanted(ours)) == 2


def test_binding_when_what_the_build_service_says_is_too_long_then_that_is_told(ours: Workspace) -> None:
    projected = KIND.projection.project({"metadata": {}, "status": {"components": ["c" * MAX_STATUS_BYTES]}})
    event = binding(ours.second + 1, components=("cart", "basket"))
    message: Any = event.message
    told = replace(message.event, status=projected.status, status_omitted=projected.status_omitted)
    ours.take(replace(event, message=replace(message, event=told)))
    assert condition(ours.world)[1] == "InvalidComponentStatus"
    assert "the status is too long: " in condition(ours.world)[2]
    assert len(wanted(ours)) == 2


def test_bindings_when_two_bind_the_same_then_the_oldest_is_in_force_until_it_is_gone(ours: Workspace) -> None:
    ours.take(binding(ours.second, "newer"))
    assert condition(ours.world, name="newer")[:2] == ("False", "DuplicateBinding")
    assert "'web' is older" in condition(ours.world, name="newer")[2]
    assert wanted(ours) == {name for _, name in KEYS.values()}
    ours.take(resource_gone(ours.second + 1, BINDING.kind, "web"))
    assert condition(ours.world, name="newer") == ("True", "Reconciled", "")
    assert wanted(ours) == {"newer-shop-staging-cart"}


@pytest.mark.parametrize("more", [10, KEPT_BEYOND_QUOTA], ids=["and is at hand", "and is not at hand"])
def test_bindings_when_the_oldest_has_outgrown_the_quota_then_it_is_in_force_until_it_is_gone(
    ours: Workspace, more: int
) -> None:
    ours.take(binding(ours.second, "newer"))
    ours.world.policy = Policy(limits=REGISTRY.limits({}, bytes_=1))
    again(ours, components=("cart", "basket", "c" * more), created_at=2000)
    assert condition(ours.world)[1] == "QuotaExceeded"
    ours.world.memory.clear()
    ours.take(binding(ours.second, "newer"))
    assert condition(ours.world, name="newer")[:2] == ("False", "DuplicateBinding")
    assert wanted(ours) == {name for _, name in KEYS.values()}
    ours.take(resource_gone(ours.second + 1, BINDING.kind, "web"))
    assert condition(ours.world, name="newer") == ("True", "Reconciled", "")
    assert wanted(ours) == {"newer-shop-staging-cart"}


def test_bindings_when_there_is_no_room_for_the_oldest_and_it_has_deployed_nothing_then_the_next_is_in_force() -> None:
    world = World(policy=Policy(limits=REGISTRY.limits({BINDING.kind: 1})))
    world.take(environment(1), binding(3, "newer"))
    world.take(binding(2, "older"))
    assert condition(world, name="older")[1] == "QuotaExceeded"
    assert condition(world, name="newer") == ("True", "Reconciled", "")


def test_binding_when_its_environment_comes_changes_and_goes_then_it_follows() -> None:
    workspace = Workspace()
    workspace.take(binding(1))
    assert condition(workspace.world)[1] == "EnvironmentNotFound"
    workspace.take(environment(2))
    assert condition(workspace.world)[1] == "Reconciled"
    workspace.take(secret(3), environment(4, unstableConfigurationFields=ON_CLUSTER))
    manifest = json.loads(workspace.rows()[KEYS["cart"]].manifest)
    assert manifest["spec"]["destination"] == {"environment": "managed-environment-staging", "namespace": "shop"}
    workspace.take(resource_gone(5, ENVIRONMENT.kind, "staging"))
    assert condition(workspace.world)[1] == "EnvironmentNotFound"
    assert KEYS["cart"][1] in wanted(workspace), "what was deployed stays"


def test_binding_when_its_environment_cannot_be_read_then_that_is_told() -> None:
    world = World()
    world.take(environment(1, deploymentStrategy="Sometimes"), binding(2))
    assert condition(world)[2] == "Environment 'staging' is not usable: read its conditions"


def test_bindings_when_they_would_make_objects_of_one_name_then_the_later_one_says_so() -> None:
    world = World()
    world.take(environment(1, "shop-qa"), environment(2, "qa"))
    world.take(binding(3, "web", environment="shop-qa"), binding(4, "web-shop", environment="qa"))
    assert [(each.name, each.owner_name) for each in world.child_objects.values()] == [("web-shop-shop-qa-cart", "web")]
    assert condition(world, name="web") == ("True", "Reconciled", "")
    assert condition(world, name="web-shop")[:2] == ("False", "NameTaken")
    assert "GitOpsDeployment 'web-shop-shop-qa-cart'" in condition(world, name="web-shop")[2]


def test_binding_when_the_quota_is_used_up_then_it_has_nothing_until_there_is_room() -> None:
    world = World(policy=Policy(limits=REGISTRY.limits({BINDING.kind: 1})))
    world.take(environment(1), environment(2, "qa"), binding(3, "first"), binding(4, "second", environment="qa"))
    assert condition(world, name="second")[1] == "QuotaExceeded"
    assert {each.owner_name for each in world.child_objects.values()} == {"first"}
    world.take(resource_gone(5, BINDING.kind, "first"))
    assert condition(world, name="second") == ("True", "Reconciled", "")


def test_binding_when_a_rule_fails_then_its_own_conditions_say_so_until_it_has_been_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.take(environment(1))
    with monkeypatch.context() as broken:
        broken.setattr(bindings, "decide", None)
        world.take(binding(2))
        assert condition(world, "ErrorOccurred")[0] == "True"
        assert shown(world).keys() == {"bindingConditions"}


def test_bindings_when_something_else_changes_then_only_those_are_decided_that_it_concerns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    decide = bindings.decide

    def counted(known: Any, addresses: Any) -> Any:
        asked.append(known.name)
        return decide(known, addresses)

    world = World()
    world.take(environment(1), environment(2, "qa"), binding(3, "one"), binding(4, "two", environment="qa"))
    monkeypatch.setattr(bindings, "decide", counted)
    world.take(changed(5), environment(6, "another"))
    assert asked == []
    world.take(binding(7, "one", told=[component("cart", branch="next")]))
    assert asked == ["one"]
    world.take(secret(8), environment(9, "qa", unstableConfigurationFields=ON_CLUSTER))
    assert asked == ["one", "two"]
    promoted = {"deploymentStrategy": "AppStudioAutomated", "parentEnvironment": "another"}
    variables = {"env": [{"name": "a", "value": "b"}]}
    world.take(environment(10, displayName="other", tags=["a"], configuration=variables, **promoted))
    assert asked == ["one", "two"], "nothing of that is in a deployment"


def test_deployment_when_somebody_has_made_one_of_its_name_then_the_binding_says_so_and_has_it_once_that_is_gone() -> (
    None
):
    workspace, theirs = Workspace(), {"source": {"repoURL": "https://example.com/mine", "path": "mine"}}
    workspace.put(KEYS["cart"], theirs)
    workspace.tell()
    workspace.take(environment(workspace.second + 1), binding(workspace.second + 2))
    workspace.second += 2
    assert condition(workspace.world)[:2] == ("False", "NameExists")
    assert "GitOpsDeployment 'web-shop-staging-cart' exists already" in condition(workspace.world)[2]
    assert (workspace.rows(), workspace.live[KEYS["cart"]].spec) == ({}, theirs)
    workspace.owners["uid-web"] = binding(2)
    workspace.remove(KEYS["cart"])
    workspace.settle()
    assert condition(workspace.world) == ("True", "Reconciled", "")
    assert workspace.live[KEYS["cart"]].controller == "uid-web"


def test_deployment_when_somebody_takes_its_name_while_it_is_gone_then_the_binding_says_so_until_they_leave_it(
    ours: Workspace,
) -> None:
    ours.remove(KEYS["cart"])
    ours.put(KEYS["cart"], {"type": "manual"})
    ours.tell()
    assert condition(ours.world)[1] == "NameExists"
    ours.pass_time(SOON)
    ours.settle()
    assert ours.live[KEYS["cart"]].spec == {"type": "manual"}, "nothing is overwritten"
    ours.remove(KEYS["cart"])
    ours.settle()
    assert condition(ours.world)[1] == "Reconciled"
    ours.pass_time(SOON)
    ours.settle()
    assert ours.live[KEYS["cart"]].controller == "uid-web"


def test_deployment_when_its_name_is_not_free_and_something_else_is_told_then_the_binding_has_it_once_it_is() -> None:
    workspace, theirs = Workspace(), {"source": {"repoURL": "https://example.com/mine", "path": "mine"}}
    workspace.put(KEYS["cart"], theirs)
    workspace.tell()
    waiting = binding(workspace.second + 2, components=("cart", "basket"), told=[component("cart")])
    workspace.take(environment(workspace.second + 1), waiting)
    workspace.owners["uid-web"] = waiting
    workspace.second += 2
    assert condition(workspace.world)[1] == "WaitingForComponentStatus"
    workspace.remove(KEYS["cart"])
    workspace.settle()
    assert workspace.live[KEYS["cart"]].controller == "uid-web"


def test_binding_when_the_older_one_that_has_its_names_goes_then_it_has_them() -> None:
    world = World()
    world.take(environment(1, "shop-qa"), environment(2, "qa"))
    world.take(binding(3, "web", environment="shop-qa"), binding(4, "web-shop", environment="qa"))
    assert condition(world, name="web-shop")[1] == "NameTaken"
    world.take(resource_gone(5, BINDING.kind, "web"))
    assert condition(world, name="web-shop") == ("True", "Reconciled", "")
    assert [each.owner_name for each in world.child_objects.values() if each.desired == "present"] == ["web-shop"]
