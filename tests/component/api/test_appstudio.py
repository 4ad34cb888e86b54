"""What the API server refuses of the kinds of appstudio.redhat.com beyond the spec alone: changes, names, classes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.common.kubernetes import ApiResource, KubeClient, Manifest, Rejected
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM, MAX_CLAIM_NAME
from services.kinds.deployment_target_claim.model import NAME_MESSAGE as CLAIM_NAME_MESSAGE
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS, MAX_PARAMETERS, PARAMETER_MESSAGE
from services.kinds.environment.model import ENVIRONMENT, NAME_MESSAGE
from services.kinds.promotion_run.model import PROMOTION_RUN, SPEC_IMMUTABLE
from services.kinds.shared.text import MAX_COMPONENTS, MAX_LABEL, MAX_NAME
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from tests.component.api.appstudio_cases import IMAGE, NO_CHOICE
from tests.component.api.cases import GOOD, MISSING, TOO_LONG, TOO_MANY, merged

MANAGER = "tests"
ANOTHER_VALUE = "field cannot be updated to another value; create another"
OTHER_COMPONENTS = "components cannot be updated to other ones; create another Snapshot"
CART = {"name": "cart", "containerImage": IMAGE}


async def created(
    kube: KubeClient, namespace: str, resource: ApiResource, changes: Any = None, name: str = "it"
) -> Manifest:
    manifest = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": merged(GOOD[resource], changes or {}),
    }
    return await kube.create_object(resource, manifest, field_manager=MANAGER)


CHANGES = {
    "snapshot-application": (SNAPSHOT, {}, {"application": "other"}, f"application {ANOTHER_VALUE} Snapshot"),
    "snapshot-components-added": (SNAPSHOT, {}, {"components": [CART]}, OTHER_COMPONENTS),
    "snapshot-component-removed": (SNAPSHOT, {"components": [CART]}, {"components": []}, OTHER_COMPONENTS),
    "snapshot-components-left-out": (SNAPSHOT, {"components": [CART]}, {"components": None}, OTHER_COMPONENTS),
    "snapshot-image": (
        SNAPSHOT,
        {"components": [CART]},
        {"components": [CART | {"containerImage": "other"}]},
        OTHER_COMPONENTS,
    ),
    "binding-application": (BINDING, {}, {"application": "other"}, f"application {ANOTHER_VALUE} {BINDING.kind}"),
    "binding-environment": (BINDING, {}, {"environment": "other"}, f"environment {ANOTHER_VALUE} {BINDING.kind}"),
    "promotion-snapshot": (PROMOTION_RUN, {}, {"snapshot": "other"}, SPEC_IMMUTABLE),
    "promotion-environment": (
        PROMOTION_RUN,
        {},
        {"manualPromotion": {"targetEnvironment": "production"}},
        SPEC_IMMUTABLE,
    ),
    "promotion-turned-automated": (
        PROMOTION_RUN,
        {},
        {"manualPromotion": None, "automatedPromotion": {"initialEnvironment": "staging"}},
        SPEC_IMMUTABLE,
    ),
}


@pytest.mark.parametrize(("resource", "before", "change", "message"), CHANGES.values(), ids=CHANGES)
async def test_resource_when_what_it_stands_for_would_change_then_the_api_server_refuses(
    kube: KubeClient, namespace: str, resource: ApiResource, before: Any, change: Any, message: str
) -> None:
    stored = await created(kube, namespace, resource, before)
    with pytest.raises(Rejected) as refusal:
        await kube.patch_object(resource, namespace, "it", {"spec": change}, field_manager=MANAGER)
    assert message in str(refusal.value)
    assert (await kube.get_object(resource, namespace, "it"))["spec"] == stored["spec"]


PERMITTED = {
    "snapshot-name-shown": (SNAPSHOT, {"components": [CART]}, {"displayName": "Shop"}),
    "snapshot-components-empty": (SNAPSHOT, {}, {"components": []}),
    "snapshot-artifacts": (SNAPSHOT, {}, {"artifacts": {"unstableFields": {"by": "a test"}}}),
    "binding-snapshot": (BINDING, {}, {"snapshot": "two"}),
    "binding-components": (BINDING, {}, {"components": [{"name": "cart"}]}),
    "promotion-unchanged": (PROMOTION_RUN, {}, {}),
}


@pytest.mark.parametrize(("resource", "before", "change"), PERMITTED.values(), ids=PERMITTED)
async def test_resource_when_something_else_changes_then_the_api_server_accepts(
    kube: KubeClient, namespace: str, resource: ApiResource, before: Any, change: Any
) -> None:
    await created(kube, namespace, resource, before)
    patch = {"metadata": {"labels": {"team": "a"}}, "spec": change}
    changed = await kube.patch_object(resource, namespace, "it", patch, field_manager=MANAGER)
    assert merged(changed["spec"], change) == changed["spec"]


async def test_snapshot_when_it_is_as_large_as_it_may_be_then_comparing_it_is_not_too_expensive(
    kube: KubeClient, namespace: str
) -> None:
    git = {"url": "https://git.example.com/".ljust(512, "a"), "revision": "r" * 40, "context": "c" * 256}
    component = {"name": "n" * MAX_LABEL, "containerImage": "i" * 1024, "source": {"git": git}}
    await created(kube, namespace, SNAPSHOT, {"components": [component] * MAX_COMPONENTS})
    patch = {"metadata": {"labels": {"team": "a"}}, "spec": {"displayName": "Shop"}}
    changed = await kube.patch_object(SNAPSHOT, namespace, "it", patch, field_manager=MANAGER)
    assert changed["spec"]["displayName"] == "Shop"


NAMES = {
    "environment-longest": (ENVIRONMENT, "e" * MAX_LABEL, ""),
    "environment-too-long": (ENVIRONMENT, "e" * (MAX_LABEL + 1), NAME_MESSAGE),
    "environment-with-a-dot": (ENVIRONMENT, "staging.eu", NAME_MESSAGE),
    "claim-longest": (DEPLOYMENT_TARGET_CLAIM, "c" * MAX_CLAIM_NAME, ""),
    "claim-too-long": (DEPLOYMENT_TARGET_CLAIM, "c" * (MAX_CLAIM_NAME + 1), CLAIM_NAME_MESSAGE),
    "snapshot-longest": (SNAPSHOT, "s" * MAX_NAME, ""),
    "binding-longest": (BINDING, "b" * MAX_NAME, ""),
}


@pytest.mark.parametrize(("resource", "name", "message"), NAMES.values(), ids=NAMES)
async def test_name_when_it_is_at_the_limit_then_it_is_taken_and_beyond_it_refused_with_the_reason(
    kube: KubeClient, namespace: str, resource: ApiResource, name: str, message: str
) -> None:
    if not message:
        assert (await created(kube, namespace, resource, name=name))["metadata"]["name"] == name
        return
    with pytest.raises(Rejected) as refusal:
        await created(kube, namespace, resource, name=name)
    assert message in str(refusal.value)


@pytest.fixture
async def class_name(kube: KubeClient) -> AsyncIterator[str]:
    """Of a class that is gone after the test: classes belong to no namespace that goes."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    await kube.delete_object(DEPLOYMENT_TARGET_CLASS, None, name)


