"""Compiles deployments: each newest spec becomes a manifest, or there is a reason why it waits.

Level-based: the result depends on the row, the environments and the quota, not on what happened. A spec names an
environment. Once the spec is in force, the deployment is bound to the id of that environment, until another spec is in
force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from services.common.errors import Permanent, Wait
from services.common.urls.repository_url import normalised
from services.kinds.gitops_deployment import catalogue as texts
from services.kinds.gitops_deployment import rules as deployment_rules
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT, GitOpsDeploymentSpec
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.gitops_deployment.validation import accepted_deployment, resolve
from services.planner.domain.fleet.placement.parts import has_room, part_for
from services.planner.domain.indexed_rows import Groups, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant, StepResult
from services.planner.domain.state import BY_INSTANCE, TenantState
from services.planner.domain.steps.environments import Environments, changed_clusters
from services.planner.domain.steps.handover.moved_deployments import stays_on_engine
from services.planner.domain.steps.quotas import Usage, room_for, waiting_for_room
from services.planner.engines.interface import LOCAL, NOWHERE, Manifest, Target


@dataclass(frozen=True, slots=True)
class CompiledDeployment:
    """A deployment, and its manifest."""

    row: Deployment
    manifest: Manifest | None = None
    """The manifest for the engine; None: what is there stays as it is, or is removed."""


def compile_deployments(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the manifests of its deployments.

    Compiled are deployments that events touched, those whose environment changed, those that now fit the quota, and, if
    operators may have changed the policy, those that were refused.
    """
    if planned.cause is None:
        return planned
    return planned.after(_compile_concerned(planned.state, planned.touched.keys(), context))


def _compile_concerned(state: TenantState, touched: Collection[UUID], context: Context) -> StepResult:
    concerned = [subject for subject in touched if subject in state.deployments]
    if not context.is_known:
        refused = (each.id for each in state.deployments.values() if _is_refused(each))
        concerned += sorted({*refused}.difference(touched))
    changed = changed_clusters(state, context.before, context.policy.kinds)
    if not concerned and not changed and not _may_leave_room(state, context):
        return StepResult(state)
    environments = Environments(state)
    usage = Usage.of(context.before.deployments, state)
    step, compiled = StepResult(state), set[UUID]()

    def compile_all(subjects: Iterable[UUID], step: StepResult, usage: Usage) -> tuple[StepResult, Usage]:
        """Each once; counted as it was before the batch, until it is compiled."""
        for subject in subjects:
            if subject not in compiled:
                known, counted = state.deployments[subject], context.before.deployments.get(subject)
                row = _placed(_resolved(known, counted, environments, usage, context), usage, step.state, context)
                found = _compiled(row, environments, context)
                step, usage = _with_deployment(step, known, found), usage.after(counted, found.row)
                compiled.add(subject)
        return step, usage

    affected = _affected(state, touched, changed, environments, context)
    step, usage = compile_all([*concerned, *affected], step, usage)
    step, _ = compile_all(room_for(step.state.deployments, usage, context.policy.limits), step, usage)
    return step


def _with_deployment(step: StepResult, known: Deployment, found: CompiledDeployment) -> StepResult:
    if found.manifest is not None:
        made = {(step.state.instance_of(found.row), found.manifest.key): found.manifest}
        step = step._replace(manifests={**step.manifests, **made})
    if found.row == known:
        return step
    return step._replace(state=step.state.with_deployments(found.row), touched=(*step.touched, known.id))


def _affected(
    state: TenantState,
    touched: Collection[UUID],
    changed: Collection[UUID],
    environments: Environments,
    context: Context,
) -> list[UUID]:
    """Other deployments whose environment, by name or by id, has changed."""
    before = context.before
    then = Environments(before)
    rows = [
        row for each in changed for row in (before.plain_resources.get(each), state.plain_resources.get(each)) if row
    ]
    names = {each.name for each in rows if then.named(each.name) != environments.named(each.name)}
    ids = {each for each in changed if then.with_id(each) != environments.with_id(each)}
    if not names and not ids:
        return []
    affected = [
        known.id
        for known in state.deployments.values()
        if (known.environment in names or known.environment_id in ids) and known.is_active and known.id not in touched
    ]
    return sorted(affected)


def _is_refused(known: Deployment) -> bool:
    return known.is_active and bool(known.pending_reason) and not known.over_quota


def _may_leave_room(state: TenantState, context: Context) -> bool:
    """Whether there may be room now for deployments that wait."""
    before = context.before
    if state.plain_resources is before.plain_resources and state.objects is before.objects:
        return False
    return bool(waiting_for_room(state.deployments))


def _resolved(
    now: Deployment, counted: Deployment | None, environments: Environments, usage: Usage, context: Context
) -> Deployment:
    newest = now.pending_spec or now.spec
    if newest is None or not now.is_active:
        return now
    limits = context.policy.limits
    waits_already = counted is not None and counted.spec is None and counted.pending_spec is not None
    is_newcomer = now.spec is None and now.pending_spec is not None and not waits_already
    if is_newcomer and usage.waiting >= limits.of(GITOPS_DEPLOYMENT.kind):
        # Specs beyond the quota are kept for as many deployments again as it allows; more would fill the database.
        quota = limits.message(GITOPS_DEPLOYMENT.kind)
        return deployment_rules.refuse_deployment(now, texts.QUOTA_NOT_KEPT.text(quota=quota))
    if now.pending_spec is not None and not usage.has_room(counted, now, limits):
        return replace(now, pending_reason=limits.message(GITOPS_DEPLOYMENT.kind), over_quota=True)
    free = replace(now, pending_reason="", over_quota=False) if now.pending_reason or now.over_quota else now
    return _with_spec(free, newest, environments, context)


