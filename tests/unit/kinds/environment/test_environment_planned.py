"""An Environment, planned: its ManagedEnvironment follows what it says and names, and what somebody makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.kinds.environment.kind import KIND
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.planner.domain.appstudio import environments
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.domain.steps.child_objects import REAPPLY_AFTER, UNSEEN_AFTER
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import changed, resource, resource_gone, secret
from tests.unit.planner.tenant import conditions
from tests.unit.planner.workspace import MANAGED_ENVIRONMENT, Workspace
from tests.unit.planner.world import World

ADDRESS = "https://api.example.com:6443"
CREDENTIALS = {
    "targetNamespace": "shop",
    "apiURL": ADDRESS,
    "clusterCredentialsSecret": "kubeconfig",
    "allowInsecureSkipTLSVerify": False,
}
KEY = (MANAGED_ENVIRONMENT, "managed-environment-staging")
SOON = round(REAPPLY_AFTER.total_seconds())
LATER = round(UNSEEN_AFTER.total_seconds())


def environment(second: int, name: str = "staging", **changes: Any) -> Event:
    """With credentials, unless they are None."""
    facts = {key: changes.pop(key) for key in ("deleting", "finalizers", "secret_type", "uid") if key in changes}
    credentials = changes.pop("credentials", CREDENTIALS)
    content = {"displayName": name, "deploymentStrategy": "Manual"} | changes
    if credentials is not None:
        content["unstableConfigurationFields"] = {"kubernetesCredentials": credentials}
    return resource(second, ENVIRONMENT.kind, name, content, generation=second, **facts)


def plain(second: int, name: str = "staging", **changes: Any) -> Event:
    return environment(second, name, credentials=None, **changes)


def shown(world: World, name: str = "staging") -> dict[str, tuple[str, str, str]]:
    return conditions(world, ENVIRONMENT.kind, name)


def reason(world: World, name: str = "staging") -> str:
    """Of what is wrong with it; empty if nothing ever was."""
    return shown(world, name).get("Reconciled", ("", "", ""))[1]


@pytest.fixture
def ours() -> Workspace:
    """A namespace with an environment on a cluster of its user's, whose objects are all there."""
    workspace = Workspace()
    workspace.take(secret(1), environment(2))
    workspace.owners["uid-staging"] = environment(2)
    workspace.second = 2
    workspace.settle()
    workspace.second += SOON
    return workspace


def row(workspace: Workspace) -> ChildRow:
    return workspace.rows()[KEY]


def test_environment_when_it_has_credentials_then_it_is_the_controller_of_a_managed_environment(
    ours: Workspace,
) -> None:
    made = row(ours)
    owner = (made.owner_api_version, made.owner_kind, made.owner_name, made.owner_uid)
    assert owner == ("appstudio.redhat.com/v1alpha1", "Environment", "staging", "uid-staging")
    assert json.loads(made.manifest)["spec"] == {
        "apiURL": ADDRESS,
        "credentialsSecret": "kubeconfig",
        "allowInsecureSkipTLSVerify": False,
        "createNewServiceAccount": False,
        "namespaces": [],
        "clusterResources": False,
    }
    assert {kind for kind, _ in ours.rows()} <= {child.value for child in KIND.children}, "what a watcher may make"
    assert reason(ours.world) == ""


def test_environment_when_it_is_its_own_namespace_then_nothing_is_made() -> None:
    workspace = Workspace()
    workspace.take(plain(1))
    assert (workspace.rows(), reason(workspace.world)) == ({}, "")


def test_environment_when_its_credentials_change_then_its_managed_environment_follows(ours: Workspace) -> None:
    ours.take(environment(ours.second, credentials=CREDENTIALS | {"apiURL": "https://other.example.com"}))
    ours.settle()
    assert ours.live[KEY].spec["apiURL"] == "https://other.example.com"


def test_environment_when_it_becomes_its_own_namespace_then_its_managed_environment_goes(ours: Workspace) -> None:
    ours.take(plain(ours.second))
    ours.settle()
    assert KEY not in ours.live
    assert ours.rows() == {}


DRIFT: dict[str, dict[str, Any]] = {
    "another cluster": {"apiURL": "https://elsewhere.example.com"},
    "other credentials": {"credentialsSecret": "mine"},
    "a list of namespaces where there is none": {"namespaces": ["kube-system"]},
    "an address that need not be proved": {"allowInsecureSkipTLSVerify": True},
    "an account that it does not ask for": {"createNewServiceAccount": True},
    "a right that it does not give": {"clusterResources": True},
}


