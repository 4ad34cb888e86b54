"""The audit of a plan: the records of operations that it opens, and the results of those that are open.

An operation is a row for one change of a resource. It stays open while an agent still has to report a result, or while
the change waits for what it needs.

Its id is made from the resource's uid and generation, so that a later result finds its row. If the API server of a
workspace is restored from a backup, a resource may have an older generation again, or exist again. Its next changes
then have ids of rows that exist. These rows get another id (:class:`AuditedChange`), and each change gets a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from services.kinds.gitops_deployment.left_behind import Resource, listed
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.kinds.sync_run.rules import OVER, SUCCEEDED
from services.planner.domain.fleet.agent_orders import NOBODY
from services.planner.domain.fleet.moves.moves import NUMBERS
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow, Move
from services.planner.domain.ids import displaced_operation_id, operation_id, resource_id
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.rows.audit import Action, AuditedChange, AuditOutcome, AuditRecord, AuditState
from services.planner.rows.tenants import Tenant

DELETION = "deletion"
FORCED = "the engine did not finish in time"
"""How the message of a forced deletion begins. What was deployed may be left behind; ``gitopsctl`` lists such
deletions."""
RESYNC_ACTOR = "resync"
REPLACED_ACTOR = "replaced"
RESTORED_ACTOR = "restored"
"""The actor of a resource that a restored API server has again, or at an older generation. Nobody has written it."""
REISSUE_ACTOR = "gitopsctl"
"""The actor of commands by which operators put a former spec in force. The generation of the resource stays."""
MOVE = "Move"
"""The kind of an audit row about a tenant's move. It is about no custom resource."""
PLACEMENT = "Placement"
"""The kind of an audit row about where a tenant was placed first, or where a split one has its parts."""
ROLLOUT = "Rollout"
"""The kind of an audit row about a rollout. It is about no tenant."""
ENGINE_INSTANCE = "EngineInstance"
"""The kind of an audit row about the state or the health of an engine instance."""
PLANNER, AGENT = "planner", "agent"
"""Who changed an instance that no operator has changed."""
Audited = Deployment | PlainResource
Outcome = tuple[AuditState, str]
COMPLETED: Outcome = ("Completed", "")


def forced_deletion(name: str, environment: str = "", resources: Sequence[Resource] = ()) -> str:
    """The message of a forced deletion.

    Args:
        name: the name of the object on the engine.
        environment: where it deployed to, by its tenant's name for it; empty: no environment.
        resources: the resources that it was last seen to have deployed.
    """
    where = f" in environment {environment}" if environment else ""
    last = f"; last seen were {listed(resources)}" if resources else ""
    return f"{FORCED}: what {name} made may be left behind{where}{last}"


def change_id(subject: Audited) -> UUID:
    """Id of the operation that made the CR what it is now."""
    change = f"generation/{subject.generation}" if subject.is_active else DELETION
    return operation_id(subject.id, change)


def outcome_of_run(resource: PlainResource, run: SyncRun, at: datetime) -> AuditOutcome:
    """The result of the operation of ``resource``, whose run is over. A run that ended unbegun has not failed."""
    succeeded = run.state == "Ended" and run.phase in {SUCCEEDED, ""}
    return AuditOutcome(change_id(resource), "Completed" if succeeded else "Failed", run.message, at)


def audit_records(
    planned: PlannedTenant, finished: Collection[UUID], context: Context
) -> tuple[tuple[AuditRecord, ...], tuple[AuditOutcome, ...]]:
    """The records that the plan opens, with results that are known already, and results of older records."""
    opened = {operation.id: operation for operation in _opened(planned, context)}
    moved: dict[UUID, AuditOutcome] = {}
    for outcome in (*_superseded(planned, context), *planned.outcomes, *_concluded(planned, finished, context)):
        if outcome.id in opened:
            opened[outcome.id] = replace(opened[outcome.id], state=outcome.state, message=outcome.message)
        elif not _adds_nothing(outcome, moved.get(outcome.id)):
            moved[outcome.id] = outcome
    return tuple(opened.values()), tuple(moved.values())


def audited_changes(planned: PlannedTenant, context: Context) -> Iterator[AuditedChange]:
    """The changes of resources. Each gets a row, whatever rows there are."""
    for before, now, cause in _audited(planned, context):
        if before is None or _is_change(before, now):
            change = change_id(now)
            deletion = operation_id(now.id, DELETION) if before is None and now.is_active else None
            yield AuditedChange(change, displaced_operation_id(change, cause.at), deletion)


