"""The checker sees that previews go when they are over, with their claims and bindings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from services.common.kubernetes import Manifest
from tests.unit.chaos.scene import HOME, Scene, settled, thing

OVER_AT = "2026-01-01T00:00:10+00:00"
AFTER = datetime(2026, 1, 1, 0, 0, 11, tzinfo=UTC)


def preview() -> dict[str, Manifest]:
    """The Environment, claim and binding of one."""
    environment = thing("Environment", HOME, "v1", "u-v1")
    environment["metadata"]["annotations"] = {"appstudio.openshift.io/expires-at": OVER_AT}
    place = {"target": {"deploymentTargetClaim": {"claimName": "v1"}}}
    binding = thing("SnapshotEnvironmentBinding", HOME, "v1", "u-binding")
    binding["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"application": "shop", "environment": "v1", "snapshot": "one", "components": []}
    reason = {"type": "Reconciled", "status": "False", "reason": "ErrorGeneratingGitOpsDeployment"}
    annotations = {"provisioner.appstudio.redhat.com/dt-provisioner": "own"}
    claim = thing("DeploymentTargetClaim", HOME, "v1", "u-claim")
    claim["metadata"]["annotations"] = annotations
    return {
        "environment v1": environment | {"spec": {"displayName": "v1", "configuration": place}},
        "claim v1": claim | {"spec": {"deploymentTargetClassName": "own"}, "status": {"phase": "Pending"}},
        "binding v1": binding | {"spec": spec, "status": {"bindingConditions": [reason]}},
    }


@pytest.fixture
def scene() -> Scene:
    """What is settled, and a preview whose claim waits."""
    scene = settled()
    for name, item in preview().items():
        scene.put(name, item)
    return scene


def told(scene: Scene) -> set[tuple[str, str]]:
    return {(each.sort, each.subject) for each in scene.judged()}


def test_preview_when_it_will_be_over_then_it_is_waited_for(scene: Scene) -> None:
    kinds = ("DeploymentTargetClaim", "Environment", "SnapshotEnvironmentBinding")
    assert told(scene) == {("status", f"{kind} {HOME}/v1") for kind in kinds}


def test_preview_when_it_is_over_then_nothing_of_it_may_be_there(scene: Scene) -> None:
    scene.read_at = AFTER
    for name in preview():
        subject = f"{scene.objects[name]['kind']} {HOME}/v1"
        assert ("extra", subject) in told(scene)
        scene.objects.pop(name)
    assert scene.judged() == []


def test_preview_when_its_time_was_taken_back_then_it_is_lost_without_it(scene: Scene) -> None:
    scene.record.present["Environment", HOME, "v1"]["metadata"]["annotations"] = {}
    for name in preview():
        scene.objects.pop(name)
    assert {sort for sort, _ in told(scene)} == {"lost"}
