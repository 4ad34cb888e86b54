"""The checker sees what is wrong with claims, targets, SpaceRequests, and the environments that are on claims."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.common.kubernetes import Manifest
from tests.unit.chaos.scene import (
    API,
    HOME,
    TOKEN,
    Scene,
    cluster_secret,
    connection,
    kubeconfig,
    settled,
    thing,
)

AGE = "2026-01-01T00:00:00Z"
SPACE, REQUEST = f"{HOME}-box-1", "box-1"
MADE = "managed-environment-dev"
CLUSTER = "managed-env-cfa7e38c-e213-551b-9593-3fbf00722a26"
ANNOTATION = "provisioner.appstudio.redhat.com/dt-provisioner"
Change = Callable[[Scene], None]


def class_(name: str, provisioner: str, policy: str) -> Manifest:
    return {
        "kind": "DeploymentTargetClass",
        "metadata": {"name": name},
        "spec": {"provisioner": provisioner, "reclaimPolicy": policy},
    }


def claim(name: str, class_name: str, phase: str, target: str = "", error: str = "") -> Manifest:
    item = thing("DeploymentTargetClaim", HOME, name, f"u-claim-{name}")
    annotations = {ANNOTATION: class_name}
    if phase != "Pending":
        annotations["dt.appstudio.redhat.com/bind-complete"] = "true"
    item["metadata"]["annotations"] = annotations
    status = {"type": "ErrorOccurred", "status": "True" if error else "False", "message": error}
    spec = {"deploymentTargetClassName": class_name} | ({"targetName": target} if target else {})
    return item | {"spec": spec, "status": {"phase": phase, "conditions": [status]}}


def target(name: str, class_name: str, phase: str, claim_name: str = "", secret: str = "kubeconfig") -> Manifest:
    item = thing("DeploymentTarget", HOME, name, f"u-target-{name}")
    credentials = {
        "defaultNamespace": SPACE,
        "apiURL": API,
        "clusterCredentialsSecret": secret,
        "allowInsecureSkipTLSVerify": False,
    }
    spec = {"deploymentTargetClassName": class_name, "kubernetesCredentials": credentials}
    return item | {"spec": spec | ({"claimRef": claim_name} if claim_name else {}), "status": {"phase": phase}}


def made_on_demand() -> dict[str, Manifest]:
    """A target of the sandbox, bound, the environment on it, and all that was made for the two."""
    made = target("box-dt", "sandbox", "Bound", "box", f"{REQUEST}-kubeconfig")
    made["metadata"]["annotations"] = {"provisioner.appstudio.redhat.com/provisioned-by": "sandbox"}
    request = thing("SpaceRequest", HOME, REQUEST, "u-request")
    request["metadata"] |= {
        "labels": {"appstudio.openshift.io/dtc": "box", "appstudio.openshift.io/dt": "box-dt"},
        "annotations": {ANNOTATION: "sandbox"},
    }
    request["status"] = {"namespaceAccess": [{"name": SPACE, "secretRef": f"{REQUEST}-kubeconfig"}]}
    login = thing("Secret", HOME, f"{REQUEST}-kubeconfig", "u-login-of-space")
    content = {"data": kubeconfig(TOKEN)}
    owner = {"ownerReferences": [{"kind": "Environment", "name": "dev", "uid": "u-dev"}]}
    copied = thing("Secret", HOME, "managed-environment-secret-dev", "u-copy") | content
    environment = thing("GitOpsDeploymentManagedEnvironment", HOME, MADE, "u-made")
    for item in (copied, environment):
        item["metadata"] |= owner
    spec = {"apiURL": API, "credentialsSecret": "managed-environment-secret-dev", "namespaces": [SPACE]}
    spec |= {"allowInsecureSkipTLSVerify": False, "clusterResources": False}
    return {
        "made": made,
        "request": request,
        "space": thing("Namespace", "", SPACE, "u-space"),
        "login": login | content | {"type": "Opaque"},
        "copy": copied,
        "managed environment": environment | {"spec": spec, "status": {"conditions": [connection("Succeeded")]}},
        "cluster": cluster_secret(TOKEN, CLUSTER, SPACE),
    }


@pytest.fixture
def scene() -> Scene:
    """What is settled; a claim of the sandbox with an environment on it; a claim with a target of its user's."""
    scene = settled()
    for name, provisioner, policy in (
        ("sandbox", "appstudio.redhat.com/devsandbox", "Delete"),
        ("own", "example.com/nobody", "Retain"),
    ):
        scene.objects[name] = class_(name, provisioner, policy)
        scene.record.policies[name].add(policy)
    scene.put("claim", claim("box", "sandbox", "Bound"))
    scene.objects["claim"]["spec"]["targetName"] = "box-dt"
    place = {"target": {"deploymentTargetClaim": {"claimName": "box"}}}
    spec = {"displayName": "dev", "configuration": place}
    scene.put("app environment", thing("Environment", HOME, "dev", "u-dev") | {"spec": spec})
    scene.objects |= made_on_demand()
    scene.objects["project"]["spec"]["destinations"].append({"name": CLUSTER, "namespace": SPACE})
    scene.put("named", claim("named", "own", "Bound", "t0"))
    scene.put("target", target("t0", "own", "Bound", "named"))
    return scene


