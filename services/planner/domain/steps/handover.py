"""Carries a tenant's move out, step by step: what each step wants of the two instances, and what was seen of them.

The rules of which step comes next are in ``moves.py``. What is moved is what the tenant has on the source: all of it,
or a part. It has one instance at any time, the source until its Applications are released and the target from then on.
What the other one of the two holds is in ``copies.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import orjson

from services.common.errors import Permanent
from services.common.json_values import canonical
from services.common.messages import Applied, Checked, Failed, Observation, Removed
from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.shared.resource import Cause, Check
from services.kinds.sync_run.model import SYNC_RUN
from services.kinds.sync_run.rules import ACTIVE, OVER
from services.planner.domain.events import Event, MoveDue
from services.planner.domain.fleet.moves.moves import KEEPING, Seen, due_time, is_in_haste, next_step
from services.planner.domain.fleet.placement.parts import refusal_of_cluster, refusal_of_part
from services.planner.domain.fleet.rows import ON_SOURCE, Move
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.rows import TENANT, EngineObject, EngineObjectKey

RUNNING = "Running"
"""Phase of a sync that has begun."""
FAILED = "Failed"
"""Reported of an object that its agent will never make."""
Reported = Mapping[str, Sequence[str]]
"""Digest, reason and message that an agent reported last of an object, by kind/name."""


def move_of(state: TenantState, events: Iterable[Event]) -> Move | None:
    """The tenant's move as ``events`` tell of it.

    One that has begun, is to go back, has lost its source, or has taken the place of one that has lost its target.
    """
    move = state.move
    for event in events:
        if isinstance(event.message, MoveDue):
            told = event.message.move
            move = _as_told(move, told) if move is not None and move.id == told.id else told
    return move


def _as_told(move: Move, told: Move) -> Move:
    """With what the planner that decides on the fleet writes of a move that has begun."""
    path = told.path if move.path == "whole" else move.path
    return replace(move, is_cancelled=told.is_cancelled, message=told.message, path=path)


def advance(before: TenantState, move: Move, context: Context, now: datetime) -> Move:
    """The move after all steps that can be taken by what was seen until now; each waits for what the next one makes."""
    after = next_step(move, seen_of(before._replace(move=move), context, now), now, context.policy.move_patience)
    is_begun = move.step == "reserved" and after.step == "preparing"
    return replace(after, reported=canonical(_known_there(before, move.target))) if is_begun else after


def due_at(state: TenantState, move: Move, context: Context, now: datetime) -> datetime | None:
    """When the move has to be looked at again, though nothing happens."""
    return None if move.is_over else due_time(move, seen_of(state, context, now), now, context.policy.move_patience)


def taken_over(state: TenantState, context: Context) -> TenantState:
    """What was seen at the source is no news of the target, but it is what its tenant is shown until there is some.

    What the target's agent has found out about credentials takes the place of what the source's had, if the target is
    the tenant's own instance from now on. Of a source that nobody reaches each sync run counts as begun that was
    ordered there: it may have run, and would run twice.
    """
    own, taken = state.tenant.engine_instance_id, context.taken_over
    on = "" if context.move is None or context.move.target == own else context.move.target
    rows = [replace(state.deployments[each], engine_instance_id=on) for each in sorted(taken)]
    observed = [
        replace(each, resource_version="", applied_digest="", failed_digest="", failure="", failure_for_user=False)
        for each in state.observed.values()
        if each.deployment_id in taken
    ]
    state = state.with_deployments(*rows).with_observed(*observed)
    if context.move is not None and context.move.path == "fenced":
        ordered = (run for run in state.sync_runs.values() if run.deployment_id in taken and run.state in ACTIVE)
        state = state.with_sync_runs(*(replace(run, phase=run.phase or RUNNING) for run in ordered))
    if not context.is_own_left:
        return state
    return state.with_checks(*(found for each in state.checks.values() if (found := _check_there(state, each))))


def end_own_part(planned: PlannedTenant, cause: Cause) -> PlannedTenant:
    """Deployments whose rows name the tenant's own instance as another one are its own from now on.

    Only a planner of an earlier release leaves such rows: it lets a move begin to where the tenant has a part.
    """
    state, own = planned.state, planned.state.tenant.engine_instance_id
    if own not in state.parts:
        return planned
    there = [each for each in state.deployments.values() if each.engine_instance_id == own]
    state = state.with_deployments(*(replace(each, engine_instance_id="") for each in there))
    return planned._replace(state=state, cause=cause)


def touch_moved(planned: PlannedTenant, context: Context, cause: Cause) -> PlannedTenant:
    """With all deployments that are moved to be compiled anew: another step wants something else of each."""
    for known in planned.state.deployments.values():
        if context.is_moved(known):
            planned = planned.with_row(replace(known), cause)
    return planned._replace(cause=cause)


def observe_elsewhere(planned: PlannedTenant, seen: Observation, cause: Cause) -> PlannedTenant:
    """What the agent of another instance than the tenant's reports of an object there."""
    key, there = (seen.kind, seen.name), planned.state.on_instance(seen.engine_instance_id)
    held = there.objects.get(key)
    if held is None:
        return planned
    if isinstance(seen.event, Removed):
        gone = planned.state._replace(held=there.without_objects(key).held)
        return planned if held.is_desired else planned._replace(state=gone, cause=cause)
    move = planned.state.move
    match seen.event:
        case _ if move is None or move.target != seen.engine_instance_id:
            pass  # what the target has to have is called the same where a part of the tenant is
        case Checked(digest=digest, reason=reason, message=message) if digest == held.digest:
            return _reported(planned, key, (digest, reason, message))
        case Applied(digest=digest) if digest == held.digest and held.owner.kind == TENANT:
            return _reported(planned, key, (digest, "", ""))
        case Failed(digest=digest, message=message) if digest == held.digest:
            return _reported(planned, key, (digest, FAILED, message))
    return planned