def deployment_target_class(name: str, changes: Any) -> Manifest:
    good = {"provisioner": "appstudio.redhat.com/devsandbox", "reclaimPolicy": "Delete"}
    return {
        "apiVersion": DEPLOYMENT_TARGET_CLASS.api_version,
        "kind": DEPLOYMENT_TARGET_CLASS.kind,
        "metadata": {"name": name},
        "spec": merged(good, changes),
    }


CLASSES = {
    "least": {},
    "retain": {"reclaimPolicy": "Retain"},
    "parameters-at-the-limit": {"parameters": {f"{n:0{MAX_LABEL}}": "v" * 1024 for n in range(MAX_PARAMETERS)}},
}


@pytest.mark.parametrize("changes", CLASSES.values(), ids=CLASSES)
async def test_class_when_it_is_right_then_it_is_stored_in_no_namespace_and_has_no_status(
    kube: KubeClient, class_name: str, changes: Any
) -> None:
    manifest = deployment_target_class(class_name, changes) | {"status": {"phase": "Bound"}}
    stored = await kube.create_object(DEPLOYMENT_TARGET_CLASS, manifest, field_manager=MANAGER)
    assert stored["spec"] == manifest["spec"]
    assert "namespace" not in stored["metadata"]
    assert "status" not in stored


WRONG_CLASSES = {
    "provisioner-missing": ({"provisioner": None}, MISSING),
    "provisioner-oversized": ({"provisioner": "p" * (MAX_NAME + 1)}, TOO_LONG),
    "policy-missing": ({"reclaimPolicy": None}, MISSING),
    "policy-unknown": ({"reclaimPolicy": "Recycle"}, NO_CHOICE),
    "parameters-too-many": ({"parameters": {f"p{n}": "v" for n in range(MAX_PARAMETERS + 1)}}, TOO_MANY),
    "parameter-oversized": ({"parameters": {"p": "v" * 1025}}, TOO_LONG),
    "parameter-name-oversized": ({"parameters": {"p" * (MAX_LABEL + 1): "v"}}, PARAMETER_MESSAGE),
}


@pytest.mark.parametrize(("changes", "message"), WRONG_CLASSES.values(), ids=WRONG_CLASSES)
async def test_class_when_it_cannot_be_right_then_the_api_server_refuses_with_the_reason(
    kube: KubeClient, changes: Any, message: str
) -> None:
    with pytest.raises(Rejected) as refusal:
        await kube.create_object(
            DEPLOYMENT_TARGET_CLASS, deployment_target_class("wrong", changes), field_manager=MANAGER
        )
    assert message in str(refusal.value)


FOREIGN = {"type": "Tested", "status": "True", "reason": "Passed", "message": "all passed", "observedGeneration": 3}


async def test_status_when_the_build_service_writes_its_members_then_the_api_server_keeps_every_field(
    kube: KubeClient, namespace: str
) -> None:
    repository = {"url": "https://git.example.com/gitops", "branch": "main", "path": "components/cart/overlays/staging"}
    repository |= {"generatedResources": ["deployment-patch.yaml"], "commitID": "0" * 40}
    component = {"name": "cart", "generatedRouteName": "cart-staging", "gitopsRepository": repository}
    written = {"components": [component], "gitopsRepoConditions": [FOREIGN]}
    await created(kube, namespace, BINDING)
    changed = await kube.patch_object(
        BINDING, namespace, "it", {"status": written}, field_manager=MANAGER, subresource="status"
    )
    assert changed["status"] == written


async def test_status_when_others_write_that_of_a_snapshot_then_the_api_server_keeps_every_field(
    kube: KubeClient, namespace: str
) -> None:
    await created(kube, namespace, SNAPSHOT)
    patch = {"status": {"conditions": [FOREIGN]}}
    changed = await kube.patch_object(SNAPSHOT, namespace, "it", patch, field_manager=MANAGER, subresource="status")
    assert changed["status"] == patch["status"]