@pytest.mark.parametrize("change", DRIFT.values(), ids=DRIFT)
def test_managed_environment_when_somebody_edits_it_then_that_is_undone(
    ours: Workspace, change: dict[str, Any]
) -> None:
    wanted = ours.live[KEY].spec
    ours.edit(KEY, wanted | change)
    ours.settle()
    assert ours.live[KEY].spec == wanted
    assert row(ours).revision == 2


def test_managed_environment_when_somebody_deletes_it_then_it_is_made_again(ours: Workspace) -> None:
    ours.remove(KEY)
    ours.settle()
    assert KEY in ours.live


def test_managed_environment_when_its_environment_is_gone_then_so_is_it(ours: Workspace) -> None:
    ours.take(resource_gone(ours.second, ENVIRONMENT.kind, "staging"))
    ours.owners.clear()
    assert row(ours).desired == "absent"
    ours.collect_garbage()
    ours.settle()
    assert ours.rows() == {}
    assert [each for each in ours.world.resources.values() if each.kind == ENVIRONMENT.kind] == []
    assert [known for known in ours.world.workspace.values() if known.kind == ENVIRONMENT.kind] == []


def test_environment_when_it_says_two_places_then_it_keeps_what_it_has_and_says_so(ours: Workspace) -> None:
    claim = {"target": {"deploymentTargetClaim": {"claimName": "staging"}}}
    ours.take(environment(ours.second, configuration=claim))
    assert reason(ours.world) == "InvalidEnvironment"
    assert row(ours).desired == "present"
    ours.take(environment(ours.second + 1))
    assert shown(ours.world)["Reconciled"] == ("True", "InvalidEnvironmentResolved", "")
    assert shown(ours.world)["ErrorOccurred"] == ("False", "ErrorOccurredResolved", "")


def test_environment_when_its_spec_cannot_be_read_then_it_keeps_what_it_has_and_names_the_field(
    ours: Workspace,
) -> None:
    ours.take(environment(ours.second, deploymentStrategy="Sometimes"))
    assert reason(ours.world) == "InvalidSpec"
    assert "spec.deploymentStrategy" in shown(ours.world)["Reconciled"][2]
    assert row(ours).desired == "present"


def test_environment_when_its_secret_comes_and_goes_then_that_is_told_and_its_managed_environment_is_there() -> None:
    world = World()
    world.take(environment(1))
    assert reason(world) == "SecretNotFound"
    assert len(world.child_objects) == 1
    world.take(secret(2))
    assert shown(world)["Reconciled"][:2] == ("True", "SecretNotFoundResolved")
    world.take(resource_gone(3, "Secret", "kubeconfig", "uid-secret-kubeconfig"))
    assert shown(world)["Reconciled"][:2] == ("False", "SecretNotFound")


def test_environment_when_its_secret_is_of_another_type_then_the_watcher_has_told_that_it_is_there() -> None:
    world = World()
    world.take(environment(1, secret_type="Opaque"))
    assert reason(world) == ""


def test_environment_when_there_is_no_claim_of_the_name_then_it_says_so_and_makes_nothing() -> None:
    world = World()
    world.take(plain(1, configuration={"target": {"deploymentTargetClaim": {"claimName": "mine"}}}))
    assert (reason(world), world.child_objects) == ("DeploymentTargetClaimNotFound", {})


def test_environment_when_its_workspace_is_not_the_engines_cluster_then_it_says_that_it_needs_a_cluster() -> None:
    world = World(policy=Policy(local_workspaces={}))
    world.take(plain(1), environment(2, "own", secret_type="Opaque"))
    assert (reason(world), reason(world, "own")) == ("NoLocalCluster", "")
    world.policy = Policy()
    world.take(plain(3, "other"))
    assert reason(world) == "NoLocalClusterResolved"


def test_environments_when_their_parents_go_round_then_each_names_the_way_until_one_is_changed() -> None:
    world = World()
    world.take(plain(1, "a", parentEnvironment="b"), plain(2, "b", parentEnvironment="a"), plain(3, "c"))
    assert "a -> b -> a;" in shown(world, "a")["Reconciled"][2]
    assert "b -> a -> b;" in shown(world, "b")["Reconciled"][2]
    assert reason(world, "c") == ""
    world.take(plain(4, "b", parentEnvironment="c"))
    assert (reason(world, "a"), reason(world, "b")) == ("ParentCycleResolved", "ParentCycleResolved")


def test_environment_when_something_is_wrong_with_it_then_it_is_not_tried_again_until_something_changes() -> None:
    world = World()
    world.take(plain(1, configuration={"target": {"deploymentTargetClaim": {"claimName": "nowhere"}}}))
    assert reason(world) == "DeploymentTargetClaimNotFound"
    (row,) = world.resources.values()
    assert row.due_at is None
    world.take(plain(2))
    assert reason(world) == "DeploymentTargetClaimNotFoundResolved"