def observe_release(planned: PlannedTenant, key: EngineObjectKey) -> PlannedTenant:
    """The source has no Application of this name any more; what it deployed is there."""
    return _reported(planned, key, ("", "", ""))


def seen_of(state: TenantState, context: Context, now: datetime) -> Seen:
    """What was seen of the tenant, for the step of its move."""
    move = state.move
    if move is None:
        return Seen()
    reported = _parsed(move)
    held = [each for each in state.deployments.values() if each.spec is not None and state.is_moved(each)]
    is_late = is_in_haste(move, now, context.policy.move_patience)
    is_source_down = context.fleet.instances[move.source].is_down
    unmovable = _unmovable(move, held, context)
    return Seen(
        unprepared=_unprepared(state, reported, context, is_late=is_late),
        unpaused=_unpaused(state, held, context, is_late=is_late and not is_source_down),
        is_released=all(_name(context.engine.deployment_key(each.uid)) in reported for each in held),
        is_taken=not any(_is_missing(state.observed.get(each.id)) for each in held),
        is_adopted=all(_is_adopted(state, each) for each in held),
        is_withdrawn=not state.elsewhere or move.other in state.parts,
        is_target_down=context.fleet.instances[move.target].is_down,
        is_source_lost=context.fleet.instances[move.source].is_out_of_reach,
        unmovable=unmovable,
        refusal=_refusal(state, move, unmovable, context),
    )


def keeps_status(state: TenantState, known: Deployment) -> bool:
    """Whether the CR goes on showing what it shows: the source's view is out of date, and the target has none yet.

    Also if the move is over since: its target was lost, and none other was found.
    """
    move, observed = state.move, state.observed.get(known.id)
    if observed is None or not observed.status:
        return False
    if move is None:
        return _is_unseen(observed) and not observed.failure
    return state.is_moved(known) and (move.step in ("pausing", "releasing") or _is_unseen(observed))


def has_compared(known: Observed, status: str, context: Context) -> bool:
    """Whether a status says something; the first ones of the target are of before it has compared anything."""
    if not _is_unseen(known):
        return True
    return "sync" in context.engine.read_status(status, None, {}).part


def is_kept(row: Deployment | None, state: TenantState, move: Move | None) -> bool:
    """Whether an engine shall hold what the deployment became; ``state``: of its tenant.

    An engine that does not have it yet, because the move before this one lost its target, could not remove what was
    deployed.
    """
    if row is None or row.spec is None or row.is_active:
        return row is not None and row.spec is not None
    if move is None or move.holder != state.instance_of(row):
        return False
    is_waiting = move.path != "whole" and move.step in ON_SOURCE
    return move.step in KEEPING or (is_waiting and _was_never_made(state.observed.get(row.id)))


def _is_unseen(known: Observed | None) -> bool:
    """Whether all that is known of a deployment is from the instance before the one that has it."""
    return known is not None and bool(known.status) and not known.resource_version


def _was_never_made(known: Observed | None) -> bool:
    """Whether the instance that has a deployment since a move has not even made its Application."""
    return known is not None and _is_unseen(known) and not known.applied_digest


def _is_missing(known: Observed | None) -> bool:
    """Whether it has not told that it cannot, either."""
    return known is not None and _was_never_made(known) and not known.failed_digest


def _known_there(state: TenantState, target: str) -> dict[str, list[str]]:
    """What the target has already, of which its agent tells nothing new: it was the source of the move before."""
    checks = {owner: check.reason for owner, check in state.checks.items()}
    return {
        _name(key): [held.digest, checks.get(held.owner.id, ""), ""]
        for key, held in state.held_on(target).items()
        if held.is_desired and target != state.tenant.engine_instance_id
    }


def _unprepared(state: TenantState, reported: Reported, context: Context, *, is_late: bool) -> str:
    """The first object that the target lacks of those that the tenant's instance has, or that is not good there.

    ``is_late``: whether credentials that nobody has checked on either instance are passed over.
    """
    if state.move is not None and state.move.target == state.tenant.engine_instance_id:
        return ""
    for key, held in sorted(state.objects.items()):
        if held.is_desired and held.owner.kind != SYNC_RUN.kind and key not in state.elsewhere:
            return f"{_name(key)} cannot be made"
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
    """What is to be said of one object that the target is to have; empty if it is as it is to be."""
    if is_late and _is_unchecked(state, there.owner.id, context):
        return ""
    digest, reason, message = (*reported.get(_name(key), ()), "", "", "")[:3]
    if digest != there.digest:
        return f"{_name(key)} is not there yet"
    if reason == FAILED or not _is_as_good(state, there.owner.id, reason, context):
        return f"{_name(key)}: {message or reason}"
    return ""


