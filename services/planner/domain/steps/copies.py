"""Compiles a tenant's projects, clusters and repositories on other instances than its own.

An instance has such copies as long as it has a part of the tenant's deployments, and from when a move to it is
prepared. The same steps compile them, as if the tenant were there. Copies only let deployments be there; checks of
credentials count on the tenant's own instance alone. The source of a move loses its copies once the target has all
deployments.
"""

from __future__ import annotations

from dataclasses import replace

from services.kinds.gitops_deployment.validation import accepted_deployment
from services.planner.domain.planned_tenant import Context, PlacedKey, PlannedTenant, StepResult, withdraw_objects
from services.planner.domain.state import TenantState
from services.planner.domain.steps.engine_objects import compile_copies_of_resources, handed_over
from services.planner.domain.steps.projects import compile_projects_on
from services.planner.engines.interface import NOWHERE, Manifest, Placement
from services.planner.rows.compiled import TENANT, EngineObject, Owner


def compile_copies(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its objects on other instances."""
    if planned.cause is None:
        return planned
    own, wanted = planned.state.tenant.engine_instance_id, instances_with_copies(planned.state)
    for instance in sorted({*wanted, *planned.state.objects_by_instance} - {own}):
        there = StepResult(planned.state.on_instance(instance))
        seen = _context_on(instance, context)
        if instance in wanted:
            step = _compiled(there, seen)
        elif context.left is not None and context.left.instance.id == instance:
            step = _left(there, context.left, context)
        elif awaits_adoption(instance, context):
            continue
        else:
            step = withdraw_objects(there, there.state.objects, handed_over(there.state, seen))
        planned = planned._replace(
            state=planned.state._replace(objects_by_instance=step.state.objects_by_instance),
            manifests={**planned.manifests, **_of_held(step)},
        )
    return planned


def instances_with_copies(state: TenantState) -> frozenset[str]:
    """Instances where the tenant has a part, or is about to have one."""
    move = state.move
    coming = {move.target} if move is not None and move.step in ("preparing", "pausing", "releasing") else set()
    return frozenset({*state.parts, *coming} - {state.tenant.engine_instance_id})


def awaits_adoption(instance: str, context: Context) -> bool:
    """Whether the tenant moves away from ``instance``, and the target does not have all deployments yet."""
    return context.move is not None and context.move.step == "adopting" and context.move.source == instance


def _context_on(instance: str, context: Context) -> Context:
    """The context as if the tenant were on ``instance``. Copies are known if they were there, with the same basis."""
    seen = replace(context, before=context.before.on_instance(instance))
    if context.is_known and instance in instances_with_copies(context.before):
        return replace(seen, before=seen.before._replace(basis=seen.basis))
    return replace(seen, before=seen.before._replace(basis=None, plain_resources={}))


def _compiled(there: StepResult, context: Context) -> StepResult:
    step = compile_copies_of_resources(there.state, context)
    projects = compile_projects_on(step.state, context)
    return projects._replace(manifests={**step.manifests, **projects.manifests})


def _left(there: StepResult, left: Placement, context: Context) -> StepResult:
    """The source with the Applications that it may still have. It releases them once it can be reached.

    Their owner is the tenant, because the deployments may be deleted meanwhile.
    """
    if context.move is None or context.move.path != "fenced":
        return there
    engine, owner = context.engine, Owner(TENANT, context.before.tenant.id)
    for known in map(context.before.deployments.__getitem__, sorted(context.handed_over)):
        if known.spec is not None:
            manifest = engine.deployment(left, known.id, known.uid, accepted_deployment(known.spec), NOWHERE)
            manifest = engine.released(manifest, at_once=True)
            released = EngineObject(False, manifest.digest, manifest.size, owner)
            there = there.with_state(there.state.with_objects({manifest.key: released})).with_manifests([manifest])
    return there


def _of_held(step: StepResult) -> dict[PlacedKey, Manifest]:
    """Manifests of objects that are stored. One that is too long is reported on the tenant's own instance."""
    return {placed: made for placed, made in step.manifests.items() if placed[1] in step.state.objects}
