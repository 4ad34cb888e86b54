"""The real API server, with nothing of ours in the path, refuses what the webhooks before it refused, and more."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from services.common.kubernetes import NAMESPACE, KubeClient, Manifest, NamespaceTerminating, Rejected
from services.common.kubernetes.builtin_kinds import ApiResource
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.shared.api_group import FINALIZER
from services.kinds.sync_run.model import DEPLOYMENT_NAME_IMMUTABLE, REVISION_IMMUTABLE, SYNC_RUN
from tests.component.api.appstudio_cases import APPSTUDIO_CASES
from tests.component.api.cases import CASES, GOOD, Case, merged

MANAGER = "tests"
ACCEPTED, REFUSED = ([case for case in CASES + APPSTUDIO_CASES if bool(case.message) is it] for it in (False, True))


def _manifest(resource: ApiResource, namespace: str, spec: Any) -> Manifest:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "it", "namespace": namespace},
        "spec": spec,
    }


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
async def test_api_server_when_a_spec_may_be_right_then_it_stores_it(
    kube: KubeClient, namespace: str, case: Case
) -> None:
    stored = await kube.create_object(
        case.resource, _manifest(case.resource, namespace, case.spec), field_manager=MANAGER
    )
    assert merged(stored["spec"], case.spec) == stored["spec"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_api_server_when_a_spec_cannot_be_right_then_it_refuses_with_the_reason(
    kube: KubeClient, namespace: str, case: Case
) -> None:
    with pytest.raises(Rejected) as refusal:
        await kube.create_object(case.resource, _manifest(case.resource, namespace, case.spec), field_manager=MANAGER)
    assert case.message in str(refusal.value)


@pytest.mark.parametrize("resource", GOOD, ids=lambda resource: resource.kind)
@pytest.mark.parametrize("spec", [None, [], "spec", {}], ids=repr)
async def test_api_server_when_there_is_no_spec_then_it_refuses(
    kube: KubeClient, namespace: str, resource: ApiResource, spec: Any
) -> None:
    with pytest.raises(Rejected, match="spec"):
        await kube.create_object(resource, _manifest(resource, namespace, spec), field_manager=MANAGER)


@pytest.mark.parametrize("resource", GOOD, ids=lambda resource: resource.kind)
async def test_api_server_when_a_field_is_unknown_then_it_is_not_stored(
    kube: KubeClient, namespace: str, resource: ApiResource
) -> None:
    spec = deepcopy(GOOD[resource]) | {"project": "default", "server": {"deep": ["x"]}}
    stored = await kube.create_object(resource, _manifest(resource, namespace, spec), field_manager=MANAGER)
    assert not {"project", "server"} & stored["spec"].keys()


async def test_api_server_when_an_environment_leaves_choices_out_then_it_stores_the_safe_ones(
    kube: KubeClient, namespace: str
) -> None:
    manifest = _manifest(MANAGED_ENVIRONMENT, namespace, GOOD[MANAGED_ENVIRONMENT])
    stored = await kube.create_object(MANAGED_ENVIRONMENT, manifest, field_manager=MANAGER)
    assert (stored["spec"]["createNewServiceAccount"], stored["spec"]["clusterResources"]) == (False, False)


@pytest.mark.parametrize(
    ("before", "change", "message"),
    [
        pytest.param({}, {"gitopsDeploymentName": "api"}, DEPLOYMENT_NAME_IMMUTABLE, id="name"),
        pytest.param({}, {"gitopsDeploymentName": "Web"}, DEPLOYMENT_NAME_IMMUTABLE, id="name-in-other-case"),
        pytest.param({}, {"gitopsDeploymentName": None}, "Required value", id="name-removed"),
        pytest.param({}, {"revisionID": "v2"}, REVISION_IMMUTABLE, id="revision-added"),
        pytest.param({"revisionID": "v1"}, {"revisionID": "v2"}, REVISION_IMMUTABLE, id="revision-changed"),
        pytest.param({"revisionID": "v1"}, {"revisionID": None}, REVISION_IMMUTABLE, id="revision-removed"),
        pytest.param({"revisionID": "v1"}, {"revisionID": ""}, REVISION_IMMUTABLE, id="revision-emptied"),
    ],
)
async def test_sync_run_when_what_it_runs_would_change_then_the_api_server_refuses_with_the_documented_message(
    kube: KubeClient, namespace: str, before: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    manifest = _manifest(SYNC_RUN, namespace, GOOD[SYNC_RUN] | before)
    await kube.create_object(SYNC_RUN, manifest, field_manager=MANAGER)
    with pytest.raises(Rejected) as refusal:
        await kube.patch_object(SYNC_RUN, namespace, "it", {"spec": change}, field_manager=MANAGER)
    assert message in str(refusal.value)


@pytest.mark.parametrize("spec", [{"revisionID": ""}, {"gitopsDeploymentName": "web"}], ids=repr)
async def test_sync_run_when_it_is_applied_again_then_the_api_server_accepts(
    kube: KubeClient, namespace: str, spec: dict[str, Any]
) -> None:
    await kube.create_object(SYNC_RUN, _manifest(SYNC_RUN, namespace, GOOD[SYNC_RUN]), field_manager=MANAGER)
    patch = {"metadata": {"labels": {"team": "a"}}, "spec": spec}
    changed = await kube.patch_object(SYNC_RUN, namespace, "it", patch, field_manager=MANAGER)
    assert changed["metadata"]["labels"] == {"team": "a"}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_update_when_it_makes_a_good_object_wrong_then_the_api_server_refuses(
    kube: KubeClient, namespace: str, case: Case
) -> None:
    good = _manifest(case.resource, namespace, GOOD[case.resource])
    stored = await kube.create_object(case.resource, good, field_manager=MANAGER)
    replaced = [{"op": "replace", "path": "/spec", "value": case.spec}]
    with pytest.raises(Rejected):
        await kube.patch_object(case.resource, namespace, "it", replaced, field_manager=MANAGER)
    assert (await kube.get_object(case.resource, namespace, "it"))["spec"] == stored["spec"]


async def test_namespace_when_it_is_being_deleted_then_the_api_server_lets_nothing_new_in(
    kube: KubeClient, namespace: str
) -> None:
    staying = _manifest(GITOPS_DEPLOYMENT, namespace, GOOD[GITOPS_DEPLOYMENT])
    staying["metadata"] |= {"name": "staying", "finalizers": [FINALIZER]}
    await kube.create_object(GITOPS_DEPLOYMENT, staying, field_manager=MANAGER)
    await kube.delete_object(NAMESPACE, None, namespace)
    late = _manifest(GITOPS_DEPLOYMENT, namespace, GOOD[GITOPS_DEPLOYMENT])
    with pytest.raises(NamespaceTerminating, match="being terminated"):
        await kube.create_object(GITOPS_DEPLOYMENT, late, field_manager=MANAGER)
    released = {"metadata": {"finalizers": None}}
    await kube.patch_object(GITOPS_DEPLOYMENT, namespace, "staying", released, field_manager=MANAGER)
