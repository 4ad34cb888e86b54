"""The checker sees what is wrong with bindings of AppStudio, and with their deployments."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from services.common.kubernetes import Manifest
from tests.unit.chaos.scene import HOME, REPOSITORY, Scene, application, build, deployment, settled, show_synced, thing

AGE = "2026-01-01T00:00:00Z"
CHILD = "dev-a-shop-dev-api"
LABELS = {"appstudio.openshift.io/" + what: name for what, name in
          {"application": "shop", "component": "api", "environment": "dev"}.items()}  # fmt: skip
Change = Callable[[Scene], None]


def binding(name: str = "dev-a", created_at: str = AGE) -> Manifest:
    """One of one component, as it is when that is synced."""
    item = thing("SnapshotEnvironmentBinding", HOME, name, f"u-{name}")
    item["metadata"]["creationTimestamp"] = created_at
    spec = {"application": "shop", "environment": "dev", "snapshot": "one", "components": [{"name": "api"}]}
    repository = {"url": REPOSITORY, "path": ".", "branch": "main", "commitID": "abc"}
    shown = {"componentName": "api", "gitopsDeployment": CHILD}
    return item | {
        "spec": spec,
        "status": {
            "components": [{"name": "api", "gitopsRepository": repository}],
            "gitopsDeployments": [shown | {"syncStatus": "Synced", "health": "Healthy", "commitID": "abc"}],
            "bindingConditions": [{"type": "Reconciled", "status": "True", "reason": "Reconciled"}],
        },
    }


def child() -> Manifest:
    """Its deployment."""
    destination = {"environment": "", "namespace": ""}
    item = deployment(CHILD, "u-child", destination=destination, syncPolicy={"syncOptions": []})
    item["spec"]["source"]["targetRevision"] = "main"
    item["status"]["reconciledState"]["source"]["branch"] = "main"
    item["status"]["reconciledState"]["destination"]["namespace"] = HOME
    owner = {"kind": "SnapshotEnvironmentBinding", "name": "dev-a", "uid": "u-dev-a", "controller": True}
    item["metadata"] |= {"labels": dict(LABELS), "ownerReferences": [owner]}
    return item


@pytest.fixture
def scene() -> Scene:
    """What is settled, and a binding with its deployment."""
    scene = settled()
    scene.put("app environment", thing("Environment", HOME, "dev", "u-dev") | {"spec": {"displayName": "dev"}})
    scene.put("binding", binding())
    scene.objects["child"] = child()
    made = application("u-child", automated=True)
    for part in (made["spec"]["source"], made["status"]["sync"]["comparedTo"]["source"]):
        part["targetRevision"] = "main"
    scene.objects["child application"] = made
    return scene


def told(scene: Scene) -> set[tuple[str, str]]:
    return {(each.sort, each.subject) for each in scene.judged()}


def promoted() -> Manifest:
    """What a run says that has succeeded."""
    spec = {"application": "shop", "snapshot": "one", "manualPromotion": {"targetEnvironment": "qa"}}
    steps = [{"environmentName": "qa", "status": "Success"}]
    return {
        "spec": spec,
        "status": {"state": "Complete", "completionResult": "Success", "environmentStatus": steps},
    }


def second(scene: Scene) -> Manifest:
    """A younger binding of the same application and environment."""
    other = binding("dev-b", created_at="2026-01-01T00:00:01Z")
    reason = {"type": "Reconciled", "status": "False", "reason": "DuplicateBinding"}
    other["status"] |= {"gitopsDeployments": [], "bindingConditions": [reason]}
    scene.put("other", other)
    return other


def test_binding_when_everything_is_as_it_must_be_then_nothing_is_told(scene: Scene) -> None:
    assert scene.judged() == []


def _change(name: str, change: Callable[[Manifest], object]) -> Change:
    return lambda scene: change(scene.objects[name]) and None


WRONG: dict[str, tuple[Change, tuple[str, str]]] = {
    "no deployment": (lambda scene: scene.objects.pop("child") and None, ("missing", f"GitOpsDeployment {CHILD}")),
    "another path": (
        _change("child", lambda item: item["spec"]["source"].update(path="x")),
        ("differs", f"GitOpsDeployment {HOME}/{CHILD}"),
    ),
    "no label": (
        _change("child", lambda item: item["metadata"]["labels"].pop("appstudio.openshift.io/application")),
        ("differs", f"GitOpsDeployment {HOME}/{CHILD}"),
    ),
    "a component too many": (
        _change("child", lambda item: item["metadata"].update(name="dev-a-shop-dev-web")),
        ("extra", f"GitOpsDeployment {HOME}/dev-a-shop-dev-web"),
    ),
    "stale": (
        _change("binding", lambda item: item["status"]["gitopsDeployments"][0].update(health="Degraded")),
        ("status", f"SnapshotEnvironmentBinding {HOME}/dev-a"),
    ),
    "reason": (
        _change("binding", lambda item: item["status"].update(bindingConditions=[])),
        ("status", f"SnapshotEnvironmentBinding {HOME}/dev-a"),
    ),
}


@pytest.mark.parametrize(("change", "difference"), WRONG.values(), ids=WRONG)
def test_binding_when_something_is_wrong_then_it_is_told(
    scene: Scene, change: Change, difference: tuple[str, str]
) -> None:
    change(scene)
    assert difference in told(scene)


def test_deployment_when_its_binding_is_gone_then_it_is_extra(scene: Scene) -> None:
    scene.remove("binding")
    assert ("extra", f"GitOpsDeployment {HOME}/{CHILD}") in told(scene)


def test_binding_when_there_is_an_older_one_then_it_deploys_nothing(scene: Scene) -> None:
    other = second(scene)
    assert scene.judged() == []
    scene.objects["child"]["metadata"]["ownerReferences"][0]["uid"] = other["metadata"]["uid"]
    assert {sort for sort, _ in told(scene)} >= {"extra", "missing", "status"}


def test_binding_when_its_environment_is_gone_then_what_it_has_deployed_may_stay_and_nothing_else(scene: Scene) -> None:
    scene.remove("app environment")
    scene.objects["binding"]["status"]["bindingConditions"][0]["reason"] = "EnvironmentNotFound"
    assert scene.judged() == []
    scene.objects["child"]["metadata"]["name"] = "dev-a-shop-dev-web"
    assert ("extra", f"GitOpsDeployment {HOME}/dev-a-shop-dev-web") in told(scene)


def test_binding_when_a_promotion_has_changed_its_snapshot_then_it_is_not_lost(scene: Scene) -> None:
    changed = copy.deepcopy(scene.objects["binding"])
    changed["spec"]["snapshot"] = "two"
    scene.objects["binding"] = changed
    assert told(scene) == {("differs", f"SnapshotEnvironmentBinding {HOME}/dev-a")}
    spec = {"application": "shop", "snapshot": "two", "manualPromotion": {"targetEnvironment": "dev"}}
    scene.put("promotion", thing("PromotionRun", HOME, "p0", "u-p0") | {"spec": spec})
    scene.remove("promotion")
    assert scene.judged() == []
    changed["spec"]["components"] = []
    assert ("lost", f"SnapshotEnvironmentBinding/{HOME}/dev-a") in told(scene)


def test_binding_when_nobody_has_made_it_then_it_is_extra_but_if_a_promotion_has(scene: Scene) -> None:
    scene.put("promotion", thing("PromotionRun", HOME, "p0", "u-p0") | promoted())
    show_synced(scene, build(scene, "one", "qa"), version=1)
    generated = binding("shop-qa-generated-binding")
    generated["spec"] |= {"environment": "qa", "components": []}
    generated["status"] = {"bindingConditions": [{"type": "Reconciled", "reason": "EnvironmentNotFound"}]}
    scene.objects["generated"] = generated
    assert scene.judged() == []
    scene.record.names = {}
    assert ("extra", f"SnapshotEnvironmentBinding/{HOME}/shop-qa-generated-binding") in told(scene)


@pytest.mark.parametrize("snapshot", ["one", "two"])
def test_deployment_when_it_is_at_another_commit_than_is_named_then_it_is_told_but_for_a_later_one(
    scene: Scene, snapshot: str
) -> None:
    commits = {each: build(scene, each) for each in ("two", "one")}
    named = commits[snapshot]
    scene.objects["binding"]["status"]["components"][0]["gitopsRepository"]["commitID"] = named.id
    for status in (scene.objects["child"]["status"], scene.objects["child application"]["status"]):
        status["sync"]["revision"] = commits["one"].id
    scene.objects["binding"]["status"]["gitopsDeployments"][0]["commitID"] = commits["one"].id
    assert scene.judged() == [], "what was pushed last is on top of all before"
    for status in (scene.objects["child"]["status"], scene.objects["child application"]["status"]):
        status["sync"]["revision"] = commits["two"].id
    scene.objects["binding"]["status"]["gitopsDeployments"][0]["commitID"] = commits["two"].id
    wanted = {("status", f"GitOpsDeployment {HOME}/{CHILD}")} if snapshot == "one" else set()
    assert told(scene) == wanted


def test_binding_when_its_snapshot_went_before_it_was_built_then_it_waits_for_the_build_service(scene: Scene) -> None:
    for name in ("child", "child application"):
        del scene.objects[name]
    status = scene.objects["binding"]["status"]
    status |= {"components": [], "gitopsDeployments": []}
    assert told(scene) == {("status", f"SnapshotEnvironmentBinding {HOME}/dev-a")}
    status["bindingConditions"][0]["reason"] = "WaitingForComponentStatus"
    assert scene.judged() == []
    spec = {"application": "shop", "components": []}
    scene.put("snapshot", thing("Snapshot", HOME, "one", "u-one") | {"spec": spec})
    assert ("missing", f"GitOpsDeployment {CHILD}") in told(scene)


def test_project_when_a_deployment_of_a_binding_waits_for_its_environment_then_its_repository_may_stay(
    scene: Scene,
) -> None:
    url = "https://git.example.com/chaos-000/shop.git"
    scene.objects["child"]["spec"] |= {"source": {"repoURL": url, "path": "."}, "destination": {"environment": "gone"}}
    listed = scene.objects["project"]["spec"]["sourceRepos"]
    listed.append(url.removesuffix(".git"))
    assert "AppProject" not in {kind_of(subject) for _, subject in told(scene)}
    listed.append("https://git.example.com/chaos-000/another")
    assert "AppProject" in {kind_of(subject) for _, subject in told(scene)}


def kind_of(subject: str) -> str:
    return subject.partition(" ")[0]
