"""AppStudio's build service: says in the status of each binding where the manifests of its components are.

They are where those of deployments are, at a commit that does not change: of which snapshot it speaks its words tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from chaos.api import BINDING
from chaos.plan.random_operations import STEADY_PATH
from services.common.errors import Retry
from services.common.kubernetes import Conflict, KubeClient, Manifest, NotFound

FIELD_MANAGER = "application-service"
BRANCH = "main"
LOOK_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class BuildService:
    """Of tenants whose namespaces begin with ``prefix``."""

    kube: KubeClient
    prefix: str
    repository: str
    """URL, with ``{namespace}`` for the tenant's."""
    commit_of: Callable[[str], str]
    """What ``BRANCH`` of a repository is at, by its URL."""

    async def run(self) -> None:
        """For ever, whatever becomes of the API server."""
        while True:
            try:
                async for page in self.kube.list_pages(BINDING):
                    for binding in page.items:
                        await self._serve(binding)
            except (Retry, NotFound):  # no custom resource is known yet
                pass
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _serve(self, binding: Manifest) -> None:
        meta, components = binding["metadata"], self._components(binding)
        if (
            not meta["namespace"].startswith(self.prefix)
            or (binding.get("status") or {}).get("components") == components
        ):
            return
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"components": components}}
        try:
            await self.kube.patch_object(
                BINDING, meta["namespace"], meta["name"], patch, field_manager=FIELD_MANAGER, subresource="status"
            )
        except Conflict:  # the next look sees why
            return

    def _components(self, binding: Manifest) -> list[Manifest]:
        spec = binding["spec"]
        url = self.repository.format(namespace=binding["metadata"]["namespace"])
        return [
            {
                "name": each["name"],
                "gitopsRepository": {
                    "url": url,
                    "branch": BRANCH,
                    "path": STEADY_PATH,
                    "generatedResources": [f"{spec['snapshot']}.yaml"],
                    "commitID": self.commit_of(url),
                },
            }
            for each in spec["components"]
        ]
