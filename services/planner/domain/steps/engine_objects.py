"""Compiles resources to objects on an engine, by the rules of their kinds.

A resource is compiled again only if an event concerns it: if its row, its Secret or its objects have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from services.kinds.secret.rules import is_taken_back, read_secret
from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.connections import ConnectionInputs, SealedSecret
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.kind import Kind
from services.kinds.shared.resource import PlainResource
from services.planner.domain.indexed_rows import differing
from services.planner.domain.planned_tenant import Context, PlannedTenant, StepResult, upsert_objects, withdraw_objects
from services.planner.domain.state import TenantState
from services.planner.domain.steps.environments import (
    allows_cluster_resources,
    changed_clusters,
    clusters_in_force,
    owners_differing,
)
from services.planner.engines.interface import Manifest
from services.planner.rows.compiled import TENANT, EngineObjectKey, Owner

OVERSIZED = "what follows from it and its Secret is longer than 1 MiB; make the Secret smaller"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What compiling each resource reads."""

    context: Context
    secrets: Mapping[str, PlainResource]
    """By name."""
    owned: Mapping[UUID, Collection[EngineObjectKey]]
    """The keys of the objects of each resource."""
    cluster_resources: bool = False
    """Whether a destination allows resources outside of namespaces."""
    are_copies: bool = False
    """Whether the objects are on another instance than the tenant's. If such a copy goes, what was made with its
    credentials stays."""


