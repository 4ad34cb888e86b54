"""Status objects of the real API server are those that unit tests decide by."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from services.common.kubernetes import NAMESPACE, SECRET, ApiResource, KubeClient, Manifest, NotFound
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER
from tests.component.api.cases import GOOD
from tests.unit.common.kubernetes import statuses

NO_SUCH_VERSION = ApiResource(GITOPS_DEPLOYMENT.group, "v9", "GitOpsDeployment", "gitopsdeployments")
NO_SUCH_KIND = ApiResource("", "v1", "Gadget", "gadgets")
NO_SUCH_GROUP = ApiResource("gadgets.example.com", "v1", "Gadget", "gadgets")


async def answer(kube: KubeClient, method: str, path: str, body: Manifest | None = None) -> bytes:
    async with kube._request(method, path, body=body) as response:
        return await response.read()


def as_recorded(text: bytes, namespace: str) -> Any:
    return orjson.loads(text.replace(namespace.encode(), b"team-a"))


GONE = {
    "secret": (SECRET, "kube", statuses.SECRET_GONE),
    "custom": (GITOPS_DEPLOYMENT, "web", statuses.CUSTOM_RESOURCE_GONE),
}


@pytest.mark.parametrize(("resource", "name", "recorded"), GONE.values(), ids=GONE)
async def test_object_when_it_is_not_there_then_the_status_names_it(
    kube: KubeClient, namespace: str, resource: ApiResource, name: str, recorded: bytes
) -> None:
    path = resource.path(namespace, name)
    assert as_recorded(await answer(kube, "GET", path), namespace) == orjson.loads(recorded)


NOT_SERVED = {
    "version": (NO_SUCH_VERSION, statuses.NOT_FOUND_PAGE),
    "kind": (NO_SUCH_KIND, statuses.KIND_NOT_SERVED),
    "group": (NO_SUCH_GROUP, statuses.NOT_FOUND_PAGE),
}


@pytest.mark.parametrize(("resource", "recorded"), NOT_SERVED.values(), ids=NOT_SERVED)
async def test_kind_when_it_is_not_served_then_that_is_not_taken_for_an_object_that_is_gone(
    kube: KubeClient, namespace: str, resource: ApiResource, recorded: bytes
) -> None:
    assert await answer(kube, "GET", resource.path(namespace, "web")) == recorded
    with pytest.raises(NotFound) as missing:
        await kube.get_object(resource, namespace, "web")
    assert not missing.value.is_of(resource.plural, "web")


async def test_namespace_when_it_is_being_deleted_then_the_status_has_that_as_its_cause(
    kube: KubeClient, namespace: str
) -> None:
    def deployment(name: str, *finalizers: str) -> Manifest:
        meta = {"name": name, "namespace": namespace, "finalizers": list(finalizers)}
        spec = GOOD[GITOPS_DEPLOYMENT]
        return {
            "apiVersion": GITOPS_DEPLOYMENT.api_version,
            "kind": GITOPS_DEPLOYMENT.kind,
            "metadata": meta,
            "spec": spec,
        }

    await kube.create_object(GITOPS_DEPLOYMENT, deployment("staying", FINALIZER), field_manager="tests")
    await kube.delete_object(NAMESPACE, None, namespace)
    refused = await answer(kube, "POST", GITOPS_DEPLOYMENT.path(namespace), deployment("web"))
    assert as_recorded(refused, namespace) == orjson.loads(statuses.NAMESPACE_TERMINATING)
    released = {"metadata": {"finalizers": None}}
    await kube.patch_object(GITOPS_DEPLOYMENT, namespace, "staying", released, field_manager="tests")