def audit_of_move(move: Move | None, before: Move | None) -> tuple[AuditRecord, ...]:
    """A row for the step that the tenant's move has begun; none if it had begun before."""
    if move is None or (before is not None and before.step == move.step):
        return ()
    return (move_record(move),)


def move_record(move: Move) -> AuditRecord:
    """The audit row of the step that a move is at."""
    return AuditRecord(
        id=operation_id(move.id, move.step),
        deployment_id=move.tenant_id,
        workspace=move.workspace,
        namespace=move.namespace,
        kind=MOVE,
        name=move.target,
        generation=NUMBERS[move.step],
        action="update",
        actor=move.actor,
        state="Completed",
        message=f"{move.step}: from {move.source} to {move.target}{move.message and f'; {move.message}'}",
        trace_id="",
        created_at=move.step_since,
    )


def audit_of_placement(tenant: Tenant, before: Tenant, cause: Cause) -> tuple[AuditRecord, ...]:
    """A row for where a tenant is placed first; none if it was placed before. Later it changes by moves.

    A tenant without any resource is forgotten, and may be placed again.
    """
    if before.engine_instance_id or not tenant.engine_instance_id:
        return ()
    instance = tenant.engine_instance_id
    return (_placement(tenant, instance, "create", f"placed on {instance}", cause),)


def audit_of_parts(planned: PlannedTenant, context: Context, cause: Cause) -> tuple[AuditRecord, ...]:
    """A row for each instance where a split tenant gets or loses a part.

    Parts that a move brings or takes away are in the rows of the move.
    """
    tenant, before, now = planned.state.tenant, context.before.parts.keys(), planned.state.parts.keys()
    move = context.move if context.left is not None else None
    moved = {move.source, move.target} if move is not None else set[str]()
    come, gone = sorted(now - before - moved), sorted(before - now - moved)
    return (
        *(_placement(tenant, each, "create", f"a part placed on {each}", cause) for each in come),
        *(_placement(tenant, each, "delete", f"no part left on {each}", cause) for each in gone),
    )


def _placement(tenant: Tenant, instance: str, action: Action, message: str, cause: Cause) -> AuditRecord:
    return AuditRecord(
        id=operation_id(tenant.id, f"{PLACEMENT} {action} {instance} {cause.at.isoformat()}"),
        deployment_id=tenant.id,
        workspace=tenant.workspace,
        namespace=tenant.namespace,
        kind=PLACEMENT,
        name=instance,
        generation=0,
        action=action,
        actor=PLANNER,
        state="Completed",
        message=message,
        trace_id=cause.trace_id,
        created_at=cause.at,
    )


def rollout_records(rollout: Rollout | None, before: Rollout | None, now: datetime) -> tuple[AuditRecord, ...]:
    """The audit row of what a rollout has come to; none if nothing has changed."""
    if rollout is None or (before is not None and _place(before) == _place(rollout)):
        return ()
    where = " ".join(filter(None, (rollout.ring, f"{rollout.stage} %" if rollout.stage else "")))
    summary = f"{'paused at ' if rollout.is_paused else ''}{rollout.step}{where and f': {where}'}"
    record = AuditRecord(
        id=operation_id(rollout.id, f"{_place(rollout)} {now.isoformat()}"),
        deployment_id=rollout.id,
        workspace="",
        namespace="",
        kind=ROLLOUT,
        name=rollout.version,
        generation=0,
        action="update",
        actor=rollout.actor,
        state="Completed",
        message=f"{summary}{rollout.reason and f'; {rollout.reason}'}",
        trace_id="",
        created_at=now,
    )
    return (record,)


def state_records(
    instances: Mapping[str, EngineInstanceRow], before: Mapping[str, EngineInstanceRow], now: datetime
) -> tuple[AuditRecord, ...]:
    """Audit rows of instances whose state changed without an order. Orders have rows of their own."""
    changed = ((row, before[row.id]) for row in instances.values() if row.id in before)
    return tuple(
        _changed_instance(row.id, f"{known.state} to {row.state}{_because(row.state_message)}", PLANNER, now)
        for row, known in changed
        if known.state != row.state
    )


