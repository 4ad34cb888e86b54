"""How far a tenant's move is: what the next step waits for, as seen at the source and at the target.

Step 2 waits until the target has all objects, and they work there as they do on the source; step 3, until nothing runs
at the source. What a step waits for is a text, which operators see if the move goes back because of it. ``handover.py``
calls this; ``fleet/moves/moves.py`` decides which step comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.sync_run.model import SYNC_RUN
from services.kinds.sync_run.rules import OVER
from services.planner.domain.fleet.moves.moves import Seen, is_late
from services.planner.domain.fleet.placement.parts import refusal_of_cluster, refusal_of_part
from services.planner.domain.fleet.rows import Move
from services.planner.domain.planned_tenant import Context
from services.planner.domain.state import TenantState
from services.planner.domain.steps.handover.move_reports import (
    FAILED,
    Reported,
    find_report,
    name_object,
    parse_reports,
)
from services.planner.domain.steps.handover.moved_deployments import is_missing, is_unseen
from services.planner.rows.compiled import EngineObject, EngineObjectKey


def seen_of(state: TenantState, context: Context) -> Seen:
    """What was seen of the tenant, for the step of its move."""
    move = state.move
    if move is None:
        return Seen()
    reported = parse_reports(move)
    moved = [each for each in state.deployments.values() if each.spec is not None and state.is_moved(each)]
    late = is_late(move, context.now, context.policy.move_patience)
    is_source_down = context.fleet.instances[move.source].is_down
    unmovable = _unmovable(move, moved, context)
    return Seen(
        unprepared=_unprepared(state, reported, context, is_late=late),
        unpaused=_unpaused(state, moved, context, is_late=late and not is_source_down),
        is_released=all(name_object(context.engine.deployment_key(each.uid)) in reported for each in moved),
        is_taken=not any(is_missing(state.observed.get(each.id)) for each in moved),
        is_adopted=all(_is_adopted(state, each) for each in moved),
        is_withdrawn=not state.elsewhere or move.other in state.parts,
        is_target_down=context.fleet.instances[move.target].is_down,
        is_source_lost=context.fleet.instances[move.source].is_out_of_reach,
        unmovable=unmovable,
        refusal=_refusal(state, move, unmovable, context),
    )


def _unprepared(state: TenantState, reported: Reported, context: Context, *, is_late: bool) -> str:
    """The first of the tenant's objects that the target lacks, or that does not work there; empty if there is none.

    ``is_late``: whether to skip credentials that nobody has checked on either instance.
    """
    if state.move is not None and state.move.target == state.tenant.engine_instance_id:
        return ""
    for key, stored in sorted(state.objects.items()):
        if stored.is_desired and stored.owner.kind != SYNC_RUN.kind and key not in state.elsewhere:
            return f"{name_object(key)} cannot be made"
    for key, there in sorted(state.elsewhere.items()):
        if there.is_desired and (lacking := _lacking(key, there, state, reported, context, is_late=is_late)):
            return lacking
    return ""


def _lacking(
    key: EngineObjectKey,
    there: EngineObject,
    state: TenantState,
    reported: Reported,
    context: Context,
    *,
    is_late: bool,
) -> str:
    """What is wrong with one object at the target; empty if nothing is."""
    if is_late and _is_unchecked(state, there.owner.id, context):
        return ""
    digest, reason, message = find_report(key, reported)
    if digest != there.digest:
        return f"{name_object(key)} is not there yet"
    if reason == FAILED or not _is_as_good(state, there.owner.id, reason, context):
        return f"{name_object(key)}: {message or reason}"
    return ""


def _is_unchecked(state: TenantState, owner: UUID, context: Context) -> bool:
    """Whether these are credentials that were not checked on this instance, as they are now."""
    check, known = state.checks.get(owner), state.plain_resources.get(owner)
    if known is None or context.policy.kinds[known.kind].check_reasons is None:
        return False
    return check is None or check.digest != state.checked_digest(owner)


def _is_as_good(state: TenantState, owner: UUID, reason: str, context: Context) -> bool:
    """Whether credentials work there if they work here."""
    check, known = state.checks.get(owner), state.plain_resources.get(owner)
    reasons = context.policy.kinds[known.kind].check_reasons if known is not None else None
    return check is None or reasons is None or check.reason != reasons.succeeded or reason == reasons.succeeded


def _unpaused(state: TenantState, moved: Sequence[Deployment], context: Context, *, is_late: bool) -> str:
    """What still runs at the source, or is being deleted there; empty if nothing is.

    ``is_late``: whether to wait for sync runs only, of a source that works. To release an Application ends its
    automation and its sync in any case, and the target goes on with deletions. A source that is down may never end what
    it does.
    """
    move = state.move
    if move is None or move.step != "pausing":
        return ""
    leaves_deletions = is_late or move.path != "whole"
    for each in moved:
        if not each.is_active and not leaves_deletions:
            return f"the deletion of {each.name}"
        observed = state.observed.get(each.id)
        is_paused = observed is not None and each.digest in (observed.applied_digest, observed.failed_digest)
        if each.is_active and not is_paused and not is_late:
            return f"the source to pause {each.name}"
    return _under_way(state, moved, context, is_late=is_late) if move.path == "whole" else ""


def _under_way(state: TenantState, moved: Sequence[Deployment], context: Context, *, is_late: bool) -> str:
    """The first sync that has not ended. ``is_late``: of sync runs alone, as the next step ends all others."""
    ids = {each.id for each in moved}
    runs = (run for run in state.sync_runs.values() if run.deployment_id in ids)
    for run in runs:
        if run.state not in OVER and run.state != "Waiting":
            return f"the sync run of {run.deployment_name}"
    syncing = (each for each in moved if not is_late and _is_syncing(state.observed.get(each.id), context))
    return next((f"the sync of {each.name}" for each in syncing), "")


def _is_syncing(known: Observed | None, context: Context) -> bool:
    """Whether the instance that has a deployment reports a sync. Reports of the instance before do not count."""
    return known is not None and not is_unseen(known) and context.engine.is_syncing(known.status)


def _is_adopted(state: TenantState, known: Deployment) -> bool:
    observed = state.observed.get(known.id)
    if observed is None or known.digest not in (observed.applied_digest, observed.failed_digest):
        return False
    return observed.failed_digest == known.digest or bool(observed.resource_version) or not observed.status


def _unmovable(move: Move, moved: Sequence[Deployment], context: Context) -> str:
    """Why the tenant cannot move to another cluster; empty if it can. What it deployed would stay behind."""
    if len({context.fleet.instances[each].engine_cluster for each in (move.source, move.target)}) == 1:
        return ""
    name = next((each.name for each in moved if each.environment_id is None), "")
    return f"deployment {name} names no environment: what it has deployed would stay in the cluster" if name else ""


def _refusal(state: TenantState, move: Move, unmovable: str, context: Context) -> str:
    """The rule by which an order to move the tenant to the target would be refused now; empty if none."""
    own = state.tenant.engine_instance_id
    others = state.parts.keys() - {own}
    source, target = (context.fleet.instances[each] for each in (move.source, move.target))
    of_cluster = refusal_of_cluster(source, target) if others else unmovable
    return of_cluster or refusal_of_part(move.target, others, own, state.tenant.full_name)
