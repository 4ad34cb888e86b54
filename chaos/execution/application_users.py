"""What users do with AppStudio's kinds, and an operator with DeploymentTargetClasses, as calls to the API server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from chaos.api import (
    APP,
    APP_ENVIRONMENT,
    BINDING,
    CLAIM,
    COMPONENT,
    EXPIRES_AT,
    NOBODY,
    PROMOTION_RUN,
    SANDBOX,
    SNAPSHOT,
    TARGET,
    TARGET_CLASS,
)
from chaos.execution.api_calls import ApiCalls
from chaos.execution.surroundings import KUBECONFIG, Surroundings
from chaos.execution.writes import Writes, resource_of
from chaos.plan.operations import (
    Promote,
    PutAppEnvironment,
    PutBinding,
    PutClaim,
    PutClass,
    PutPreview,
    PutSnapshot,
    PutTarget,
    UserOperation,
)
from chaos.plan.random_applications import COMPONENTS, MADE_ON_DEMAND, POLICIES
from chaos.plan.random_operations import WEB
from chaos.record import Record
from services.common.errors import Permanent
from services.common.kubernetes import Manifest

SHOP = "shop"
"""The application of each tenant."""
ANOTHER = "another"
"""One that nobody has."""
Act = Callable[[Any], Awaitable[None]]


class ApplicationUsers:
    """Of all tenants."""

    def __init__(self, calls: ApiCalls, around: Surroundings, record: Record) -> None:
        self._calls, self._around, self._record = calls, around, record
        self._writes = Writes(calls, record)

    @property
    def acts(self) -> Mapping[type[UserOperation], Act]:
        """What each operation comes to."""
        return {
            PutAppEnvironment: self._put_environment,
            PutSnapshot: self._put_snapshot,
            PutBinding: self._put_binding,
            Promote: self._promote,
            PutClass: self._put_class,
            PutTarget: self._put_target,
            PutClaim: self._put_claim,
            PutPreview: self._put_preview,
        }

    async def make_classes(self) -> None:
        """As operators do before anybody uses them."""
        for name, policy in POLICIES.items():
            await self._calls.create(TARGET_CLASS, self._class(name, policy))

    async def make_application(self, namespace: str) -> None:
        """The one that each tenant has, with its components."""
        await self._calls.create(APP, resource_of(APP, namespace, SHOP, {"displayName": SHOP}))
        for component in COMPONENTS:
            spec = {"application": SHOP, "componentName": component}
            await self._calls.create(COMPONENT, resource_of(COMPONENT, namespace, component, spec))

    async def _put_environment(self, wanted: PutAppEnvironment) -> None:
        """Make or change an Environment."""
        strategy = {"deploymentStrategy": "AppStudioAutomated" if wanted.parent else "Manual"}
        spec: Manifest = {"displayName": wanted.name} | strategy
        if wanted.parent:
            spec["parentEnvironment"] = wanted.parent
        if wanted.claim:
            spec["configuration"] = {"target": {"deploymentTargetClaim": {"claimName": wanted.claim}}}
        manifest = resource_of(APP_ENVIRONMENT, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._writes.put(APP_ENVIRONMENT, manifest, "spec", afresh=wanted.afresh)

    async def _put_preview(self, wanted: PutPreview) -> None:
        """Make a claim, an Environment and a binding, then say when they are over: later than they were made."""
        tenant, name = wanted.tenant, wanted.name
        await self._put_claim(PutClaim(tenant, name, wanted.class_name))
        await self._put_environment(PutAppEnvironment(tenant, name, claim=name))
        await self._put_binding(PutBinding(tenant, name, name, wanted.snapshot, wanted.components))
        stored = self._record.present[APP_ENVIRONMENT.kind, self._around.namespace(tenant), name]
        created_at = datetime.fromisoformat(stored["metadata"]["creationTimestamp"])
        over_at = (created_at + timedelta(seconds=wanted.seconds)).isoformat()
        patch = {"metadata": {"annotations": {EXPIRES_AT: over_at}}}
        changed = await self._calls.merge(APP_ENVIRONMENT, stored["metadata"]["namespace"], name, patch)
        if changed is None:
            raise Permanent(f"Environment {stored['metadata']['namespace']}/{name} went before it was over")
        self._record.acknowledge(changed)

    async def _put_snapshot(self, wanted: PutSnapshot) -> None:
        """Make a Snapshot."""
        images = [{"name": each, "containerImage": f"{each}:{wanted.name}"} for each in COMPONENTS]
        spec = {"application": ANOTHER if wanted.is_foreign else SHOP, "components": images}
        manifest = resource_of(SNAPSHOT, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._writes.put(SNAPSHOT, manifest, "spec")

    async def _put_binding(self, wanted: PutBinding) -> None:
        """Make or change a SnapshotEnvironmentBinding."""
        spec = {"application": SHOP, "environment": wanted.environment, "snapshot": wanted.snapshot}
        components = [{"name": each} for each in wanted.components]
        namespace = self._around.namespace(wanted.tenant)
        manifest = resource_of(BINDING, namespace, wanted.name, spec | {"components": components})
        await self._writes.put(BINDING, manifest, "spec", afresh=wanted.afresh)

    async def _promote(self, wanted: Promote) -> None:
        """Make a PromotionRun."""
        promotion: Manifest = {"manualPromotion": {"targetEnvironment": wanted.environment}}
        if wanted.automated:
            promotion = {"automatedPromotion": {"initialEnvironment": wanted.environment}}
        spec = {"application": SHOP, "snapshot": wanted.snapshot} | promotion
        manifest = resource_of(PROMOTION_RUN, self._around.namespace(wanted.tenant), wanted.name, spec)
        self._record.acknowledge(await self._calls.create(PROMOTION_RUN, manifest))

    async def _put_class(self, wanted: PutClass) -> None:
        """Change the policy of a DeploymentTargetClass."""
        manifest = self._class(wanted.name, wanted.policy)
        await self._calls.merge(TARGET_CLASS, None, manifest["metadata"]["name"], {"spec": manifest["spec"]})

    async def _put_target(self, wanted: PutTarget) -> None:
        """Make or change a DeploymentTarget."""
        credentials = {
            "defaultNamespace": WEB,
            "apiURL": self._around.cluster,
            "clusterCredentialsSecret": KUBECONFIG,
            "allowInsecureSkipTLSVerify": False,
        }
        spec: Manifest = {
            "deploymentTargetClassName": self._around.class_name(wanted.class_name),
            "kubernetesCredentials": credentials,
        }
        if wanted.claim:
            spec["claimRef"] = wanted.claim
        manifest = resource_of(TARGET, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._writes.put(TARGET, manifest, "spec", afresh=wanted.afresh)

    async def _put_claim(self, wanted: PutClaim) -> None:
        """Make or change a DeploymentTargetClaim."""
        spec = {"deploymentTargetClassName": self._around.class_name(wanted.class_name)}
        if wanted.target:
            spec["targetName"] = wanted.target
        manifest = resource_of(CLAIM, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._writes.put(CLAIM, manifest, "spec", afresh=wanted.afresh)

    def _class(self, name: str, policy: str) -> Manifest:
        self._record.policies[self._around.class_name(name)].add(policy)
        provisioner = SANDBOX if name in MADE_ON_DEMAND else NOBODY
        spec = {"provisioner": provisioner, "reclaimPolicy": policy}
        meta = {"name": self._around.class_name(name)}
        return {"apiVersion": TARGET_CLASS.api_version, "kind": TARGET_CLASS.kind, "metadata": meta, "spec": spec}
