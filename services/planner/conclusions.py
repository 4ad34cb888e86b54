"""What has become of the changes of a tenant's resources, as far as that is known when it has come to rest.

Called by ``tenants``. An operation stays open only while an agent still has something to find out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal
from uuid import UUID

from services.common.messages.compiled import RowKind
from services.planner import audit
from services.planner.draft import Draft
from services.planner.engines.argocd_secrets import cluster_name, repository_name
from services.planner.kinds.names import MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL
from services.planner.kinds.resources import refusal_of
from services.planner.kinds.sync_run import OVER
from services.planner.rows import Holding, OperationMoved, Resource

NAMES = {
    MANAGED_ENVIRONMENT: (RowKind.CLUSTER_SECRET, cluster_name),
    REPOSITORY_CREDENTIAL: (RowKind.REPOSITORY_SECRET, repository_name),
}

Outcome = tuple[Literal["Completed", "Failed"], str]
COMPLETED: Outcome = ("Completed", "")


def conclude(draft: Draft, tenant_id: UUID, gone: Collection[UUID]) -> None:
    """End the operations of the tenant's touched resources that have come to their end."""
    for known in draft.resources_of(tenant_id):
        if known.kind in audit.AUDITED and known.id in draft.resource_causes:
            over = known.id in gone or _is_remembered_only(draft, known)
            outcome = COMPLETED if over else _outcome(draft, known)
            if outcome is not None:
                at = draft.resource_causes[known.id].at
                draft.move(OperationMoved(audit.change_id(known), *outcome, at))


def _is_remembered_only(draft: Draft, known: Resource) -> bool:
    """A run whose CR is gone and that is over: its row stays, but nothing more happens."""
    run = draft.sync_runs.get(known.id)
    return not known.present and run is not None and run.state in OVER


def _outcome(draft: Draft, known: Resource) -> Outcome | None:
    """The outcome of a change that is refused, or that an engine has nothing to do for; None while it has."""
    refusal = refusal_of(known)
    if refusal is not None and known.wanted:
        return ("Failed", f"{refusal.reason}: {refusal.message}")
    before, now = _held(draft, known, before=True), _held(draft, known, before=False)
    check = draft.checks.get(known.id)
    if known.wanted and now is not None and now == before and check is not None and check.digest == now.digest:
        return COMPLETED
    return None


def _held(draft: Draft, known: Resource, *, before: bool) -> Holding | None:
    if known.kind not in NAMES:
        return None
    kind, name = NAMES[known.kind]
    held = (draft.state.holdings if before else draft.holdings).get(known.tenant_id, {})
    return held.get((kind, name(known.id)))
