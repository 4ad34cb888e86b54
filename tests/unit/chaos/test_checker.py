"""The checker sees each sort of fault: one that cannot fail would prove nothing."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable

import pytest

from chaos.checker.world import token_of
from chaos.record import Asked, Gap
from chaos.sync_starts import SyncStarts
from services.kinds.sync_run.catalogue import TERMINATED_FOR_MOVE
from tests.unit.chaos.scene import (
    ASKED_AT,
    BEGUN,
    CLUSTER,
    ENGINE,
    HOME,
    LABELS,
    LOGIN,
    OVER_AT,
    OVER_SSH,
    PRIVATE,
    PROJECT,
    TOKEN,
    USERNAME,
    Scene,
    add_neighbour,
    application,
    cluster_secret,
    connection,
    deployment,
    encoded,
    kubeconfig,
    login,
    repository_secret,
    settled,
    syncing,
    thing,
)

KEY = f"key of {USERNAME}"


@pytest.fixture
def scene() -> Scene:
    return settled()


def test_world_when_everything_is_as_it_must_be_then_nothing_is_told(scene: Scene) -> None:
    assert scene.judged() == []


@pytest.mark.parametrize("name", ["web application", "remote application", "project", "cluster secret"])
def test_object_when_it_is_missing_then_it_is_told(scene: Scene, name: str) -> None:
    gone = scene.objects.pop(name)
    assert ("missing", f"{gone['kind']} {gone['metadata']['name']}") in [(d.sort, d.subject) for d in scene.judged()]


@pytest.mark.parametrize("resource", ["web", "remote", "environment"])
def test_object_when_its_resource_is_gone_then_it_is_extra(scene: Scene, resource: str) -> None:
    scene.remove(resource)
    assert "extra" in scene.sorts()


def test_object_when_it_was_forged_with_our_label_then_it_is_extra(scene: Scene) -> None:
    forged = application("nobodys", automated=True)
    scene.objects["forged"] = forged
    assert scene.sorts() == ["extra"]


def test_object_when_it_was_there_before_the_run_then_nothing_is_told_wherever_it_was_moved(scene: Scene) -> None:
    others = application("others", automated=True)
    scene.record.before = frozenset({(others["kind"], others["metadata"]["name"])})
    others["metadata"]["namespace"] = f"{ENGINE}-2"
    scene.objects["others"] = others
    assert scene.judged() == []


def test_object_when_it_is_in_two_engine_namespaces_then_it_is_told(scene: Scene) -> None:
    twin = copy.deepcopy(scene.objects["web application"])
    twin["metadata"]["namespace"] = f"{ENGINE}-2"
    scene.objects["twin"] = twin
    assert scene.sorts() == ["differs", "differs", "extra"], "once where it is and need not be, once as it is scattered"


def test_objects_when_a_tenants_are_in_two_engine_namespaces_then_it_is_told(scene: Scene) -> None:
    scene.objects["project"]["metadata"]["namespace"] = f"{ENGINE}-2"
    assert [str(each) for each in scene.judged()] == [f"differs: tenant {HOME}: it is in {ENGINE} and {ENGINE}-2"]


def test_foreign_object_when_it_is_left_alone_then_nothing_is_told(scene: Scene) -> None:
    foreign = thing("AppProject", ENGINE, "theirs", "f") | {"spec": {}}
    scene.objects["foreign"] = foreign
    scene.record.foreign["AppProject", ENGINE, "theirs"] = copy.deepcopy(foreign)
    assert scene.judged() == []


@pytest.mark.parametrize("how", ["gone", "changed", "labelled"])
def test_foreign_object_when_it_is_touched_then_it_is_told(scene: Scene, how: str) -> None:
    foreign = thing("AppProject", ENGINE, "theirs", "f") | {"spec": {}}
    scene.record.foreign["AppProject", ENGINE, "theirs"] = copy.deepcopy(foreign)
    if how == "changed":
        foreign["spec"] = {"sourceRepos": []}
    if how == "labelled":
        foreign["metadata"]["labels"] = LABELS
    if how != "gone":
        scene.objects["foreign"] = foreign
    assert scene.sorts() == [("missing" if how == "gone" else "differs")]


def _set(*path: str, to: object) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        item: dict[str, object] = scene.objects
        for name in path[:-1]:
            item = item[name]  # type: ignore[assignment]
        item[path[-1]] = to

    return change


STALE = {
    "path": _set("web application", "spec", "source", "path", to="elsewhere"),
    "project": _set("web application", "spec", "project", to="default"),
    "destination": _set("remote application", "spec", "destination", to={"name": "in-cluster", "namespace": "web"}),
    "sync policy": _set("manual application", "spec", "syncPolicy", to={"automated": {}}),
    "label": _set("web application", "metadata", "labels", to={}),
    "widened project": _set("project", "spec", "destinations", to=[{"name": "*", "namespace": "*"}]),
    "project of another": _set("project", "metadata", "annotations", to={"username": "another"}),
    "project with more": _set("project", "spec", "clusterResourceWhitelist", to=[{"group": "*", "kind": "*"}]),
    "token": _set("cluster secret", "data", to=cluster_secret("former-token")["data"]),
    "being deleted": _set("web application", "metadata", "deletionTimestamp", to="2026-01-01T00:00:00Z"),
}


@pytest.mark.parametrize("change", STALE.values(), ids=STALE.keys())
def test_object_when_it_is_stale_or_another_then_it_differs(scene: Scene, change: Callable[[Scene], None]) -> None:
    change(scene)
    assert "differs" in scene.sorts()


STATUSES = {
    "sync": _set("web", "status", "sync", "status", to="OutOfSync"),
    "health": _set("web", "status", "health", "status", to="Degraded"),
    "operation": _set("web", "status", "operationState", "phase", to="Running"),
    "reconciled": _set("remote", "status", "reconciledState", "destination", "name", to=CLUSTER),
    "none": _set("manual", "status", to={}),
    "error": _set("web", "status", "conditions", to=[{"type": "ErrorOccurred", "status": "True", "message": "no"}]),
    "environment": _set("environment", "status", "conditions", to=[connection("Checking")]),
    "credential": _set("credential", "status", to={}),
}


@pytest.mark.parametrize("change", STATUSES.values(), ids=STATUSES.keys())
def test_status_when_it_is_stale_then_it_is_told(scene: Scene, change: Callable[[Scene], None]) -> None:
    change(scene)
    assert set(scene.sorts()) == {"status"}


@pytest.mark.parametrize(("phase", "sorts"), [("Succeeded", []), ("Failed", []), ("Running", ["status"])])
def test_operation_when_argo_cd_tells_of_none_then_the_last_one_may_be_shown_if_it_has_ended(
    scene: Scene, phase: str, sorts: list[str]
) -> None:
    scene.objects["web application"]["status"].pop("operationState")
    scene.objects["web"]["status"]["operationState"]["phase"] = phase
    assert sorted(set(scene.sorts())) == sorts


def test_application_when_argo_cd_has_not_compared_its_source_then_it_is_told(scene: Scene) -> None:
    scene.objects["web"]["spec"]["source"] = {"repoURL": "https://git.example.com/chaos-000/config", "path": "new"}
    scene.record.acknowledge(scene.objects["web"])
    scene.objects["web application"]["spec"]["source"] = scene.objects["web"]["spec"]["source"]
    assert "its Application was not compared with its source yet" in [each.what for each in scene.judged()]


def test_resource_when_it_is_gone_though_it_was_acknowledged_then_it_is_lost(scene: Scene) -> None:
    scene.objects.pop("credential")
    assert "lost" in scene.sorts()


def test_resource_when_it_is_not_as_it_was_acknowledged_then_it_is_lost(scene: Scene) -> None:
    scene.objects["credential"] = copy.deepcopy(scene.objects["credential"])
    scene.objects["credential"]["spec"]["secret"] = "another"
    assert "lost" in scene.sorts()


def test_resource_when_its_deletion_was_acknowledged_and_it_is_there_then_it_is_extra(scene: Scene) -> None:
    item = scene.objects["run"]
    scene.remove("run")
    scene.objects["run"] = item
    assert scene.sorts() == ["extra"]


def test_deployment_when_its_environment_has_no_secret_then_its_application_may_be_as_it_was(scene: Scene) -> None:
    scene.remove("kubeconfig")
    scene.objects["environment"]["status"]["conditions"] = [connection("SecretNotFound")]
    scene.objects.pop("cluster secret")
    scene.objects["project"]["spec"]["destinations"].pop()
    scene.objects["remote application"]["spec"]["destination"] = {"name": "", "namespace": "web"}
    assert scene.judged() == []


def test_cluster_secret_when_its_credentials_were_taken_back_then_it_is_extra(scene: Scene) -> None:
    scene.remove("kubeconfig")
    scene.objects["environment"]["status"]["conditions"] = [connection("SecretNotFound")]
    assert "extra" in scene.sorts()


def test_cluster_secret_when_newer_credentials_do_not_work_then_the_last_that_did_may_stay(scene: Scene) -> None:
    scene.put("kubeconfig", scene.objects["kubeconfig"] | {"data": kubeconfig("wrong")})
    scene.objects["environment"]["status"]["conditions"] = [connection("UnableToValidateClusterCredentials")]
    assert token_of(scene.objects["kubeconfig"]["data"]) == "wrong"
    assert scene.judged() == []


def test_cluster_secret_when_credentials_fail_after_its_spec_has_changed_then_any_that_worked_may_stay(
    scene: Scene,
) -> None:
    environment = scene.objects["environment"]
    scene.record.contents["u-env"].insert(0, environment["spec"] | {"namespaces": ["web", "web-2"]})
    scene.put("kubeconfig", scene.objects["kubeconfig"] | {"data": kubeconfig("wrong")})
    environment["status"]["conditions"] = [connection("UnableToValidateClusterCredentials")]
    assert scene.judged() == []


def test_deployment_when_its_environment_does_not_exist_and_it_says_nothing_then_it_is_told(scene: Scene) -> None:
    scene.put("lost", deployment("lost", "u-lost", destination={"environment": "nowhere", "namespace": "web"}))
    assert scene.sorts() == ["status"]


def test_run_when_it_took_place_twice_then_it_is_told_although_it_is_gone(scene: Scene) -> None:
    scene.record.starts.note(syncing("u-run", "2026-01-01T00:01:00Z", version=OVER_AT))
    scene.remove("run")
    assert scene.sorts() == ["sync"]


def test_run_when_it_says_that_it_succeeded_and_nobody_saw_it_then_it_is_told(scene: Scene) -> None:
    scene.record.starts = SyncStarts()
    assert scene.sorts() == ["sync"]


@pytest.mark.parametrize("gap", [Gap(0, ASKED_AT + 1), Gap(OVER_AT - 1, None), Gap(0, None)])
def test_run_when_nobody_watched_while_it_lived_then_it_is_not_judged_that_nobody_saw_it(
    scene: Scene, gap: Gap
) -> None:
    scene.record.starts = SyncStarts()
    scene.record.witness_gaps.append(gap)
    assert (scene.judged(), scene.judgement().strictly_judged) == ([], 0)


@pytest.mark.parametrize("gap", [Gap(0, ASKED_AT), Gap(OVER_AT, None)])
def test_run_when_nobody_watched_before_or_after_it_lived_then_it_is_told_that_nobody_saw_it(
    scene: Scene, gap: Gap
) -> None:
    scene.record.starts = SyncStarts()
    scene.record.witness_gaps.append(gap)
    assert (scene.sorts(), scene.judgement().strictly_judged) == (["sync"], 1)


@pytest.mark.parametrize("phase", ["Waiting", "Running", "Failed"])
def test_run_when_nothing_stood_in_its_way_and_it_did_not_succeed_then_it_is_told(scene: Scene, phase: str) -> None:
    scene.objects["run"]["status"]["operation"]["phase"] = phase
    assert scene.sorts() == ["sync"]


@pytest.mark.parametrize(
    ("message", "shown", "differs"),
    [
        pytest.param("one or more objects failed to apply (dry run)", "Failed", [], id="the API server was away"),
        pytest.param("one or more objects failed to apply (dry run)", "Error", ["sync"], id="another end is shown"),
        pytest.param("Operation terminated", "Failed", ["sync"], id="somebody ended it"),
        pytest.param("error getting app project", "Failed", ["sync"], id="it lacked what is ours"),
    ],
)
def test_run_when_argo_cd_failed_it_then_that_has_to_be_shown_and_to_be_the_api_servers_fault(
    scene: Scene, message: str, shown: str, differs: list[str]
) -> None:
    ended = syncing("u-run", BEGUN, version=ASKED_AT + 2)
    ended["status"]["operationState"] |= {"phase": "Failed", "message": message}
    scene.record.starts.note(ended)
    scene.objects["run"]["status"]["operation"]["phase"] = shown
    assert scene.sorts() == differs


def test_run_when_a_move_has_had_it_terminated_then_it_may_have_failed_even_if_nobody_saw_it(scene: Scene) -> None:
    scene.record.starts = SyncStarts()
    scene.objects["run"]["status"]["operation"] = {"phase": "Failed", "message": TERMINATED_FOR_MOVE.message}
    assert scene.judged() == []


def test_run_when_somebody_deleted_its_application_then_it_may_have_failed_but_has_ended(scene: Scene) -> None:
    scene.record.runs["u-run"] = Asked("u-run", "u-manual", ASKED_AT)
    scene.record.disturbed.add("u-manual")
    scene.objects["run"]["status"]["operation"]["phase"] = "Error"
    assert scene.judged() == []
    scene.objects["run"]["status"]["operation"]["phase"] = "Running"
    assert scene.sorts() == ["sync"]


def test_run_when_somebody_touched_what_all_applications_of_its_tenant_need_then_it_is_not_judged_strictly(
    scene: Scene,
) -> None:
    assert scene.judgement().strictly_judged == 1
    scene.record.disturb(HOME)
    assert scene.judgement().strictly_judged == 0


def with_login(scene: Scene, password: str, reason: str, status: str = "True") -> None:
    scene.put("login", login(password))
    scene.objects["credential"]["status"]["conditions"] = [
        {"type": "ErrorOccurred", "status": status, "reason": reason}
    ]


@pytest.fixture
def opened(scene: Scene) -> Scene:
    """The credential opens its repository, and Argo CD has it."""
    with_login(scene, LOGIN[1], "RepositoryCredentialUpToDate", "False")
    scene.objects["repository secret"] = repository_secret()
    return scene


def test_project_when_it_does_not_list_a_private_repository_then_that_is_told_of_a_login_that_opens_it(
    opened: Scene,
) -> None:
    opened.objects["project"]["spec"]["sourceRepos"].remove(PRIVATE.removesuffix(".git"))
    assert opened.sorts() == ["differs"]
    with_login(opened, "wrong", "InvalidCredentials")
    assert opened.judged() == []


def test_repository_secret_when_it_is_as_the_credential_says_then_nothing_differs(opened: Scene) -> None:
    assert opened.judged() == []


@pytest.mark.parametrize("part", ["name", "url", "project", "username", "password"])
def test_repository_secret_when_a_part_of_it_is_another_then_it_differs(opened: Scene, part: str) -> None:
    opened.objects["repository secret"]["data"] |= encoded({part: "another"})
    assert opened.sorts() == ["differs"]


def test_repository_secret_when_its_credential_opens_the_repository_and_it_is_not_there_then_it_is_missing(
    opened: Scene,
) -> None:
    opened.objects.pop("repository secret")
    assert opened.sorts() == ["missing"]


def test_repository_secret_when_the_login_was_taken_back_then_it_is_extra(opened: Scene) -> None:
    opened.remove("login")
    opened.objects["credential"]["status"]["conditions"][0] |= {"status": "True", "reason": "SecretNotFound"}
    assert opened.sorts() == ["extra"]


def test_repository_secret_when_a_newer_login_opens_nothing_then_only_what_worked_may_stay(opened: Scene) -> None:
    with_login(opened, "wrong", "InvalidCredentials")
    assert opened.judged() == []
    opened.objects["repository secret"]["data"] |= encoded({"password": "wrong"})
    assert opened.sorts() == ["differs"]
    opened.objects.pop("repository secret")
    assert opened.judged() == []


@pytest.fixture
def opened_over_ssh(opened: Scene) -> Scene:
    """The credential's repository is reached by ssh, with the tenant's own key."""
    opened.put("credential", opened.objects["credential"] | {"spec": {"repository": OVER_SSH, "secret": "key"}})
    opened.put("key", thing("Secret", HOME, "key", "u-key") | {"data": encoded({"sshPrivateKey": KEY})})
    content = {"name": "key", "url": OVER_SSH, "project": PROJECT, "sshPrivateKey": KEY}
    opened.objects["repository secret"]["data"] = encoded(content)
    listed = opened.objects["project"]["spec"]["sourceRepos"]
    listed[listed.index(PRIVATE_IN_PROJECT)] = OVER_SSH.removesuffix(".git")
    return opened


def test_repository_secret_when_it_has_the_tenants_key_then_nothing_differs(opened_over_ssh: Scene) -> None:
    assert opened_over_ssh.judged() == []


def test_repository_secret_when_it_has_another_key_then_it_differs(opened_over_ssh: Scene) -> None:
    opened_over_ssh.objects["repository secret"]["data"] |= encoded({"sshPrivateKey": "key of git-chaos-001"})
    assert opened_over_ssh.sorts() == ["differs"]


def test_repository_secret_when_the_tenants_newer_key_opens_nothing_then_what_worked_may_stay(
    opened_over_ssh: Scene,
) -> None:
    scene = opened_over_ssh
    scene.objects["key"]["data"] = encoded({"sshPrivateKey": "another"})
    condition = scene.objects["credential"]["status"]["conditions"][0]
    condition |= {"status": "True", "reason": "InvalidCredentials"}
    assert scene.judged() == []
    condition |= {"status": "False", "reason": "RepositoryCredentialUpToDate"}
    assert scene.sorts() == ["status"]


PRIVATE_IN_PROJECT = PRIVATE.removesuffix(".git")


@pytest.fixture
def shared(opened: Scene) -> Scene:
    """Two tenants of one engine, each with a login of its own for the same private repository."""
    add_neighbour(opened)
    return opened


def test_private_repository_when_each_tenant_has_a_login_for_it_then_nothing_differs(shared: Scene) -> None:
    assert shared.judged() == []


def test_repository_secret_when_it_holds_another_tenants_login_then_it_differs(shared: Scene) -> None:
    shared.objects["repository secret"]["data"] |= encoded({"username": "git-chaos-001"})
    assert shared.sorts() == ["differs"]


def test_repository_secret_when_it_is_of_a_tenant_that_has_no_credential_then_it_is_extra(shared: Scene) -> None:
    shared.objects["project"]["spec"]["sourceRepos"].remove(PRIVATE_IN_PROJECT)
    shared.remove("credential")
    shared.remove("login")
    assert shared.sorts() == ["extra"]


def test_project_when_its_tenants_login_opens_nothing_and_a_neighbours_does_then_it_may_not_list_the_repository(
    shared: Scene,
) -> None:
    with_login(shared, "wrong", "InvalidCredentials")
    shared.objects.pop("repository secret")
    assert shared.sorts() == ["differs"]
    shared.objects["project"]["spec"]["sourceRepos"].remove(PRIVATE_IN_PROJECT)
    assert shared.judged() == []


def test_project_when_the_login_that_opens_its_repository_is_on_another_engine_then_it_may_list_it(
    shared: Scene,
) -> None:
    with_login(shared, "wrong", "InvalidCredentials")
    shared.objects.pop("repository secret")
    for name in ("neighbour's secret", "neighbour's project"):
        shared.objects[name]["metadata"]["namespace"] = f"{ENGINE}-2"
    assert shared.judged() == []


def test_project_when_its_tenants_login_was_a_neighbours_then_it_opens_nothing(shared: Scene) -> None:
    shared.put("login", login(LOGIN[1], "git-chaos-001"))
    assert "differs" in shared.sorts()


def test_project_when_it_lists_a_repository_that_only_a_neighbour_has_a_credential_for_then_it_differs(
    shared: Scene,
) -> None:
    shared.remove("credential")
    shared.remove("login")
    shared.objects.pop("repository secret")
    assert [each.what for each in shared.judged()] == [
        f"sourceRepos has ['{PRIVATE_IN_PROJECT}'], which only others' logins open",
        f"sourceRepos has, which nothing asks for, ['{PRIVATE_IN_PROJECT}']",
    ]


REFUSED = "spec.source.path cannot be '/'"


def refuse(scene: Scene, name: str, message: str) -> None:
    """Give a deployment a path that cannot be, and let it say so, or something else."""
    item = copy.deepcopy(scene.objects[name])
    item["spec"]["source"]["path"] = "/"
    item["status"]["conditions"] = [{"type": "ErrorOccurred", "status": "True", "message": message}]
    scene.put(name, item)


def test_deployment_when_its_spec_is_refused_then_what_was_deployed_before_stays(scene: Scene) -> None:
    refuse(scene, "web", REFUSED)
    assert scene.judged() == []


def test_deployment_when_its_spec_is_refused_and_it_says_something_else_then_it_is_told(scene: Scene) -> None:
    refuse(scene, "web", "")
    assert scene.sorts() == ["status"]


def test_deployment_when_its_spec_is_refused_and_its_application_has_it_then_it_is_told(scene: Scene) -> None:
    refuse(scene, "web", REFUSED)
    scene.objects["web application"]["spec"]["source"]["path"] = "/"
    assert scene.sorts() == ["differs"]


def test_deployment_when_no_spec_of_it_was_ever_taken_then_an_application_of_it_is_told(scene: Scene) -> None:
    scene.objects["new"] = deployment("new", "u-new")
    refuse(scene, "new", REFUSED)
    assert scene.judged() == []
    scene.objects["new application"] = application("u-new", automated=True)
    assert scene.sorts() == ["differs"]


def test_run_when_a_spec_of_its_deployment_was_ever_refused_then_it_is_not_judged_strictly(scene: Scene) -> None:
    refuse(scene, "manual", REFUSED)
    assert scene.judgement().strictly_judged == 0


def create_account(scene: Scene, uid: str) -> None:
    """The environment wants an account, and its cluster's Secret has a token of the one of this environment."""
    environment = copy.deepcopy(scene.objects["environment"])
    environment["spec"]["createNewServiceAccount"] = True
    scene.put("environment", environment)
    subject = {"sub": f"system:serviceaccount:kube-system:argocd-manager-{uid}"}
    claims = base64.urlsafe_b64encode(json.dumps(subject).encode()).decode().rstrip("=")
    scene.objects["cluster secret"] = cluster_secret(f"header.{claims}.signature")
    scene.objects["account"] = thing("ServiceAccount", "kube-system", f"argocd-manager-{uid}", "u-account")