def _is_unchecked(state: TenantState, owner: UUID, context: Context) -> bool:
    """Whether these are credentials that nobody knows to work here either, as they are now."""
    check, known = state.checks.get(owner), state.plain_resources.get(owner)
    if known is None or context.policy.kinds[known.kind].check_reasons is None:
        return False
    return check is None or check.digest != state.checked_digest(owner)


def _is_as_good(state: TenantState, owner: UUID, reason: str, context: Context) -> bool:
    """Whether credentials work there if they do here."""
    check, known = state.checks.get(owner), state.plain_resources.get(owner)
    reasons = context.policy.kinds[known.kind].check_reasons if known is not None else None
    return check is None or reasons is None or check.reason != reasons.succeeded or reason == reasons.succeeded


def _unmovable(move: Move, held: Sequence[Deployment], context: Context) -> str:
    """What would be deployed to another cluster, and be left behind on its own."""
    if len({context.fleet.instances[each].engine_cluster for each in (move.source, move.target)}) == 1:
        return ""
    name = next((each.name for each in held if each.environment_id is None), "")
    return f"deployment {name} names no environment: what it has deployed would stay in the cluster" if name else ""


def _refusal(state: TenantState, move: Move, unmovable: str, context: Context) -> str:
    """The rule by which the tenant, as it is by now, would not be ordered to go to the target; empty if none."""
    own = state.tenant.engine_instance_id
    others = state.parts.keys() - {own}
    source, target = (context.fleet.instances[each] for each in (move.source, move.target))
    of_cluster = refusal_of_cluster(source, target) if others else unmovable
    return of_cluster or refusal_of_part(move.target, others, own, state.tenant.full_name)


def _unpaused(state: TenantState, held: Sequence[Deployment], context: Context, *, is_late: bool) -> str:
    """What still runs at the source, or is on its way out of it. One that is down may never end what it does.

    ``is_late``: whether nothing is waited for but sync runs, of a source that works. Who releases an Application ends
    its automation and its sync in any case, and the target goes on with what is being deleted.
    """
    move = state.move
    if move is None or move.step != "pausing":
        return ""
    leaves_deletions = is_late or move.path != "whole"
    for each in held:
        if not each.is_active and not leaves_deletions:
            return f"the deletion of {each.name}"
        observed = state.observed.get(each.id)
        is_paused = observed is not None and each.digest in (observed.applied_digest, observed.failed_digest)
        if each.is_active and not is_paused and not is_late:
            return f"the source to pause {each.name}"
    return _under_way(state, held, context, is_late=is_late) if move.path == "whole" else ""


def _under_way(state: TenantState, held: Sequence[Deployment], context: Context, *, is_late: bool) -> str:
    """The first sync that has not ended; ``is_late``: of sync runs alone, as the next step ends all others."""
    ids = {each.id for each in held}
    runs = (run for run in state.sync_runs.values() if run.deployment_id in ids)
    for run in runs:
        if run.state not in OVER and run.state != "Waiting":
            return f"the sync run of {run.deployment_name}"
    syncing = (each for each in held if not is_late and _is_syncing(state.observed.get(each.id), context))
    return next((f"the sync of {each.name}" for each in syncing), "")


def _is_syncing(known: Observed | None, context: Context) -> bool:
    """Whether the instance that has a deployment says so; of what the one before it said nobody tells the end."""
    return known is not None and not _is_unseen(known) and context.engine.is_syncing(known.status)


def _is_adopted(state: TenantState, known: Deployment) -> bool:
    observed = state.observed.get(known.id)
    if observed is None or known.digest not in (observed.applied_digest, observed.failed_digest):
        return False
    return observed.failed_digest == known.digest or bool(observed.resource_version) or not observed.status


def _check_there(state: TenantState, check: Check) -> Check | None:
    """The check of a resource by the target's agent; None if it has not reported one."""
    checked = state.checked_object(check.resource_id)
    if checked is None or state.move is None:
        return None
    key, held = checked
    digest, reason, message = (*_parsed(state.move).get(_name(key), ()), "", "", "")[:3]
    if digest != held.digest or not reason:
        return None
    return replace(check, digest=digest, reason=reason, message=message)


def _reported(planned: PlannedTenant, key: EngineObjectKey, report: Sequence[str]) -> PlannedTenant:
    move = planned.state.move
    if move is None:
        return planned
    text = canonical({**_parsed(move), _name(key): list(report)})
    return planned.with_state(planned.state._replace(move=replace(move, reported=text)))


def _parsed(move: Move) -> Reported:
    found = orjson.loads(move.reported)
    if not isinstance(found, dict):
        raise Permanent("what was reported of a move is no mapping")
    return found


def _name(key: EngineObjectKey) -> str:
    return "/".join(key)
