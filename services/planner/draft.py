"""A plan in the making: the state of the database, and on top of it what the events so far have made of it.

Only ``plan`` changes a draft and only ``compile`` reads its result; it never outlives one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from services.common.argocd_names import application_name
from services.common.messages.compiled import RowKind
from services.planner import audit, ids
from services.planner.allowance import Allowance
from services.planner.engines.argocd import Home
from services.planner.kinds import gitops_deployment
from services.planner.kinds.managed_environment import EnvironmentView
from services.planner.kinds.names import GITOPS_DEPLOYMENT, RESOURCE_KINDS, SYNC_RUN
from services.planner.placement import place
from services.planner.rows import (
    Cause,
    Check,
    Deployment,
    EngineKey,
    Holding,
    HoldingKey,
    Observed,
    Operation,
    OperationMoved,
    Resource,
    State,
    SweepScope,
    SyncRun,
    Tenant,
)
from services.planner.rules import Rules


@dataclass
class Draft:
    """See the module."""

    state: State
    rules: Rules
    tenants: dict[UUID, Tenant] = field(default_factory=dict)
    deployments: dict[UUID, Deployment] = field(default_factory=dict)
    observed: dict[UUID, Observed] = field(default_factory=dict)
    manifests: dict[UUID, str] = field(default_factory=dict)
    resources: dict[UUID, Resource] = field(default_factory=dict)
    checks: dict[UUID, Check] = field(default_factory=dict)
    sync_runs: dict[UUID, SyncRun] = field(default_factory=dict)
    views: dict[UUID, Mapping[str, EnvironmentView]] = field(default_factory=dict)
    """Environments as deployments see them, by tenant and name; made when first asked for."""
    holdings: dict[UUID, dict[HoldingKey, Holding]] = field(default_factory=dict)
    """What each tenant has, or shall have, on its engine besides Applications."""
    causes: dict[UUID, Cause] = field(default_factory=dict)
    """Last event that touched a deployment."""
    tenant_causes: dict[UUID, Cause] = field(default_factory=dict)
    """Last event after which a tenant's AppProject has to be looked at."""
    resource_causes: dict[UUID, Cause] = field(default_factory=dict)
    """Last event that touched a resource."""
    unsettled: set[UUID] = field(default_factory=set)
    """Tenants whose recipes have to be made again: their Secrets are at hand."""
    reviewed: dict[UUID, Cause] = field(default_factory=dict)
    """Last event after which it may have changed whether a tenant's environments can be used."""
    operations: dict[UUID, Operation] = field(default_factory=dict)
    moved: dict[UUID, OperationMoved] = field(default_factory=dict)
    engine_gone: dict[EngineKey, None] = field(default_factory=dict)
    holdings_removed: set[tuple[UUID, HoldingKey]] = field(default_factory=set)
    """What agents have seen gone."""
    refused_sweeps: list[SweepScope] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tenants |= self.state.tenants
        self.deployments |= self.state.deployments
        self.observed |= self.state.observed
        self.resources |= self.state.resources
        self.checks |= self.state.checks
        self.sync_runs |= self.state.sync_runs
        self.holdings |= {tenant: dict(held) for tenant, held in self.state.holdings.items()}
        self.allowance = Allowance(self.state.usage)
        self._by_name: dict[tuple[UUID, str, str], list[UUID]] = {}
        self._of_tenant: dict[tuple[UUID, str], list[UUID]] = {}
        for deployment in self.deployments.values():
            self._index(deployment)
        for resource in self.resources.values():
            self._index(resource)

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

    def is_platform(self, namespace: str) -> bool:
        """Whether a namespace of an engine's own cluster belongs to the platform."""
        return self.rules.protects(namespace) or any(
            namespace == instance.namespace for instance in self.state.instances.values()
        )

    def is_local(self, tenant_id: UUID) -> bool:
        """Whether the tenant's namespace is one of the engine's own cluster, and its own there."""
        tenant = self.tenants[tenant_id]
        return tenant.workspace in self.rules.local_workspaces and not self.is_platform(tenant.namespace)

    def holding(self, tenant_id: UUID, kind: str, name: str) -> Holding | None:
        """What the tenant has on its engine under this name."""
        held = self.holdings.get(tenant_id, {}).get((kind, name))
        return held if held is not None and self._is_there(tenant_id, (kind, name), held) else None

    def held(self, tenant_id: UUID) -> dict[HoldingKey, Holding]:
        """What the tenant has on its engine besides Applications, or shall have; not what was seen gone."""
        known = self.holdings.get(tenant_id, {})
        return {key: held for key, held in known.items() if self._is_there(tenant_id, key, held)}

    def of_kind(self, tenant_id: UUID, kind: str) -> list[Resource]:
        """The tenant's resources of a kind, all incarnations, in the order of their creation."""
        found = [self.resources[known] for known in self._of_tenant.get((tenant_id, kind), ())]
        return sorted(found, key=lambda known: (known.created_at, known.id))

    def deployments_of(self, tenant_id: UUID) -> list[Deployment]:
        """The tenant's deployments as far as they are concerned, all incarnations."""
        return [self.deployments[known] for known in self._of_tenant.get((tenant_id, GITOPS_DEPLOYMENT), ())]

    def resources_of(self, tenant_id: UUID) -> list[Resource]:
        """The tenant's resources of all kinds as far as they are at hand."""
        kinds = sorted(RESOURCE_KINDS)
        return [self.resources[known] for kind in kinds for known in self._of_tenant.get((tenant_id, kind), ())]

    def namesakes(self, tenant_id: UUID, name: str) -> Iterator[Deployment]:
        """All incarnations of a deployment's name."""
        return (self.deployments[known] for known in self._by_name.get((tenant_id, GITOPS_DEPLOYMENT, name), ()))

    def resource_namesakes(self, tenant_id: UUID, kind: str, name: str) -> Iterator[Resource]:
        """All incarnations of a resource's name."""
        return (self.resources[known] for known in self._by_name.get((tenant_id, kind, name), ()))

    def put(self, now: Deployment, cause: Cause, actor: str) -> None:
        """Take over a deployment's new row, compiled, with an audit row if something was asked for."""
        before = self.deployments.get(now.id)
        if before is None:
            self._index(now)
        self.allowance.move(before, now)
        self.deployments[now.id] = now
        self.causes[now.id] = self.tenant_causes[now.tenant_id] = cause
        if before is None or audit.change_id(before) != audit.change_id(now) or before.problem != now.problem:
            self._record(before, now, cause, actor)

    def put_resource(self, now: Resource, cause: Cause, actor: str) -> None:
        """Take over a resource's new row; all that follows from its tenant's resources will be looked at."""
        before = self.resources.get(now.id)
        if before is None:
            self._index(now)
        self.resources[now.id] = now
        if now.kind != SYNC_RUN:
            self.unsettled.add(now.tenant_id)
        self.concern(now, cause)
        if now.kind in audit.AUDITED and (before is None or audit.change_id(before) != audit.change_id(now)):
            self._record_resource(before, now, cause, actor)

    def concern(self, resource: Resource, cause: Cause) -> None:
        """Something about the resource may have changed."""
        self.resource_causes[resource.id] = self.tenant_causes[resource.tenant_id] = cause
        if resource.kind != SYNC_RUN:
            self.reviewed[resource.tenant_id] = cause
            self.views.pop(resource.tenant_id, None)

    def touch(self, deployment: Deployment, observed: Observed, cause: Cause) -> None:
        """Take over what was reported about a deployment."""
        self.observed[deployment.id] = observed
        self.causes[deployment.id] = cause

    def removed(self, deployment: Deployment, cause: Cause, message: str) -> None:
        """Its Application is gone from the engine."""
        home = self.home(deployment.tenant_id)
        self.engine_gone[home.key(RowKind.APPLICATION, application_name(deployment.uid))] = None
        empty = gitops_deployment.without_application(deployment)
        self.allowance.move(deployment, empty)
        self.deployments[deployment.id] = empty
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

    def _is_there(self, tenant_id: UUID, key: HoldingKey, held: Holding) -> bool:
        return held.wanted or (tenant_id, key) not in self.holdings_removed

    def _index(self, known: Deployment | Resource) -> None:
        kind = known.kind if isinstance(known, Resource) else GITOPS_DEPLOYMENT
        self._by_name.setdefault((known.tenant_id, kind, known.name), []).append(known.id)
        self._of_tenant.setdefault((known.tenant_id, kind), []).append(known.id)

    def _record(self, before: Deployment | None, now: Deployment, cause: Cause, actor: str) -> None:
        if before is not None and audit.change_id(before) != audit.change_id(now):
            self.move(audit.superseded(before, now, cause))
        operation = audit.opened(before, now, self.tenants[now.tenant_id], actor)
        self.operations[operation.id] = operation

    def _record_resource(self, before: Resource | None, now: Resource, cause: Cause, actor: str) -> None:
        if before is not None:
            self.move(audit.superseded(before, now, cause))
        operation = audit.opened_for_resource(before, now, self.tenants[now.tenant_id], actor)
        self.operations[operation.id] = operation