def change(name: str, edit: Callable[[Manifest], object]) -> Change:
    return lambda scene: edit(scene.objects[name]) and None


def gone(name: str) -> Change:
    return lambda scene: scene.objects.pop(name) and None


def told(scene: Scene) -> set[tuple[str, str]]:
    return {(each.sort, each.subject) for each in scene.judged()}


def test_claims_when_everything_is_as_it_must_be_then_nothing_is_told(scene: Scene) -> None:
    assert scene.judged() == []


CLAIM, TARGET = f"DeploymentTargetClaim {HOME}", f"DeploymentTarget {HOME}"
WRONG: dict[str, tuple[Change, tuple[str, str]]] = {
    "a claim that nobody has decided": (
        change("claim", lambda item: item["status"].update(phase=None) or True),
        ("status", f"{CLAIM}/box"),
    ),
    "a claim of the sandbox that waits": (
        change("claim", lambda item: item["status"].update(phase="Pending") or True),
        ("status", f"{CLAIM}/box"),
    ),
    "a claim that is not complete": (
        change("claim", lambda item: item["metadata"].update(annotations={}) or True),
        ("status", f"{CLAIM}/box"),
    ),
    "a claim whose target is gone": (gone("made"), ("status", f"{CLAIM}/box")),
    "a target that is gone": (gone("target"), ("lost", f"DeploymentTarget/{HOME}/t0")),
    "a claim that is gone": (gone("claim"), ("lost", f"DeploymentTargetClaim/{HOME}/box")),
    "a target of no claim": (gone("claim"), ("extra", f"{TARGET}/box-dt")),
    "a target of another class": (
        change("claim", lambda item: item["spec"].update(deploymentTargetClassName="own") or True),
        ("status", f"{CLAIM}/box"),
    ),
    "a target that does not say whose it is": (
        change("target", lambda item: item["spec"].pop("claimRef")),
        ("status", f"{CLAIM}/named"),
    ),
    "a target that says it is nobody's": (
        change("target", lambda item: item["status"].update(phase="Released") or True),
        ("status", f"{TARGET}/t0"),
    ),
    "no SpaceRequest": (gone("request"), ("missing", f"{TARGET}/box-dt")),
    "no SpaceRequest of a namespace": (gone("request"), ("extra", f"Namespace {SPACE}")),
    "another namespace": (
        change("made", lambda item: item["spec"]["kubernetesCredentials"].update(defaultNamespace="x") or True),
        ("differs", f"{TARGET}/box-dt"),
    ),
    "another namespace of the environment": (
        change("managed environment", lambda item: item["spec"].update(namespaces=["x"]) or True),
        ("differs", f"GitOpsDeploymentManagedEnvironment {HOME}/{MADE}"),
    ),
    "no environment": (gone("managed environment"), ("missing", f"Environment {HOME}/dev")),
    "no copy": (gone("copy"), ("missing", f"Environment {HOME}/dev")),
    "an old copy": (
        change("copy", lambda item: item.update(data=kubeconfig("old")) or True),
        ("differs", f"Environment {HOME}/dev"),
    ),
    "a copy of nothing": (gone("login"), ("extra", f"Secret {HOME}/managed-environment-secret-dev")),
    "an environment of nothing": (
        gone("app environment"),
        ("extra", f"GitOpsDeploymentManagedEnvironment {HOME}/{MADE}"),
    ),
    "an environment that has moved": (
        change("app environment", lambda item: item["spec"].pop("configuration")),
        ("extra", f"GitOpsDeploymentManagedEnvironment {HOME}/{MADE}"),
    ),
}


