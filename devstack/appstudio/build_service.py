"""The build service: writes manifests of a binding's components, and into its status where they are.

It pushes a commit for each component, in the order of the spec, and names that, once: where it finds a component in the
status already it pushes all the same, and leaves what is said of it.

It owns ``status.components`` and ``status.gitopsRepoConditions``, and touches nothing else.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from devstack.appstudio.gitops_repositories import GitOpsRepositories, Wanted
from devstack.appstudio.serving import serve_each
from services.common.kubernetes import Conflict, KubeClient, Manifest, NotFound
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
    down: bool = False
    """It does nothing, and says nothing."""

    async def run(self) -> None:
        """For ever."""
        await serve_each(self.kube, BINDING, self.namespace, self._serve)

    async def _serve(self, binding: Manifest) -> None:
        """Until it has said what it has pushed: no other is served before, so commits are named in their order.

        The binding is read anew: an event of before it had another snapshot would have the former one pushed again.
        """
        name = binding["metadata"]["name"]
        while not self.down:
            with suppress(Conflict):  # somebody has written another part of it meanwhile
                await self._answer(await self.kube.get_object(BINDING, self.namespace, name))
                return

    async def _answer(self, binding: Manifest) -> None:
        shown = binding.get("status") or {}
        wanted = await self._status_of(binding["spec"], shown)
        if wanted is None or all(shown.get(name) == part for name, part in wanted.items()):
            return
        name, version = binding["metadata"]["name"], binding["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "status": wanted}
        await self.kube.patch_object(
            BINDING, self.namespace, name, patch, field_manager=FIELD_MANAGER, subresource="status"
        )

    async def _status_of(self, spec: Manifest, shown: Manifest) -> Manifest | None:
        """What is to be said; None if the snapshot is not there.

        Components are served in the order of the spec. Where one is that the status has already is not said again.
        """
        try:
            snapshot = await self.kube.get_object(SNAPSHOT, self.namespace, spec["snapshot"])
        except NotFound:
            return None
        if self.failing:
            return {"gitopsRepoConditions": [self._condition(FAILED)]}
        images = {each["name"]: each["containerImage"] for each in snapshot["spec"].get("components") or ()}
        components = [each for each in spec["components"] if each["name"] not in self.silent_about]
        wanted = [self._wanted(spec, each, images) for each in components]
        written = await asyncio.to_thread(self.repositories.write_components, wanted)
        now = {each.component: where for each, where in zip(wanted, written, strict=True)}
        before = {} if self.repositories.names_anew else {each["name"]: each for each in shown.get("components") or ()}
        said = [before.get(name) or {"name": name, "gitopsRepository": where} for name, where in now.items()]
        return {"components": said, "gitopsRepoConditions": [self._condition(READY)]}

    def _wanted(self, spec: Manifest, component: Manifest, images: dict[str, str]) -> Wanted:
        return Wanted(
            tenant=self.namespace,
            application=spec["application"],
            environment=spec["environment"],
            component=component["name"],
            snapshot=spec["snapshot"],
            image=images.get(component["name"], ""),
            configuration=component.get("configuration") or {},
        )

    @staticmethod
    def _condition(content: dict[str, Any]) -> dict[str, Any]:
        """Always of one time: who writes the same twice is not heard twice."""
        return content | {"lastTransitionTime": "2026-01-01T00:00:00Z"}