def test_environment_when_its_parent_does_not_exist_then_it_says_so_until_it_does_and_can_be_deployed_to() -> None:
    world = World()
    world.take(environment(1, secret_type="Opaque", parentEnvironment="dev"))
    assert shown(world)["Reconciled"][1:] == (
        "ParentNotFound",
        "parentEnvironment 'dev' does not exist; create it, or name another one",
    )
    assert [row.kind for row in world.child_objects.values()] == [MANAGED_ENVIRONMENT], "it can be deployed to"
    world.take(plain(2, "dev"))
    assert (reason(world), shown(world)["ErrorOccurred"][0]) == ("ParentNotFoundResolved", "False")
    world.take(resource_gone(3, ENVIRONMENT.kind, "dev"))
    assert reason(world) == "ParentNotFound"


def test_environment_when_it_cannot_be_deployed_to_then_that_is_told_and_not_that_its_parent_is_missing() -> None:
    workspace = Workspace()
    workspace.put(KEY, {"apiURL": "https://theirs.example.com", "credentialsSecret": "theirs"})
    workspace.tell()
    workspace.take(environment(workspace.second + 1, secret_type="Opaque", parentEnvironment="nowhere"))
    assert reason(workspace.world) == "NameExists"
    workspace.second += 1
    workspace.remove(KEY)
    workspace.tell()
    assert reason(workspace.world) == "ParentNotFound"


def test_environment_when_it_is_being_deleted_then_it_names_its_children_until_they_have_another_parent() -> None:
    world = World()
    world.take(plain(1, "dev"), plain(2, parentEnvironment="dev"))
    world.take(plain(3, "dev", deleting=True, finalizers=("example.com/mine",)))
    assert reason(world, "dev") == "ParentOfOthers"
    world.take(plain(4))
    assert reason(world, "dev") == "ParentOfOthersResolved"


def test_environment_when_the_quota_is_used_up_then_it_has_nothing_until_there_is_room() -> None:
    world = World(policy=Policy(limits=REGISTRY.limits({ENVIRONMENT.kind: 1})))
    world.take(environment(1, "first", secret_type="Opaque"), environment(2, "second", secret_type="Opaque"))
    assert reason(world, "second") == "QuotaExceeded"
    assert {each.owner_name for each in world.child_objects.values()} == {"first"}
    world.take(resource_gone(3, ENVIRONMENT.kind, "first"))
    assert reason(world, "second") == "QuotaExceededResolved"
    assert {each.owner_name for each in world.child_objects.values() if each.desired == "present"} == {"second"}


def test_change_when_users_make_one_then_its_audit_says_what_came_of_it() -> None:
    world = World()
    claim = {"target": {"deploymentTargetClaim": {"claimName": "staging"}}}
    world.take(environment(1, secret_type="Opaque"))
    world.take(environment(2, secret_type="Opaque", configuration=claim))
    told = [(known.action, known.state, known.message) for known in world.resources_audited]
    assert told[0][:2] == ("create", "Completed")
    assert told[1][:2] == ("update", "Failed")
    assert told[1][2].startswith("InvalidEnvironment: Environment is invalid")


def test_environments_when_something_else_of_the_tenant_changes_then_their_rules_are_not_asked(
    ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "decide", None)
    ours.take(changed(ours.second), changed(ours.second + 1, "api", uid="uid-2"))
    assert ours.world.parked == {}
    ours.take(plain(ours.second + 2, "another"))
    assert ours.world.parked, "asked for an environment that is new, they fail"


def test_rows_when_an_environment_is_shown_again_then_nothing_is_written(ours: Workspace) -> None:
    written = ours.written
    ours.take(resource(ours.second, ENVIRONMENT.kind, "staging", json.loads(_spec(ours)), epoch=9, generation=2))
    ours.pass_time(10 * LATER)
    assert ours.written == written == 1


def _spec(workspace: Workspace) -> str:
    (known,) = [each for each in workspace.world.resources.values() if each.kind == ENVIRONMENT.kind]
    return known.spec


def test_managed_environment_when_somebody_has_made_one_of_its_name_then_the_environment_says_so_until_it_goes() -> (
    None
):
    workspace, theirs = Workspace(), {"apiURL": "https://theirs.example.com", "credentialsSecret": "theirs"}
    workspace.put(KEY, theirs)
    workspace.tell()
    workspace.take(environment(workspace.second + 1, secret_type="Opaque"))
    workspace.second += 1
    assert shown(workspace.world)["Reconciled"][:2] == ("False", "NameExists")
    assert (workspace.rows(), workspace.live[KEY].spec) == ({}, theirs)
    workspace.remove(KEY)
    workspace.tell()
    assert reason(workspace.world) == "NameExistsResolved"
    assert row(workspace).desired == "present"
