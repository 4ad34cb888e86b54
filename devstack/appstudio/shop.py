"""An application with components and environments, as its user has it: for tests, the demo and benchmarks."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from devstack.appstudio.build_service import BuildService
from devstack.appstudio.gitops_repositories import GitOpsRepositories
from devstack.appstudio.serving import played
from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import ApiResource, KubeClient, Manifest, NotFound
from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT
from services.kinds.environment.model import AUTOMATED, ENVIRONMENT, MANUAL
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING

NAME = "shop"
COMPONENTS = ("api", "web")
FIELD_MANAGER = "shop-user"
PROMOTED_SECONDS = 300.0
"""Where commits are not named anew a promotion takes a minute for each environment, whatever engines do."""


def image(component: str, snapshot: str) -> str:
    """What a snapshot has of a component."""
    return f"registry.example.com/{component}:{snapshot}"


@dataclass(frozen=True)
class Shop:
    """One namespace with one application."""

    kube: KubeClient
    namespace: str
    runs: Mirror
    bindings: Mirror
    build_service: BuildService
    components: Sequence[str] = COMPONENTS

    async def create(self, kind: ApiResource, name: str, spec: dict[str, Any]) -> Manifest:
        """Write a new resource."""
        meta = {"name": name, "namespace": self.namespace}
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
        return await self.kube.create_object(kind, manifest, field_manager=FIELD_MANAGER)

    async def open(self) -> None:
        """The application with its components, which belong to other services."""
        await self.create(APPLICATION, NAME, {"displayName": "Shop"})
        for component in self.components:
            await self.create(COMPONENT, component, {"application": NAME, "componentName": component})

    async def environment(self, name: str, strategy: str = MANUAL, parent: str = "", claim: str = "") -> None:
        """A place for the application; where a claim is named, what that is bound to."""
        spec: dict[str, Any] = {"displayName": name, "deploymentStrategy": strategy}
        if parent:
            spec["parentEnvironment"] = parent
        if claim:
            spec["configuration"] = {"target": {"deploymentTargetClaim": {"claimName": claim}}}
        await self.create(ENVIRONMENT, name, spec)

    async def environments(self, claim: str = "", to_dev: str = MANUAL) -> None:
        """One after the other: to staging what dev has goes by itself, to prod, which may be on a claim, by hand."""
        await self.environment("dev", to_dev)
        await self.environment("staging", AUTOMATED, "dev")
        await self.environment("prod", MANUAL, "staging", claim)

    async def snapshot(self, name: str) -> None:
        """Images of all components, which only this snapshot has."""
        images = [{"name": each, "containerImage": image(each, name)} for each in self.components]
        artifacts = {"unstableFields": {"made": {"by": "a test"}}}
        await self.create(SNAPSHOT, name, {"application": NAME, "components": images, "artifacts": artifacts})

    async def bind(self, name: str, environment: str, snapshot: str) -> None:
        """Deploy a snapshot to an environment, without a promotion."""
        components = [{"name": each} for each in self.components]
        where = {"application": NAME, "environment": environment}
        await self.create(BINDING, name, where | {"snapshot": snapshot, "components": components})

    async def promote(self, name: str, snapshot: str, **promotion: Any) -> None:
        """Ask for a promotion, manual or automated."""
        await self.create(PROMOTION_RUN, name, {"application": NAME, "snapshot": snapshot} | promotion)

    def status(self, run: str) -> dict[str, Any]:
        """Of a promotion, as last seen."""
        found: dict[str, Any] = self.runs.objects.get((self.namespace, run), {}).get("status", {})
        return found

    def steps(self, run: str) -> list[tuple[str, str]]:
        """The environments that a promotion has come to, and how it is there."""
        return [(each["environmentName"], each["status"]) for each in self.status(run).get("environmentStatus", ())]

    def displayed(self, run: str) -> str:
        """What a promotion says of its steps."""
        return " ".join(each["displayStatus"] for each in self.status(run).get("environmentStatus", ()))

    async def until_complete(self, run: str) -> str:
        """Wait until a promotion is over; returns its result."""
        await self.runs.until(
            f"{run} is complete; it is {self.status(run)}",
            lambda _: self.status(run).get("state") == "Complete",
            PROMOTED_SECONDS,
        )
        result: str = self.status(run)["completionResult"]
        return result

    def binding(self, environment: str) -> Manifest:
        """Of an environment; empty if it has none."""
        return next((each for each in self._bindings() if each["spec"]["environment"] == environment), {})

    async def touch_binding(self, environment: str) -> None:
        """Have whoever serves it look at it once more."""
        patch = {"metadata": {"annotations": {"example.com/looked-at": uuid.uuid4().hex}}}
        name = self.binding(environment)["metadata"]["name"]
        await self.kube.patch_object(BINDING, self.namespace, name, patch, field_manager=FIELD_MANAGER)

    def bound(self) -> dict[str, str]:
        """The snapshot of each environment."""
        return {each["spec"]["environment"]: each["spec"]["snapshot"] for each in self._bindings()}

    def _bindings(self) -> list[Manifest]:
        return [each for (where, _), each in self.bindings.objects.items() if where == self.namespace]

    async def close(self) -> None:
        """Delete what is deployed: it goes with its bindings."""
        for _, name in list(self.bindings.objects):
            with suppress(NotFound):
                await self.kube.delete_object(BINDING, self.namespace, name)


@asynccontextmanager
async def opened_shop(
    kube: KubeClient, namespace: str, repositories: GitOpsRepositories, components: Sequence[str] = COMPONENTS
) -> AsyncIterator[Shop]:
    """One that is open, with a build service that writes to ``repositories``."""
    async with mirrored(kube, PROMOTION_RUN, namespace) as runs, mirrored(kube, BINDING, namespace) as bindings:
        shop = Shop(kube, namespace, runs, bindings, BuildService(kube, namespace, repositories), components)
        await shop.open()
        async with played(shop.build_service):
            try:
                yield shop
            finally:
                await shop.close()
