"""What the CRs touched by a batch shall show. Called by ``compile``.

A row of ``workspace_resources`` exists for a name as long as a CR of that name does and has something to show. It is
of the incarnation that exists; a former one's row is taken over or deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from services.common.messages.compiled import RowKind
from services.planner.canonical import digest
from services.planner.draft import Draft
from services.planner.engines.argocd_secrets import cluster_name, id_of, repository_name
from services.planner.environments import environment_names
from services.planner.kinds import gitops_deployment_status
from services.planner.kinds.managed_environment import environment_status
from services.planner.kinds.names import GITOPS_DEPLOYMENT, MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL, SYNC_RUN
from services.planner.kinds.repository_credential import credential_status
from services.planner.kinds.resources import refusal_of
from services.planner.kinds.sync_run import OVER, sync_status
from services.planner.rows import Cause, Deployment, Resource, WorkspaceKey, WorkspaceRow

NO_STATUS = "{}"


def _of_environment(draft: Draft, owner: Resource, previous: str, at: datetime) -> str:
    held = _held(draft, owner, RowKind.CLUSTER_SECRET, cluster_name(owner.id))
    return environment_status(owner, refusal_of(owner), draft.checks.get(owner.id), held, previous, at)


def _of_credential(draft: Draft, owner: Resource, previous: str, at: datetime) -> str:
    held = _held(draft, owner, RowKind.REPOSITORY_SECRET, repository_name(owner.id))
    return credential_status(owner, refusal_of(owner), draft.checks.get(owner.id), held, previous, at)


def _of_sync_run(draft: Draft, owner: Resource, previous: str, at: datetime) -> str:
    return sync_status(owner, draft.sync_runs[owner.id], previous, at, draft.rules.limits)


def _held(draft: Draft, owner: Resource, kind: str, name: str) -> str | None:
    """Digest of what was compiled from it and is wanted."""
    held = draft.holding(owner.tenant_id, kind, name)
    return held.digest if held is not None and held.wanted else None


STATUSES: Mapping[str, Callable[[Draft, Resource, str, datetime], str]] = {
    MANAGED_ENVIRONMENT: _of_environment,
    REPOSITORY_CREDENTIAL: _of_credential,
    SYNC_RUN: _of_sync_run,
}
"""Of each kind of resource that has a status; given the one before, and when that happened which may change it."""


@dataclass
class WorkspaceChanges:
    """Rows to write and to delete."""

    draft: Draft
    rows: dict[WorkspaceKey, WorkspaceRow] = field(default_factory=dict)
    gone: dict[WorkspaceKey, None] = field(default_factory=dict)
    generations: dict[UUID, int] = field(default_factory=dict)
    """Generation whose status goes out now, by deployment."""

    @classmethod
    def of(cls, draft: Draft) -> WorkspaceChanges:
        """The changes that follow from everything the draft has touched."""
        changes = cls(draft)
        for touched in draft.causes:
            deployment = draft.deployments[touched]
            incarnations = draft.namesakes(deployment.tenant_id, deployment.name)
            changes._look(GITOPS_DEPLOYMENT, deployment, incarnations)
        for resource in changes._resources():
            namesakes = draft.resource_namesakes(resource.tenant_id, resource.kind, resource.name)
            changes._look(resource.kind, resource, namesakes)
        return changes

    def _resources(self) -> list[Resource]:
        """Those touched, and those of tenants of which anything was: what is wrong with one may be another's doing."""
        draft = self.draft
        shown = {known: draft.resources[known] for known in draft.resource_causes}
        for tenant in draft.reviewed:
            shown |= {known.id: known for kind in STATUSES for known in draft.of_kind(tenant, kind)}
        return [resource for resource in shown.values() if resource.kind in STATUSES]

    def _look(
        self, kind: str, touched: Deployment | Resource, namesakes: Iterable[Deployment] | Iterable[Resource]
    ) -> None:
        tenant = self.draft.tenants[touched.tenant_id]
        key = (tenant.workspace, tenant.namespace, kind, touched.name)
        stored = self.draft.state.statuses.get(key)
        owner = next((known for known in namesakes if known.present), None)
        if owner is None:
            if stored is not None and stored.uid == touched.uid:
                self.gone[key] = None
        elif isinstance(owner, Resource) or owner.id in self.draft.causes:
            self._show(owner, key, stored)

    def _show(self, owner: Deployment | Resource, key: WorkspaceKey, stored: WorkspaceRow | None) -> None:
        own = stored if stored is not None and stored.uid == owner.uid else None
        previous, released = (own.status, own.release_finalizer) if own is not None else (NO_STATUS, False)
        release = self._is_releasable(owner)
        now = self._status(owner, previous)
        if (now, release) != (previous, released):
            self.rows[key] = _row(key, owner, now, release, self._stamp(owner, own))
        elif own is None and stored is not None:
            self.gone[key] = None

    def _status(self, owner: Deployment | Resource, previous: str) -> str:
        draft = self.draft
        if isinstance(owner, Deployment):
            names = environment_names(draft, owner.tenant_id)
            observed = draft.observed.get(owner.id)
            return gitops_deployment_status.compiled(owner, observed, previous, draft.causes[owner.id].at, names)
        return STATUSES[owner.kind](draft, owner, previous, self._cause(owner).at)

    def _is_releasable(self, owner: Deployment | Resource) -> bool:
        """Its CR waits for us, and there is nothing left to wait for."""
        if isinstance(owner, Deployment):
            return owner.releasable
        run = self.draft.sync_runs.get(owner.id)
        if run is not None and run.state not in OVER:
            return False
        removed = self.draft.holdings_removed
        held = self.draft.state.holdings.get(owner.tenant_id, {})
        left = [key for key in held if id_of(key[1]) == owner.id and (owner.tenant_id, key) not in removed]
        return owner.deleting and owner.finalizer and not left

    def _cause(self, owner: Resource) -> Cause:
        return self.draft.resource_causes.get(owner.id) or self.draft.reviewed[owner.tenant_id]

    def _stamp(self, owner: Deployment | Resource, own: WorkspaceRow | None) -> Cause:
        """The first status after a change of the CR counts from that change, later ones from their own event."""
        changed = Cause(owner.seen_at, owner.trace_id)
        if isinstance(owner, Resource):
            return changed if own is None or own.generation < owner.generation else self._cause(owner)
        observed = self.draft.observed.get(owner.id)
        if observed is not None and observed.status_generation >= owner.generation:
            return self.draft.causes[owner.id]
        self.generations[owner.id] = owner.generation
        return changed


def _row(
    key: WorkspaceKey, owner: Deployment | Resource, now: str, release_finalizer: bool, stamp: Cause
) -> WorkspaceRow:
    workspace, namespace, kind, name = key
    return WorkspaceRow(
        workspace=workspace,
        namespace=namespace,
        kind=kind,
        name=name,
        uid=owner.uid,
        generation=owner.generation,
        status=now,
        release_finalizer=release_finalizer,
        digest=digest(now),
        trace_id=stamp.trace_id,
        seen_at=stamp.at,
    )