def health_record(health: InstanceHealth, before: InstanceHealth, at: datetime) -> AuditRecord:
    """The audit row of the health of an instance ``at`` a time, as its agent reported it or did not report."""
    reason = health.reason and f" ({health.reason})"
    summary = f"{health.health}{reason}{_because(health.message)}{_because(_other_version(health, before))}"
    return _changed_instance(health.engine_instance_id, summary, AGENT, at)


def _other_version(health: InstanceHealth, before: InstanceHealth) -> str:
    """How the version has changed; empty if it has not."""
    if health.version == before.version:
        return ""
    return f"version {before.version or 'unknown'} to {health.version or 'unknown'}"


def _because(message: str | None) -> str:
    return f"; {message}" if message else ""


def _changed_instance(instance: str, message: str, actor: str, at: datetime) -> AuditRecord:
    return instance_record(ENGINE_INSTANCE, instance, f"{message} {at.isoformat()}", message, actor, at)


def instance_record(  # noqa: PLR0917 - a row
    kind: str, instance: str, change: str, message: str, actor: str, at: datetime, generation: int = 0
) -> AuditRecord:
    """An audit row of an engine instance. ``change`` tells it apart from other rows of the instance."""
    return AuditRecord(
        id=operation_id(resource_id("", instance), change),
        deployment_id=NOBODY,
        workspace="",
        namespace="",
        kind=kind,
        name=instance,
        generation=generation,
        action="update",
        actor=actor,
        state="Completed",
        message=message,
        trace_id="",
        created_at=at,
    )


def _place(rollout: Rollout) -> tuple[object, ...]:
    """How far a rollout is, without the counts."""
    return (rollout.step, rollout.ring, rollout.stage, rollout.is_paused, rollout.outcome)


def _adds_nothing(outcome: AuditOutcome, known: AuditOutcome | None) -> bool:
    """Whether a result adds nothing to the known one but its message."""
    return known is not None and known.state == outcome.state and not outcome.message


def _audited(planned: PlannedTenant, context: Context) -> Iterator[tuple[Audited | None, Audited, Cause]]:
    """Touched resources of audited kinds: before, now, and the cause."""
    for subject, cause in planned.touched.items():
        deployment, resource = planned.state.deployments.get(subject), planned.state.plain_resources.get(subject)
        if deployment is not None:
            yield context.before.deployments.get(subject), deployment, cause
        elif resource is not None and context.policy.kinds[resource.kind].audited:
            yield context.before.plain_resources.get(subject), resource, cause


def _opened(planned: PlannedTenant, context: Context) -> Iterator[AuditRecord]:
    for before, now, _ in _audited(planned, context):
        if before is None or _is_change(before, now) or _problem(before) != _problem(now):
            actor = RESTORED_ACTOR if _is_restored(before, now) else planned.actors.get(now.id, "")
            yield _operation(before, now, planned.state.tenant, actor)
    yield from _reissued(planned, context)


def _reissued(planned: PlannedTenant, context: Context) -> Iterator[AuditRecord]:
    """Records of specs that operators have put in force again. They are complete: engines report on the change."""
    for before, now, cause in _audited(planned, context):
        if planned.actors.get(now.id) != REISSUE_ACTOR or before is None or _is_change(before, now):
            continue
        if now.is_active and _wanted_spec(before) != _wanted_spec(now):
            yield replace(
                _operation(before, now, planned.state.tenant, REISSUE_ACTOR),
                id=operation_id(now.id, f"reissue/{cause.at.isoformat()}"),
                action="reissue",
                state="Completed",
                trace_id=cause.trace_id,
                created_at=cause.at,
            )


def _wanted_spec(subject: Audited) -> str | None:
    """The newest spec of a deployment, in force or not."""
    if not isinstance(subject, Deployment):
        return None
    return subject.spec if subject.pending_spec is None else subject.pending_spec


def _superseded(planned: PlannedTenant, context: Context) -> Iterator[AuditOutcome]:
    """Results of the records before these, if they are still open: nothing is left to do for them."""
    for before, now, cause in _audited(planned, context):
        if before is not None and _is_change(before, now):
            successor = f"generation {now.generation}" if now.is_active else "the deletion"
            yield AuditOutcome(change_id(before), "Completed", f"superseded by {successor}", cause.at)


def _is_change(before: Audited, now: Audited) -> bool:
    return (before.is_active, before.generation if before.is_active else 0) != (
        now.is_active,
        now.generation if now.is_active else 0,
    )


