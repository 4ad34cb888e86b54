"""What the CRs touched by a batch shall show. Called by ``compile``.

A row of ``workspace_resources`` exists for a name as long as a CR of that name does and has something to show. It is
of the incarnation that exists; a former one's row is taken over or deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from services.planner.canonical import digest
from services.planner.draft import Draft
from services.planner.kinds import gitops_deployment_status as status
from services.planner.kinds.gitops_deployment import KIND
from services.planner.rows import Cause, Deployment, WorkspaceKey, WorkspaceRow

NO_STATUS = "{}"


@dataclass
class WorkspaceChanges:
    """Rows to write and to delete."""

    rows: dict[WorkspaceKey, WorkspaceRow] = field(default_factory=dict)
    gone: dict[WorkspaceKey, None] = field(default_factory=dict)
    generations: dict[UUID, int] = field(default_factory=dict)
    """Generation whose status goes out now, by deployment."""

    @classmethod
    def of(cls, draft: Draft) -> Self:
        """The changes that follow from everything the draft has touched."""
        changes = cls()
        for touched in draft.causes:
            changes._look(draft, draft.deployments[touched])
        return changes

    def _look(self, draft: Draft, touched: Deployment) -> None:
        tenant = draft.tenants[touched.tenant_id]
        key = (tenant.workspace, tenant.namespace, KIND, touched.name)
        stored = draft.state.statuses.get(key)
        owner = next((known for known in draft.namesakes(tenant.id, touched.name) if known.present), None)
        if owner is None:
            if stored is not None and stored.uid == touched.uid:
                self.gone[key] = None
        elif owner.id in draft.causes:
            self._show(draft, owner, key, stored)

    def _show(self, draft: Draft, owner: Deployment, key: WorkspaceKey, stored: WorkspaceRow | None) -> None:
        own = stored if stored is not None and stored.uid == owner.uid else None
        previous, released = (own.status, own.release_finalizer) if own is not None else (NO_STATUS, False)
        now = status.compiled(owner, draft.observed.get(owner.id), previous, draft.causes[owner.id].at)
        if (now, owner.releasable) != (previous, released):
            self.rows[key] = _row(key, owner, now, self._stamp(draft, owner))
        elif own is None and stored is not None:
            self.gone[key] = None

    def _stamp(self, draft: Draft, owner: Deployment) -> Cause:
        """The first status after a change of the CR counts from that change, later ones from their own event."""
        observed = draft.observed.get(owner.id)
        if observed is not None and observed.status_generation >= owner.generation:
            return draft.causes[owner.id]
        self.generations[owner.id] = owner.generation
        return Cause(owner.seen_at, owner.trace_id)


def _row(key: WorkspaceKey, owner: Deployment, now: str, stamp: Cause) -> WorkspaceRow:
    workspace, namespace, kind, name = key
    return WorkspaceRow(
        workspace=workspace,
        namespace=namespace,
        kind=kind,
        name=name,
        uid=owner.uid,
        generation=owner.generation,
        status=now,
        release_finalizer=owner.releasable,
        digest=digest(now),
        trace_id=stamp.trace_id,
        seen_at=stamp.at,
    )
