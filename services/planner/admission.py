"""Who of a tenant's resources is within its allowance. Called by ``tenants`` before anything follows from them.

What an engine holds counts until it is gone from there: of a resource that is refused what is in force, and of one
that no longer exists what has to be removed. Otherwise a tenant could have any number, one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from uuid import UUID

from services.common.api import ManagedEnvironmentSpec
from services.common.errors import Permanent
from services.planner.draft import Draft
from services.planner.engines.argocd_secrets import id_of
from services.planner.environments import in_force
from services.planner.kinds.limits import Claim, Share, Taken, over_quota
from services.planner.kinds.names import MANAGED_ENVIRONMENT, SYNC_RUN
from services.planner.kinds.written_spec import parsed
from services.planner.rows import Cause, Resource

KEPT_BEYOND_QUOTA = 4096
"""Characters."""
WHOLE_CLUSTER = ("*",)


def admit(draft: Draft, tenant_id: UUID, cause: Cause) -> None:
    """Those that are admitted stay; what goes makes room for the oldest of the others.

    Without its Secrets at hand a tenant's sync runs are looked at alone: no other resource has come or gone.
    """
    if tenant_id in draft.unsettled:
        known = draft.resources_of(tenant_id)
    elif any(run.id in draft.resource_causes for run in draft.of_kind(tenant_id, SYNC_RUN)):
        known = draft.of_kind(tenant_id, SYNC_RUN)
    else:
        return
    held = _held(draft, tenant_id)
    present = [resource for resource in known if resource.present]
    gone = [resource for resource in known if not resource.present and resource.id in held]
    claims = [_claim(draft, resource, is_held=resource.id in held) for resource in present]
    beyond = over_quota(claims, draft.rules.limits, _taken(draft, tenant_id, gone))
    for resource in present:
        now = _admitted(draft, resource, within=resource.id not in beyond, is_held=resource.id in held)
        if now != resource:
            draft.resources[resource.id] = now
            draft.resource_causes[resource.id] = cause


def _held(draft: Draft, tenant_id: UUID) -> frozenset[UUID | None]:
    """Resources of which an engine holds something."""
    return frozenset(id_of(name) for _, name in draft.held(tenant_id))


def _admitted(draft: Draft, known: Resource, *, within: bool, is_held: bool) -> Resource:
    """What is beyond the allowance is kept only if it is short: it would fill the database just as well."""
    if within:
        return replace(known, over_quota=False)
    refused = replace(known, over_quota=True, accepted=known.accepted if is_held else "")
    if len(known.spec) <= KEPT_BEYOND_QUOTA:
        return refused
    omitted = f"{draft.rules.limits.message(known.kind)}; change it afterwards to have it looked at again"
    return replace(refused, spec="{}", omitted=omitted)


def _taken(draft: Draft, tenant_id: UUID, gone: Iterable[Resource]) -> Taken:
    """By deployments, and by what has to be removed."""
    going = list(gone)
    size = draft.allowance.deployment_bytes(tenant_id)
    size += sum(held.size for held in draft.held(tenant_id).values() if not held.wanted)
    environments = [resource for resource in going if resource.kind == MANAGED_ENVIRONMENT]
    destinations = sum(len(_listed(in_force(draft, environment))) for environment in environments)
    return Taken(Counter(resource.kind for resource in going), Share(size, destinations))


def _claim(draft: Draft, known: Resource, *, is_held: bool) -> Claim:
    """Of what is in force a part stays so until something newer has worked: till then both count."""
    before = draft.state.resources.get(known.id)
    was_admitted = before is not None and before.present and not before.over_quota
    held = _share(draft, known, known.accepted) if is_held else None
    return Claim(
        known.id,
        known.kind,
        known.created_at,
        known.name,
        size=_share(draft, known, known.spec, is_held=is_held),
        admitted=_share(draft, before, before.spec, is_held=is_held) if before is not None and was_admitted else None,
        held=held,
    )


def _share(draft: Draft, known: Resource, text: str, *, is_held: bool = True) -> Share:
    """What it takes up with ``text`` as its spec, and with what is in force of it."""
    if known.kind != MANAGED_ENVIRONMENT:
        return Share(len(text.encode()))
    written = _written(text)
    specs = [*([written] if written is not None else ()), *(in_force(draft, known) if is_held else ())]
    return Share(len(text.encode()), len(_listed(specs)))


def _listed(specs: Iterable[ManagedEnvironmentSpec]) -> frozenset[str]:
    """Destinations that AppProjects may list because of them."""
    return frozenset(namespace for spec in specs for namespace in spec.namespaces or WHOLE_CLUSTER)


@lru_cache(maxsize=4096)
def _written(text: str) -> ManagedEnvironmentSpec | None:
    """None if nothing will follow from it."""
    try:
        return parsed(ManagedEnvironmentSpec, text)
    except Permanent:
        return None
