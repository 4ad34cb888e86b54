"""Compiles environments and credentials to the objects that make clusters and repositories known to the engine.

Only those that an event concerns are compiled again: their row, their Secret or what is held of them has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from services.kinds.managed_environment import validation as managed_environment
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.managed_environment.validation import accepted_environment
from services.kinds.repository_credential import validation as repository_credential
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.repository_credential.validation import accepted_credential
from services.kinds.secret.rules import SealedSecret, SecretReference, is_taken_back
from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.lifecycle import refused
from services.kinds.shared.rows import Resource
from services.kinds.shared.schema import ApiModel
from services.planner.domain.planned import Context, Planned, made_for, release, want
from services.planner.domain.state import TenantState
from services.planner.domain.steps.environments import allows_cluster_resources, changed_environments, in_force
from services.planner.domain.table import differing
from services.planner.engines.interface import Manifest
from services.planner.rows import ObjectKey, Role

CONNECTED = frozenset({MANAGED_ENVIRONMENT.kind, REPOSITORY_CREDENTIAL.kind})
OVERSIZED = "what follows from it and its Secret is longer than 1 MiB; make the Secret smaller"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the step looks at again and again, in the order in which it is needed."""

    context: Context
    secrets: Mapping[str, Resource]
    secrets_before: Mapping[str, Resource]
    owned: Mapping[UUID, Collection[ObjectKey]]
    """What is held of each environment and credential."""
    owned_before: Mapping[UUID, Collection[ObjectKey]]
    cluster_resources: bool = False
    """An environment allows resources outside of namespaces."""

    def secret_of(self, known: Resource, reference: SecretReference) -> SealedSecret:
        """The Secret that it names. Raises Refused."""
        return reference.read_secret(known, self.secrets.get(known.refers_to), self.context.policy.limits)


def connect(planned: Planned, context: Context) -> Planned:
    """Environments first: credentials are known to the deployments of environments, too."""
    state, before = planned.state, context.before
    if state.resources is before.resources and state.objects is before.objects and state.checks is before.checks:
        return planned
    inputs = Inputs(context, state.secrets(), before.secrets(), state.objects_by_owner(), before.objects_by_owner())
    concerned = _concerned(state, inputs)
    planned = _compile_all(planned, _chosen(state, MANAGED_ENVIRONMENT.kind, concerned), inputs, _compile_environment)
    credentials, inputs = _with_privilege(planned, _chosen(state, REPOSITORY_CREDENTIAL.kind, concerned), inputs)
    planned = _compile_all(planned, credentials, inputs, _compile_credential)
    for kind in _unconnected(context):
        planned = _compile_all(planned, _chosen(state, kind, concerned), inputs, _accept_alone)
    return _release_orphans(planned)


def _compile_all(planned: Planned, resources: Iterable[Resource], inputs: Inputs, compile_it: Compile) -> Planned:
    for known in resources:
        planned = _compile_one(planned, known, inputs, compile_it)
    return planned


def _chosen(state: TenantState, kind: str, chosen: Collection[UUID]) -> list[Resource]:
    """Resources of a kind, in the order of their creation."""
    rows = state.rows_of_kind(kind)
    return sorted((rows[each] for each in chosen if each in rows), key=lambda known: (known.created_at, known.id))


def _unconnected(context: Context) -> list[str]:
    """Kinds with a spec that an engine need not know of."""
    kinds = context.policy.kinds.resource_kinds
    return [kind.name for kind in kinds if kind.accept_spec is not None and kind.name not in CONNECTED]


