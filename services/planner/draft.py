"""A plan in the making: the state of the database, and on top of it what the events so far have made of it.

Only ``plan`` changes a draft and only ``compile`` reads its result; it never outlives one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from services.common.api import GitOpsDeploymentSpec
from services.planner import audit, ids
from services.planner.canonical import digest
from services.planner.engines import argocd
from services.planner.engines.argocd import Home
from services.planner.kinds import gitops_deployment
from services.planner.placement import place
from services.planner.rows import (
    Cause,
    Deployment,
    EngineKey,
    Observed,
    Operation,
    OperationMoved,
    State,
    SweepScope,
    Tenant,
)


@dataclass
class Draft:
    """See the module."""

    state: State
    tenants: dict[UUID, Tenant] = field(default_factory=dict)
    deployments: dict[UUID, Deployment] = field(default_factory=dict)
    observed: dict[UUID, Observed] = field(default_factory=dict)
    manifests: dict[UUID, str] = field(default_factory=dict)
    causes: dict[UUID, Cause] = field(default_factory=dict)
    """Last event that touched a deployment."""
    tenant_causes: dict[UUID, Cause] = field(default_factory=dict)
    """Last event after which a tenant's AppProject has to be looked at."""
    operations: dict[UUID, Operation] = field(default_factory=dict)
    moved: dict[UUID, OperationMoved] = field(default_factory=dict)
    engine_gone: dict[EngineKey, None] = field(default_factory=dict)
    projects_removed: set[UUID] = field(default_factory=set)
    refused_sweeps: list[SweepScope] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tenants |= self.state.tenants
        self.deployments |= self.state.deployments
        self.observed |= self.state.observed
        self._by_name: dict[tuple[UUID, str], list[UUID]] = {}
        for deployment in self.deployments.values():
            self._by_name.setdefault((deployment.tenant_id, deployment.name), []).append(deployment.id)

    def tenant(self, workspace: str, namespace: str, partition: int) -> Tenant:
        """The tenant, placed on an instance if it is new. Raises Wait if there is no instance for it."""
        tenant_id = ids.tenant_id(workspace, namespace)
        known = self.tenants.get(tenant_id)
        if known is None:
            instance = place(tenant_id, self.state.instances.values())
            known = Tenant(tenant_id, workspace, namespace, partition, instance.id)
        self.tenants[tenant_id] = known if known.partition == partition else replace(known, partition=partition)
        return self.tenants[tenant_id]

    def home(self, tenant_id: UUID) -> Home:
        """Where the tenant's objects are."""
        tenant = self.tenants[tenant_id]
        return Home(tenant, self.state.instances[tenant.engine_instance_id])

    def namesakes(self, tenant_id: UUID, name: str) -> Iterator[Deployment]:
        """All incarnations of a name."""
        return (self.deployments[known] for known in self._by_name.get((tenant_id, name), ()))

    def put(self, now: Deployment, cause: Cause, actor: str) -> None:
        """Take over a deployment's new row, compiled, with an audit row if something was asked for."""
        before = self.deployments.get(now.id)
        if before is None:
            self._by_name.setdefault((now.tenant_id, now.name), []).append(now.id)
        now = self._compiled(now)
        self.deployments[now.id] = now
        self.causes[now.id] = self.tenant_causes[now.tenant_id] = cause
        if before is None or audit.change_id(before) != audit.change_id(now) or before.error != now.error:
            self._record(before, now, cause, actor)

    def touch(self, deployment: Deployment, observed: Observed, cause: Cause) -> None:
        """Take over what was reported about a deployment."""
        self.observed[deployment.id] = observed
        self.causes[deployment.id] = cause

    def removed(self, deployment: Deployment, cause: Cause, message: str) -> None:
        """Its Application is gone from the engine."""
        home = self.home(deployment.tenant_id)
        self.engine_gone[home.key(argocd.APPLICATION, argocd.application_name(deployment.uid))] = None
        self.deployments[deployment.id] = gitops_deployment.without_application(deployment)
        self.observed.pop(deployment.id, None)
        self.causes[deployment.id] = self.tenant_causes[deployment.tenant_id] = cause
        self.move(OperationMoved(audit.change_id(deployment), "Completed", message, cause.at))

    def move(self, moved: OperationMoved) -> None:
        """Note what became of an operation, opened in this batch or before."""
        opened = self.operations.get(moved.id)
        if opened is not None:
            self.operations[moved.id] = replace(opened, state=moved.state, message=moved.message)
        else:
            self.moved[moved.id] = moved

    def _compiled(self, now: Deployment) -> Deployment:
        """With the digest of its manifest; one that was never sent and is no longer wanted has none."""
        if now.spec is None:
            return now
        sent = self.state.deployments.get(now.id)
        if not now.wanted and (sent is None or sent.spec is None):
            return gitops_deployment.without_application(now)
        spec = GitOpsDeploymentSpec.model_validate_json(now.spec)
        manifest = argocd.application(self.home(now.tenant_id), now.id, now.uid, spec)
        self.manifests[now.id] = manifest
        return replace(now, digest=digest(manifest))

    def _record(self, before: Deployment | None, now: Deployment, cause: Cause, actor: str) -> None:
        if before is not None and audit.change_id(before) != audit.change_id(now):
            self.move(audit.superseded(before, now, cause))
        operation = audit.opened(before, now, self.tenants[now.tenant_id], gitops_deployment.KIND, actor)
        self.operations[operation.id] = operation