@pytest.mark.parametrize(("edit", "difference"), WRONG.values(), ids=WRONG)
def test_claims_when_something_is_wrong_then_it_is_told(
    scene: Scene, edit: Change, difference: tuple[str, str]
) -> None:
    edit(scene)
    assert difference in told(scene)


def test_claim_when_its_user_has_deleted_its_target_then_it_is_lost_and_says_so(scene: Scene) -> None:
    scene.remove("target")
    scene.objects["named"] |= {"status": claim("named", "own", "Lost", "t0", "it is gone")["status"]}
    assert scene.judged() == []
    scene.record.deleted.clear()
    assert ("status", f"{CLAIM}/named") in told(scene)


def test_target_when_its_claim_is_gone_then_it_is_released_or_deleted_as_its_class_says(scene: Scene) -> None:
    scene.remove("named")
    scene.objects["target"] = target("t0", "own", "Released")
    assert scene.judged() == []
    scene.record.policies["own"] = {"Delete"}
    assert told(scene) == {("extra", f"{TARGET}/t0")}
    scene.objects.pop("target")
    assert scene.judged() == []


def test_target_when_its_class_keeps_it_then_it_is_lost_without_its_claim(scene: Scene) -> None:
    scene.remove("named")
    scene.objects.pop("target")
    assert told(scene) == {("lost", f"DeploymentTarget/{HOME}/t0")}


def test_claims_when_two_want_a_target_then_one_has_it_and_the_other_says_so(scene: Scene) -> None:
    scene.put("rival", claim("rival", "own", "Pending", "t0", "it is already claimed"))
    assert scene.judged() == []
    scene.objects["rival"]["status"] = claim("rival", "own", "Bound", "t0")["status"]
    assert ("differs", f"target {HOME}/t0") in told(scene)


def test_claim_when_the_target_that_it_names_is_free_then_it_must_have_it(scene: Scene) -> None:
    scene.put("free", target("t1", "own", "Available"))
    scene.put("waiting", claim("waiting", "own", "Pending", "t1", "why"))
    assert told(scene) == {("status", f"{CLAIM}/waiting")}


def test_claim_when_a_target_is_kept_for_it_then_it_must_have_it_and_no_other(scene: Scene) -> None:
    scene.put("waiting", claim("waiting", "own", "Pending"))
    scene.put("others", target("t1", "own", "Available", "somebody"))
    assert scene.judged() == []
    scene.put("kept", target("t2", "own", "Available", "waiting"))
    assert told(scene) == {("status", f"{CLAIM}/waiting")}


def test_request_when_it_is_the_second_of_a_claim_then_it_is_extra(scene: Scene) -> None:
    second = thing("SpaceRequest", HOME, "box-2", "u-request-2")
    second["metadata"] |= {"labels": {"appstudio.openshift.io/dtc": "box"}, "annotations": {ANNOTATION: "sandbox"}}
    scene.objects["second"] = second
    assert told(scene) == {("extra", f"SpaceRequest {HOME}/box-2")}


def test_request_when_nothing_asks_for_it_then_it_is_extra(scene: Scene) -> None:
    left = thing("SpaceRequest", HOME, "left-1", "u-request-2")
    left["metadata"] |= {"labels": {"appstudio.openshift.io/dtc": "left"}, "annotations": {ANNOTATION: "sandbox"}}
    scene.objects["left"] = left
    assert told(scene) == {("extra", f"SpaceRequest {HOME}/left-1")}


def test_environment_when_its_claim_has_no_target_any_more_then_what_it_had_may_stay(scene: Scene) -> None:
    for name in ("login", "copy", "request", "space", "made", "cluster"):
        scene.objects.pop(name)
    scene.record.deleted.add(("DeploymentTarget", HOME, "box-dt"))
    scene.objects["claim"] = claim("box", "sandbox", "Lost", "box-dt", "it is gone")
    scene.objects["managed environment"]["status"]["conditions"] = [connection("SecretNotFound")]
    assert scene.judged() == []
    scene.remove("claim")
    assert told(scene) == {("status", f"Environment {HOME}/dev")}