def _with_privilege(planned: Planned, credentials: list[Resource], inputs: Inputs) -> tuple[list[Resource], Inputs]:
    """The credentials to compile: all of them if environments now allow resources outside of namespaces, or no more."""
    state, before, engine = planned.state, inputs.context.before, inputs.context.engine
    changed = changed_environments(state, before, engine)
    if not credentials and not changed:
        return credentials, inputs
    privileged = allows_cluster_resources(state, engine)
    if changed and privileged != allows_cluster_resources(before, engine):
        credentials = state.of_kind(REPOSITORY_CREDENTIAL.kind)
    return credentials, replace(inputs, cluster_resources=privileged)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a resource has come to."""

    accepted: ApiModel | None
    """Its spec, if that is right."""
    manifests: tuple[Manifest, ...] = ()
    refusal: Refused | None = None


Compile = Callable[[Resource, Inputs], Compiled]


def _concerned(state: TenantState, inputs: Inputs) -> set[UUID]:
    """Resources of which anything that their objects follow from is not what it was."""
    before = inputs.context.before
    owners = {
        held.owner
        for key in differing(state.objects, before.objects)
        if (held := state.objects.get(key) or before.objects.get(key)) is not None and held.owner is not None
    }
    others = {each for each in owners if list(inputs.owned.get(each, ())) != list(inputs.owned_before.get(each, ()))}
    found = others | set(differing(state.resources, before.resources))
    now, then = inputs.secrets, inputs.secrets_before
    secrets = {name for name in {**now, **then} if now.get(name) is not then.get(name)}
    return found | {each.id for each in state.resources.values() if secrets and each.refers_to in secrets}


def _compile_one(planned: Planned, known: Resource, inputs: Inputs, compile_it: Compile) -> Planned:
    """The tenant with what follows from ``known``.

    One that is wrong now keeps what it has, so that a slip does not cut off what runs; but not if the Secret that it
    names is gone: taking that away is how a user takes the credentials back.
    """
    owned = [key for key in inputs.owned.get(known.id, ()) if key in planned.state.objects]
    if not known.wanted:
        return _release(planned, known, owned, inputs)
    compiled = compile_it(known, inputs)
    row = refused(known, compiled.refusal)
    if compiled.accepted is not None:
        row = replace(row, accepted=compiled.accepted.model_dump_json(by_alias=True, exclude_none=True))
    if row != known:
        planned = planned.with_state(planned.state.with_resources(row))
    if compiled.refusal is None:
        planned = _forget_if_withdrawn(planned, row, inputs)
        planned = want(planned, compiled.manifests, _role(known), known.id)
        kept = {manifest.key for manifest in compiled.manifests}
    else:
        secret = inputs.secrets.get(known.refers_to)
        stays = compiled.refusal.reason != Reason.SECRET_NOT_FOUND and not is_taken_back(known, secret)
        kept = set(owned) if stays else set()
    return _release(planned, row, [key for key in owned if key not in kept], inputs)


def _role(known: Resource) -> Role:
    return Role.ENVIRONMENT if known.kind == MANAGED_ENVIRONMENT.kind else Role.CREDENTIAL


def _compile_environment(environment: Resource, inputs: Inputs) -> Compiled:
    context = inputs.context
    try:
        spec = managed_environment.accept(environment, context.policy.addresses, context.policy.limits)
        secret = inputs.secret_of(environment, managed_environment.SECRET_REFERENCE)
        manifest = context.engine.environment(context.placement, environment.id, environment.uid, spec, secret)
        return Compiled(spec, _sized([manifest]))
    except Refused as why:
        return Compiled(None, refusal=why)


def _compile_credential(credential: Resource, inputs: Inputs) -> Compiled:
    context = inputs.context
    try:
        spec = repository_credential.accept(credential, context.policy.addresses, context.policy.limits)
    except Refused as why:
        return Compiled(None, refusal=why)
    try:
        secret = inputs.secret_of(credential, repository_credential.SECRET_REFERENCE)
        manifests = context.engine.credential(
            context.placement, credential.id, credential.uid, spec, secret, cluster_resources=inputs.cluster_resources
        )
        return Compiled(spec, _sized(manifests))
    except Refused as why:
        return Compiled(spec, refusal=why)


def _accept_alone(known: Resource, inputs: Inputs) -> Compiled:
    """Of a kind that an engine need not know of."""
    policy = inputs.context.policy
    accept = policy.kinds[known.kind].accept_spec
    try:
        return Compiled(accept(known, policy.addresses, policy.limits) if accept is not None else None)
    except Refused as why:
        return Compiled(None, refusal=why)


def _sized(manifests: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """The same. Raises Refused if one exceeds 1 MiB."""
    if any(manifest.is_oversized for manifest in manifests):
        raise Refused("Unknown", Reason.INVALID_SPEC, OVERSIZED)
    return tuple(manifests)


def _forget_if_withdrawn(planned: Planned, known: Resource, inputs: Inputs) -> Planned:
    """An environment's object is wanted. If it was not before, no engine holds what once worked."""
    check = planned.state.checks.get(known.id)
    if known.kind != MANAGED_ENVIRONMENT.kind or check is None or not check.worked:
        return planned
    key = made_for(known, inputs.context.engine)
    if inputs.context.before.wanted_digest(key) is not None:
        return planned
    return planned.with_state(planned.state.with_checks(replace(check, worked="")))


def _release(planned: Planned, known: Resource, keys: Sequence[ObjectKey], inputs: Inputs) -> Planned:
    leaving = [key for key in keys if planned.state.objects[key].wanted]
    return release(planned, leaving, _departing(planned.state, known, inputs)) if leaving else planned


def _departing(state: TenantState, known: Resource, inputs: Inputs) -> dict[ObjectKey, Manifest]:
    """What an agent is told of objects that have to go.

    A tenant's own Secret only if it needs that to remove, with the identity in it, a service account that it made.
    """
    context = inputs.context
    if not known.accepted or known.kind not in CONNECTED:
        return {}
    if known.kind == REPOSITORY_CREDENTIAL.kind:
        login = accepted_credential(known.accepted)
        made = context.engine.credential(context.placement, known.id, known.uid, login, None, cluster_resources=True)
        return {manifest.key: manifest for manifest in made}
    if any(each.create_new_service_account for each in in_force(known, state.checks.get(known.id))):
        return {}
    spec = accepted_environment(known.accepted)
    manifest = context.engine.environment(context.placement, known.id, known.uid, spec, None)
    return {manifest.key: manifest}


def _release_orphans(planned: Planned) -> Planned:
    """What was made of a resource that nobody remembers is not wanted."""
    owned = planned.state.objects_by_owner()
    forgotten = [each for each in owned if each not in planned.state.resources]
    return release(planned, [key for each in forgotten for key, held in owned[each].items() if held.wanted], {})