def compile_resources(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the objects of its resources on its own instance."""
    if planned.cause is None:
        return planned
    state = planned.state
    return planned.after(_compile_changed(state, Inputs(context, state.secrets(), state.objects_by_owner())))


def compile_copies_of_resources(there: TenantState, context: Context) -> StepResult:
    """Copies of these objects on another instance; ``there``: the tenant as if it were on that one."""
    return _compile_changed(there, Inputs(context, there.secrets(), there.objects_by_owner(), are_copies=True))


def _compile_changed(state: TenantState, inputs: Inputs) -> StepResult:
    """Compiles resources that list clusters first, because others depend on these."""
    context = inputs.context
    step, before, kinds = StepResult(state), context.before, context.policy.kinds
    is_same = state.plain_resources is before.plain_resources and state.checks is before.checks
    if (
        is_same
        and state.objects_by_instance is before.objects_by_instance
        and state.parts.keys() == before.parts.keys()
    ):
        return step
    concerned = _concerned(state, before, inputs.secrets)
    step = _compile_all(step, _chosen(state, kinds.listing, concerned), inputs)
    others = [kind for kind in kinds.plain_kinds if kind.accept_spec is not None and kind.destinations is None]
    step = _compile_all(step, *_with_privilege(step, _chosen(state, others, concerned), others, inputs))
    return _release_forgotten(step)


def _concerned(state: TenantState, before: TenantState, secrets: Mapping[str, PlainResource]) -> set[UUID]:
    """Resources whose objects follow from something that differs."""
    found = {each for each in owners_differing(state, before) if _keys(state, each) != _keys(before, each)}
    found |= set(differing(state.plain_resources, before.plain_resources))
    found |= _owners_of_copies_gone(state, before)
    if state.parts.keys() != before.parts.keys():
        found |= {each.id for each in state.plain_resources.values() if not each.is_active}
    then = before.secrets()
    changed = {name for name in {**secrets, **then} if secrets.get(name) is not then.get(name)}
    return found | {each.id for each in state.plain_resources.values() if changed and each.refers_to in changed}


def _owners_of_copies_gone(state: TenantState, before: TenantState) -> set[UUID]:
    """Owners of objects that another instance no longer has."""
    return {
        stored.owner.id
        for instance, objects in before.objects_by_instance.items()
        if instance != state.tenant.engine_instance_id
        for key in differing(state.objects_on(instance), objects)
        if key not in state.objects_on(instance) and (stored := objects.get(key)) is not None
    }


def _keys(state: TenantState, owner: UUID) -> list[EngineObjectKey]:
    return list(state.objects_of(owner))


def _chosen(state: TenantState, kinds: Iterable[Kind], chosen: Collection[UUID]) -> list[PlainResource]:
    """Resources of these kinds, in the order of their creation."""
    of_kinds = (state.plain_resources_of_kind(kind.name) for kind in kinds)
    found = [rows[each] for rows in of_kinds for each in chosen if each in rows]
    return sorted(found, key=lambda known: (known.created_at, known.id))


def _with_privilege(
    step: StepResult, chosen: list[PlainResource], kinds: Sequence[Kind], inputs: Inputs
) -> tuple[list[PlainResource], Inputs]:
    """The resources to compile, and whether deployments may have resources outside of namespaces.

    If that has changed, all of ``kinds`` are compiled.
    """
    state, before, registry = step.state, inputs.context.before, inputs.context.policy.kinds
    changed = changed_clusters(state, before, registry)
    if not chosen and not changed:
        return chosen, inputs
    privileged = allows_cluster_resources(state, registry)
    if changed and privileged != allows_cluster_resources(before, registry):
        chosen = _chosen(state, kinds, state.plain_resources.keys())
    return chosen, replace(inputs, cluster_resources=privileged)


def _compile_all(step: StepResult, resources: Iterable[PlainResource], inputs: Inputs) -> StepResult:
    for known in resources:
        step = _compile_one(step, known, inputs)
    return step


def _compile_one(step: StepResult, known: PlainResource, inputs: Inputs) -> StepResult:
    """The tenant with the objects of ``known``.

    A resource whose spec is invalid keeps its objects, so that a mistake does not cut off what runs. But if the Secret
    that it names is gone, the objects go: a user who deletes the Secret revokes the credentials.
    """
    owned = [key for key in inputs.owned.get(known.id, ()) if key in step.state.objects]
    if not known.is_active:
        return _release(step, known, owned, inputs)
    row = known
    try:
        row = _accepted(known, inputs)
        manifests = _compiled(row, inputs)
    except Refused as why:
        # The spec of a cluster counts once its object is compiled; a repository is listed without its login, too.
        row = known if inputs.context.policy.kinds[known.kind].destinations is not None else row
        step = _with_row(step, known, refuse_resource(row, why))
        secret = inputs.secrets.get(known.refers_to)
        stays = why.reason != Reason.SECRET_NOT_FOUND and not is_taken_back(known, secret)
        return step if stays else _release(step, row, owned, inputs)
    step = _with_row(step, known, refuse_resource(row, None))
    step = upsert_objects(_forget_if_withdrawn(step, row, inputs), manifests, Owner(known.kind, known.id))
    kept = {manifest.key for manifest in manifests}
    return _release(step, row, [key for key in owned if key not in kept], inputs)


def _with_row(step: StepResult, known: PlainResource, now: PlainResource) -> StepResult:
    return step if now == known else step.with_state(step.state.with_plain_resources(now))


def _accepted(known: PlainResource, inputs: Inputs) -> PlainResource:
    """The resource with its spec as accepted. Raises Refused."""
    policy = inputs.context.policy
    accept = policy.kinds[known.kind].accept_spec
    if accept is None:
        return known
    spec = accept(known, policy.addresses, policy.limits)
    return replace(known, accepted=spec.model_dump_json(by_alias=True, exclude_none=True))


def _compiled(row: PlainResource, inputs: Inputs) -> tuple[Manifest, ...]:
    """The manifests of a resource with an accepted spec. Raises Refused."""
    policy = inputs.context.policy
    kind, secret = policy.kinds[row.kind], None
    if kind.reference is not None and kind.names_a_secret:
        secret = read_secret(kind.reference, row, inputs.secrets.get(row.refers_to), policy.limits)
    manifests = _manifests(row, secret, inputs, cluster_resources=inputs.cluster_resources)
    if any(manifest.is_oversized for manifest in manifests):
        raise Refused("Unknown", Reason.INVALID_SPEC, OVERSIZED)
    return manifests


def _manifests(
    row: PlainResource, secret: SealedSecret | None, inputs: Inputs, *, cluster_resources: bool
) -> tuple[Manifest, ...]:
    """The manifests of ``row`` in the engine's form."""
    context, connections = inputs.context, inputs.context.policy.kinds[row.kind].connections
    wanted = connections(ConnectionInputs(row.accepted, secret)) if connections is not None else ()
    return tuple(
        manifest
        for connection in wanted
        for manifest in context.engine.objects(context.placement, row, connection, cluster_resources=cluster_resources)
    )


def _forget_if_withdrawn(step: StepResult, known: PlainResource, inputs: Inputs) -> StepResult:
    """Forget the spec that once worked if the object was not wanted before: no engine has that spec."""
    check = step.state.checks.get(known.id)
    if check is None or not check.working_spec or inputs.context.before.checked_digest(known.id) is not None:
        return step
    return step.with_state(step.state.with_checks(replace(check, working_spec="")))


def _release(step: StepResult, known: PlainResource, keys: Sequence[EngineObjectKey], inputs: Inputs) -> StepResult:
    leaving = [key for key in keys if step.state.objects[key].is_desired]
    if not inputs.are_copies and not known.is_active and _has_copies(step.state, known):
        return step  # what was made with its credentials goes last: another instance needs it to clean up
    return withdraw_objects(step, leaving, _departing(step.state, known, inputs)) if leaving else step


def _has_copies(state: TenantState, known: PlainResource) -> bool:
    """Whether an instance where the tenant has a part has an object of the resource."""
    return any(state.on_instance(instance).objects_of(known.id) for instance in state.parts)


def _departing(state: TenantState, known: PlainResource, inputs: Inputs) -> dict[EngineObjectKey, Manifest]:
    """Replacement manifests for objects that have to go.

    An object with a tenant's own Secret goes with that Secret only if the agent needs it to remove a service account
    that it made.
    """
    if inputs.are_copies:
        return _handed_over(known, inputs)
    clusters = clusters_in_force(known, state.checks.get(known.id), inputs.context.policy.kinds)
    if not known.accepted or any(cluster.creates_account for cluster in clusters):
        return {}
    return {manifest.key: manifest for manifest in _manifests(known, None, inputs, cluster_resources=True)}


def handed_over(state: TenantState, context: Context) -> dict[EngineObjectKey, Manifest]:
    """Manifests for objects that go from this instance because another one has them.

    They contain no login of a tenant. The service account that an object used stays, because the other instance uses
    it.
    """
    inputs = Inputs(context, {}, {})
    owners = [known for owner in state.objects_by_owner() if (known := state.plain_resources.get(owner)) is not None]
    return {key: manifest for known in owners for key, manifest in _handed_over(known, inputs).items()}


def _handed_over(known: PlainResource, inputs: Inputs) -> dict[EngineObjectKey, Manifest]:
    if not known.accepted:
        return {}
    manifests = _manifests(known, None, inputs, cluster_resources=True)
    return {manifest.key: inputs.context.engine.handed_over(manifest) for manifest in manifests}


def _release_forgotten(step: StepResult) -> StepResult:
    """Withdraws objects whose resource has no row."""
    resources = step.state.plain_resources
    forgotten = [
        key
        for owner, objects in step.state.objects_by_owner().items()
        if owner not in resources
        for key, stored in objects.items()
        if stored.is_desired and stored.owner.kind != TENANT
    ]
    return withdraw_objects(step, forgotten, {})
