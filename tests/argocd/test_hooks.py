"""Hooks of a repository that Argo CD would run when an Application goes, with its own rights and wherever they say."""

from __future__ import annotations

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.mirror import Objects
from services.common.kubernetes import Manifest
from tests.argocd.deployed import HEALTHY, JOB, Deployed
from tests.argocd.sources import Sources, config_map
from tests.e2e.tenant import Tenant, application_name, find

POST_DELETE = {"argocd.argoproj.io/hook": "PostDelete"}


def job(name: str, place: str) -> Manifest:
    """A hook that runs a program there."""
    container = {"name": "taken", "image": "evil"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": place, "annotations": POST_DELETE},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def jobs(deployed: Deployed, place: str) -> list[str]:
    """Names of all that are in a namespace."""
    return [found["metadata"]["name"] async for page in deployed.kube.list_pages(JOB, place) for found in page.items]


async def test_repository_when_it_has_hooks_for_the_end_then_nothing_is_created_when_its_deployment_goes(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    places = [tenant.namespace, *ENGINE_NAMESPACES]
    hooks = [job(f"hook-{number}-{tenant.namespace}", place) for number, place in enumerate(places)]
    created = await tenant.create(source=source(config_map("first"), *hooks).spec())
    await tenant.until_status("deployed", **HEALTHY)

    def waits_for_hooks(objects: Objects) -> bool:
        application = find(objects, application_name(created)) or {}
        return any("post-delete" in each for each in application.get("metadata", {}).get("finalizers", ()))

    await tenant.applications.until("Argo CD has seen the hooks", waits_for_hooks)
    await tenant.delete()
    await tenant.until_application_gone(created)
    assert deployed.value(tenant.namespace) is None
    made = [name for place in places for name in await jobs(deployed, place)]
    assert [hook for hook in hooks if hook["metadata"]["name"] in made] == []
