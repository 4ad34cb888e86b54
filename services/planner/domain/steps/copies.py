"""Compiles what other instances than the tenant's own hold of it: projects, clusters and repositories, once more.

An instance has such copies as long as it has a part of the tenant's deployments, and from when a move to it is
prepared. They are compiled by the same steps, as if the tenant were there. Nothing follows from a copy but that
deployments can be there: what is found out about credentials counts where the tenant is. What a move has left goes when
the target has all deployments.
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
    """What each of the other instances shall hold."""
    if planned.cause is None:
        return planned
    own, wanted = planned.state.tenant.engine_instance_id, instances_with_copies(planned.state)
    for instance in sorted({*wanted, *planned.state.held} - {own}):
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
            state=planned.state._replace(held=step.state.held),
            manifests={**planned.manifests, **_of_held(step)},
        )
    return planned


def instances_with_copies(state: TenantState) -> frozenset[str]:
    """Where the tenant has a part, and where it is about to have one."""
    move = state.move
    coming = {move.target} if move is not None and move.step in ("preparing", "pausing", "releasing") else set()
    return frozenset({*state.parts, *coming} - {state.tenant.engine_instance_id})


def awaits_adoption(instance: str, context: Context) -> bool:
    """Whether deployments of the tenant were there, and their target does not have all of them yet."""
    return context.move is not None and context.move.step == "adopting" and context.move.source == instance


def _context_on(instance: str, context: Context) -> Context:
    """As if the tenant had been there; only if it had copies there, and follows from the same, are these known."""
    seen = replace(context, before=context.before.on_instance(instance))
    if context.is_known and instance in instances_with_copies(context.before):
        return replace(seen, before=seen.before._replace(basis=seen.basis))
    return replace(seen, before=seen.before._replace(basis=None, plain_resources={}))


def _compiled(there: StepResult, context: Context) -> StepResult:
    step = compile_copies_of_resources(there.state, context)
    projects = compile_projects_on(step.state, context)
    return projects._replace(manifests={**step.manifests, **projects.manifests})


def _left(there: StepResult, left: Placement, context: Context) -> StepResult:
    """With Applications that the source has still, as far as anybody knows: it gives them up once it can be reached.

    They are not their deployments' any more, which may be deleted meanwhile, but the tenant's.
    """
    if context.move is None or context.move.path != "fenced":
        return there
    engine, owner = context.engine, Owner(TENANT, context.before.tenant.id)
    for known in map(context.before.deployments.__getitem__, sorted(context.handed_over)):
        if known.spec is not None:
            manifest = engine.deployment(left, known.id, known.uid, accepted_deployment(known.spec), NOWHERE)
            manifest = engine.released(manifest, at_once=True)
            held = EngineObject(False, manifest.digest, manifest.size, owner)
            there = there.with_state(there.state.with_objects({manifest.key: held})).with_manifests([manifest])
    return there


def _of_held(step: StepResult) -> dict[PlacedKey, Manifest]:
    """Manifests of what is held: what is too long is told of where the tenant is."""
    return {placed: made for placed, made in step.manifests.items() if placed[1] in step.state.objects}