def _with_spec(now: Deployment, newest: str, environments: Environments, context: Context) -> Deployment:
    """The row with ``newest`` in force, if its environment can be used or it needs none."""
    spec = accepted_deployment(newest)
    environment = spec.destination.environment
    try:
        if not environment:
            _check_local(context)
        view = resolve(spec, environments.named(environment) if environment else None, exists=now.spec is not None)
    except Wait:
        return now
    except Permanent as error:
        return replace(now, pending_reason=str(error))
    return replace(
        now,
        spec=newest,
        pending_spec=None,
        environment=environment,
        environment_id=UUID(view.id) if view is not None else None,
        repository=normalised(spec.source.repo_url),
    )


def _placed(now: Deployment, usage: Usage, state: TenantState, context: Context) -> Deployment:
    """The row with an instance, if it has none yet: that of most deployments of its environment, if there are any.

    A tenant that moves, or is about to, is not split. In a rebuild each deployment is on the instance that has its
    object.
    """
    sent, fleet = context.before.deployments.get(now.id), context.fleet
    if now.spec is None or (sent is not None and sent.spec is not None):
        return now
    own = context.placement.instance
    if fleet.placements:
        found = fleet.placements.get(now.id, own.id)
        return replace(now, engine_instance_id=found if found != own.id and fleet.is_there(found) else "")
    if now.environment_id is None or (not context.before.parts and has_room(own, usage.deployments)):
        return now
    others = index_of(state.deployments, BY_ENVIRONMENT).get(now.environment_id, {}).values()
    chosen = own.id
    if others:
        on = Counter(map(state.instance_of, others))
        chosen = min(on, key=lambda each: (-on[each], each))
    elif context.may_split:
        counted = {each or own.id: count for each, count in index_of(state.deployments, BY_INSTANCE).items()}
        chosen = part_for(now.environment_id, context.before.tenant, counted, fleet)
    return replace(now, engine_instance_id="" if chosen == own.id else chosen)


BY_ENVIRONMENT: Groups[Deployment, UUID] = Groups(
    lambda known: known.environment_id if known.spec is not None else None
)
"""Deployments that are on an engine, by their environments' ids."""


def _check_local(context: Context) -> None:
    """Raises Permanent unless the tenant's namespace is one of the engine's own cluster, and not the platform's.

    From ``releasing`` on a move does not go back, so the target's cluster counts, too.
    """
    tenant, move = context.before.tenant, context.move
    on = {tenant.engine_instance_id} if move is None or move.step != "releasing" else {move.source, move.target}
    if not context.policy.clusters_of(tenant.workspace):
        raise Permanent(texts.NO_LOCAL_CLUSTER.message)
    if any(map(context.is_platform_on, on)):
        raise Permanent(texts.PLATFORM_NAMESPACE.message)
    if not all(map(context.is_local_on, on)):
        raise Permanent(texts.NOT_ON_ENGINES_CLUSTER.message)


def _compiled(now: Deployment, environments: Environments, context: Context) -> CompiledDeployment:
    """The row with the digest of its manifest. A deployment that was never sent and is not wanted has none."""
    if now.spec is None:
        return CompiledDeployment(now if now.is_active else deployment_rules.empty_deployment(now))
    sent = context.before.deployments.get(now.id)
    if not stays_on_engine(now, context.before, context.move):
        # What an engine holds goes as it is: a manifest that changed now would be one more thing to apply.
        if sent is None or sent.spec is None:
            return CompiledDeployment(deployment_rules.empty_deployment(now))
        return CompiledDeployment(
            replace(
                now,
                spec=sent.spec,
                environment_id=sent.environment_id,
                repository=sent.repository,
                digest=sent.digest,
                pending_spec=None,
            )
        )
    spec = accepted_deployment(now.spec)
    target = _target(spec, now, environments)
    if context.is_halted(now) or not now.is_active:  # of what is deleted after a move nothing is to be made anew
        spec = spec.without_automation()
    manifest = context.engine.deployment(context.placement_of(now), now.id, now.uid, spec, target)
    if context.move is not None and context.move.step == "releasing" and context.is_moved(now):
        manifest = context.engine.released(manifest, at_once=context.move.path != "whole")
    return CompiledDeployment(replace(now, digest=manifest.digest), manifest)


def _target(spec: GitOpsDeploymentSpec, now: Deployment, environments: Environments) -> Target:
    """Where the deployment goes; nowhere if its environment is gone: what it deployed there is left alone."""
    if not spec.destination.environment:
        return LOCAL
    view = environments.with_id(now.environment_id) if now.environment_id is not None else None
    return NOWHERE if view is None else Target(UUID(view.id), view.cluster_resources)
