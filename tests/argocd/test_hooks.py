"""Hooks of a repository that Argo CD would run when an Application goes, with its own rights and wherever they say."""

from __future__ import annotations

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.mirror import Objects
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import Sources, config_map
from tests.e2e.tenant import Tenant, application_name, find

POST_DELETE = {"argocd.argoproj.io/hook": "PostDelete"}


async def test_repository_when_it_has_hooks_for_the_end_then_nothing_is_created_when_its_deployment_goes(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    places = [tenant.namespace, *ENGINE_NAMESPACES]
    hooks = {
        place: config_map("by a hook", f"hook-{number}-{tenant.namespace}", namespace=place, annotations=POST_DELETE)
        for number, place in enumerate(places)
    }
    created = await tenant.create(source=source(config_map("first"), *hooks.values()).spec())
    await tenant.until_status("deployed", **HEALTHY)

    def waits_for_hooks(objects: Objects) -> bool:
        application = find(objects, application_name(created)) or {}
        return any("post-delete" in each for each in application.get("metadata", {}).get("finalizers", ()))

    await tenant.applications.until("Argo CD has seen the hooks", waits_for_hooks)
    await tenant.delete()
    await tenant.until_application_gone(created)
    assert deployed.value(tenant.namespace) is None
    assert [place for place, hook in hooks.items() if deployed.value(place, hook["metadata"]["name"])] == []