def test_environment_when_it_creates_an_account_then_argo_cd_has_a_token_of_that(scene: Scene) -> None:
    create_account(scene, "u-env")
    assert scene.judged() == []
    scene.objects["cluster secret"] = cluster_secret(TOKEN)
    assert scene.sorts() == ["differs"], "the kubeconfig's own"


def test_environment_when_argo_cd_has_a_token_of_anothers_account_then_it_is_told(scene: Scene) -> None:
    create_account(scene, "u-other")
    scene.objects["account"]["metadata"]["name"] = "argocd-manager-u-env"
    assert scene.sorts() == ["differs"]


def test_environment_when_the_token_for_its_account_is_refused_then_it_shows_that_none_is_made(scene: Scene) -> None:
    create_account(scene, "u-env")
    scene.put("kubeconfig", scene.objects["kubeconfig"] | {"data": kubeconfig("wrong")})
    conditions = scene.objects["environment"]["status"]
    conditions["conditions"] = [connection("UnableToInstallServiceAccount")]
    assert scene.judged() == []
    conditions["conditions"] = [connection("UnableToValidateClusterCredentials")]
    assert scene.sorts() == ["status"]


def test_environment_when_its_account_is_gone_then_it_is_told(scene: Scene) -> None:
    create_account(scene, "u-env")
    del scene.objects["account"]
    assert scene.sorts() == ["status"]
