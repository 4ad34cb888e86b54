"""Claims that wait for a provisioner of others, as rows of ``pending_claims``. For ``targets``.

A row is streamed to the provisioner that the class names, which knows nothing else of the claim. The row says
``wanted`` while the claim waits. If the claim stops waiting without ever having had a target, the row says
``withdrawn``, and the provisioner removes what it made. The row is deleted when the claim has a target, or is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from services.common.json_values import canonical
from services.kinds.deployment_target_claim.binder import ClaimOutcome
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.rows import PENDING, PROVISIONER
from services.kinds.deployment_target_class.model import DEVSANDBOX, DeploymentTargetClassSpec
from services.kinds.shared.decided import Decided
from services.kinds.shared.resource import PlainResource
from services.planner.domain.state import TenantState
from services.planner.rows.compiled import PendingClaimRow


def with_pending_claims(
    state: TenantState,
    claims: Iterable[PlainResource],
    outcomes: Mapping[str, ClaimOutcome],
    classes: Mapping[str, DeploymentTargetClassSpec],
) -> TenantState:
    """The tenant with a row for each claim for which a provisioner of others has something to do.

    Args:
        state: the tenant.
        claims: its rows that exist, with the decisions of this plan.
        outcomes: of claims by name, without those that are refused or being deleted.
        classes: those that exist, by name.
    """
    rows = {row.uid: row for row in _rows(state, claims, outcomes, classes)}
    ended = [uid for uid in state.pending_claims if uid not in rows]
    news = [row for uid, row in rows.items() if row != state.pending_claims.get(uid)]
    return state.with_pending_claims(*news).without_pending_claims(*ended) if news or ended else state


def awaited_class(
    outcome: ClaimOutcome | None, name: str, classes: Mapping[str, DeploymentTargetClassSpec]
) -> DeploymentTargetClassSpec | None:
    """The class ``name`` of a claim that waits for a provisioner of others; None: it does not wait for one."""
    is_waiting = outcome is not None and outcome.phase == PENDING and PROVISIONER in outcome.annotations
    class_ = classes.get(name) if is_waiting else None
    return class_ if class_ is not None and class_.provisioner != DEVSANDBOX else None


def _rows(
    state: TenantState,
    claims: Iterable[PlainResource],
    outcomes: Mapping[str, ClaimOutcome],
    classes: Mapping[str, DeploymentTargetClassSpec],
) -> Iterator[PendingClaimRow]:
    for claim in claims:
        if claim.kind != DEPLOYMENT_TARGET_CLAIM.kind:
            continue
        known = state.pending_claims.get(claim.uid)
        class_ = awaited_class(outcomes.get(claim.name), claim.refers_to, classes)
        if class_ is not None:
            yield _wanted(state, claim, class_)
        elif known is not None and not Decided.of(claim).other:
            yield replace(known, state="withdrawn")


def _wanted(state: TenantState, claim: PlainResource, class_: DeploymentTargetClassSpec) -> PendingClaimRow:
    return PendingClaimRow(
        workspace=state.tenant.workspace,
        namespace=state.tenant.namespace,
        name=claim.name,
        uid=claim.uid,
        class_name=claim.refers_to,
        provisioner=class_.provisioner,
        parameters=canonical(class_.parameters or {}),
        generation=claim.generation,
        state="wanted",
        created_at=datetime.fromtimestamp(claim.created_at / 1000, UTC),
    )
