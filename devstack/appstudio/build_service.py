"""The build service: writes manifests of a binding's components, and into its status where they are.

It owns ``status.components`` and ``status.gitopsRepoConditions``, and touches nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from devstack.appstudio.gitops_repositories import GitOpsRepositories, Wanted
from devstack.appstudio.serving import serve_each
from services.common.kubernetes import KubeClient, Manifest, NotFound
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING

FIELD_MANAGER = "application-service"
READY = {"type": "GitOpsResourcesGenerated", "status": "True", "reason": "OK", "message": "written"}
FAILED = {"type": "GitOpsResourcesGenerated", "status": "False", "reason": "GenerateError", "message": "cannot push"}


@dataclass
class BuildService:
    """Serves the bindings of one namespace."""

    kube: KubeClient
    namespace: str
    repositories: GitOpsRepositories
    silent_about: set[str] = field(default_factory=set)
    """Components that it says nothing of."""
    failing: bool = False
    """It cannot write the repository, and says so."""

    async def run(self) -> None:
        """For ever."""
        await serve_each(self.kube, BINDING, self.namespace, self._serve)

    async def _serve(self, binding: Manifest) -> None:
        shown, wanted = binding.get("status") or {}, await self._status_of(binding["spec"])
        if wanted is None or all(shown.get(name) == part for name, part in wanted.items()):
            return
        name, version = binding["metadata"]["name"], binding["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "status": wanted}
        await self.kube.patch_object(
            BINDING, self.namespace, name, patch, field_manager=FIELD_MANAGER, subresource="status"
        )

    async def _status_of(self, spec: Manifest) -> Manifest | None:
        """What is to be said; None if the snapshot is not there."""
        try:
            snapshot = await self.kube.get_object(SNAPSHOT, self.namespace, spec["snapshot"])
        except NotFound:
            return None
        if self.failing:
            return {"gitopsRepoConditions": [self._condition(FAILED)]}
        images = {each["name"]: each["containerImage"] for each in snapshot["spec"].get("components") or ()}
        components = [each for each in spec["components"] if each["name"] not in self.silent_about]
        written = [await asyncio.to_thread(self._write, spec, each, images) for each in components]
        return {"components": written, "gitopsRepoConditions": [self._condition(READY)]}

    def _write(self, spec: Manifest, component: Manifest, images: dict[str, str]) -> Manifest:
        wanted = Wanted(
            tenant=self.namespace,
            application=spec["application"],
            environment=spec["environment"],
            component=component["name"],
            snapshot=spec["snapshot"],
            image=images.get(component["name"], ""),
            configuration=component.get("configuration") or {},
        )
        return {"name": component["name"], "gitopsRepository": self.repositories.write_component(wanted)}

    @staticmethod
    def _condition(content: dict[str, Any]) -> dict[str, Any]:
        """Always of one time: who writes the same twice is not heard twice."""
        return content | {"lastTransitionTime": "2026-01-01T00:00:00Z"}