def _is_restored(before: Audited | None, now: Audited) -> bool:
    """Whether a deleted resource exists again, or its generation is lower: only a restored API server does that."""
    if before is None or not now.is_active:
        return False
    return not before.is_active or now.generation < before.generation


def _problem(subject: Audited) -> str:
    """Why the newest spec of a deployment is not in force.

    If the spec is in force already, what makes it unusable does not count: its change is over.
    """
    if not isinstance(subject, Deployment) or not subject.is_active:
        return ""
    return subject.error or (subject.pending_reason if subject.pending_spec is not None else "")


def _concluded(planned: PlannedTenant, finished: Collection[UUID], context: Context) -> Iterator[AuditOutcome]:
    """Results of records of touched resources that are over."""
    for _, now, cause in _audited(planned, context):
        if isinstance(now, PlainResource):
            over = now.id in finished or _is_remembered_only(planned, now)
            outcome = COMPLETED if over else _outcome(planned, now, context)
            if outcome is not None:
                yield AuditOutcome(change_id(now), *outcome, cause.at)


def _is_remembered_only(planned: PlannedTenant, known: PlainResource) -> bool:
    """Whether it is a run that is over and whose CR is gone: its row stays, but nothing more happens."""
    run = planned.state.sync_runs.get(known.id)
    return not known.present and run is not None and run.state in OVER


def _outcome(planned: PlannedTenant, known: PlainResource, context: Context) -> Outcome | None:
    """The result of a change that is refused or waits, or that needs no engine; None while an engine has work."""
    refusal = refusal_of(known)
    if refusal is not None and known.is_active:
        state: AuditState = "Waiting" if _waits(known, refusal) else "Failed"
        return (state, f"{refusal.reason}: {refusal.message}")
    kind = context.policy.kinds[known.kind]
    if not known.is_active:
        return None
    if kind.concluded is not None:
        return _of_one_that_ends(kind.concluded(known))
    if kind.check_reasons is None:
        return COMPLETED if kind.accept_spec is not None else None  # there is nothing that an agent may find out
    before, now = context.before.checked_object(known.id), planned.state.checked_object(known.id)
    check = planned.state.checks.get(known.id)
    is_known = check is not None and check is context.before.checks.get(known.id)  # a new one is an outcome itself
    if check is None or not is_known or now is None or now != before or check.digest != now[1].digest:
        return None
    return COMPLETED if check.reason == kind.check_reasons.succeeded else ("Failed", check.message)


def _of_one_that_ends(concluded: tuple[bool, str] | None) -> Outcome | None:
    """The result for a resource that asks for one action: its operation ends with the action."""
    if concluded is None:
        return None
    succeeded, message = concluded
    return ("Completed" if succeeded else "Failed", message)


def _waits(known: PlainResource, refusal: Refused) -> bool:
    """Whether the change takes effect once something else comes: a Secret, its content, or room."""
    is_awaited = refusal.reason == Reason.SECRET_NOT_FOUND and bool(known.refers_to)
    return refusal.pending or is_awaited or refusal.reason == Reason.QUOTA_EXCEEDED


def _operation(before: Audited | None, now: Audited, tenant: Tenant, actor: str) -> AuditRecord:
    """The audit row of a change from ``before`` to ``now``. Reports of agents complete it."""
    return AuditRecord(
        id=change_id(now),
        deployment_id=now.id,
        workspace=tenant.workspace,
        namespace=tenant.namespace,
        kind=GITOPS_DEPLOYMENT.kind if isinstance(now, Deployment) else now.kind,
        name=now.name,
        generation=now.generation,
        action=_action(before, now),
        actor=actor.replace("\0", ""),
        state=_state(before, now),
        message=_problem(now),
        trace_id=now.trace_id,
        created_at=now.seen_at,
    )


def _action(before: Audited | None, now: Audited) -> Action:
    if not now.is_active:
        return "delete"
    return "create" if before is None or not before.is_active else "update"


def _state(before: Audited | None, now: Audited) -> AuditState:
    """The state of a new row: completed if a deployment needs no engine, failed if its spec can never be in force."""
    if not isinstance(now, Deployment):
        return "Waiting"
    if now.error and now.is_active:
        return "Failed"
    compiled = (before.digest, before.is_active) if isinstance(before, Deployment) else (None, False)
    idle = now.pending_spec is None and (now.digest is None or compiled == (now.digest, now.is_active))
    return "Completed" if idle else "Waiting"
