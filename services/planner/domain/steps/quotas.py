"""Decides which of a tenant's resources are within its quotas.

Objects count until the engine has removed them, also those of refused or deleted resources. Otherwise a tenant could
have any number of objects, by creating and deleting resources one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.registry import Registry
from services.kinds.shared.limits import Claim, Limits, Share, Taken, over_quota
from services.kinds.shared.rows import Resource
from services.planner.domain.planned import Context, Planned
from services.planner.domain.state import TenantState

KEPT_BEYOND_QUOTA = 4096
"""Characters."""

ADMITTED_AT_ONCE = 500
"""Deployments that get room in one plan; the next plan goes on."""


def apply_quotas(planned: Planned, context: Context) -> Planned:
    """Those that are admitted stay; what goes makes room for the oldest of the others."""
    state, before = planned.state, context.before
    if _is_same(state, before, context.policy.kinds):
        return planned
    if _is_small(state, context):
        return planned
    held = frozenset(state.objects_by_owner())
    present = [resource for resource in state.resources.values() if resource.present]
    gone = [resource for resource in state.resources.values() if not resource.present and resource.id in held]
    kinds = context.policy.kinds
    claims = [_claim(state, before, resource, kinds, is_held=resource.id in held) for resource in present]
    beyond = over_quota(claims, context.policy.limits, _taken(state, gone, kinds))
    for resource in present:
        is_held, within = resource.id in held, resource.id not in beyond
        now = _admitted(resource, context.policy.limits, within=within, is_held=is_held)
        if now is not resource and now != resource:
            planned = planned.with_state(planned.state.with_resources(now))
            if planned.cause is not None:
                planned = planned.touching(now.id, planned.cause)
    return planned


def _is_same(state: TenantState, before: TenantState, kinds: Registry) -> bool:
    """Whether nothing that is counted has changed. A check is counted only with namespaces that were in force then."""
    if state.resources is not before.resources or state.objects is not before.objects:
        return False
    changed = (each for each, check in state.checks.items() if before.checks.get(each) is not check)
    return all(kinds[state.resources[each].kind].destinations is None for each in changed)


def _is_small(state: TenantState, context: Context) -> bool:
    """Whether everything is within the quotas already, however it is counted: then nobody has to be compared."""
    limits, kinds = context.policy.limits, context.policy.kinds
    resources = state.resources.values()
    if any(each.over_quota for each in resources):
        return False
    counts = Counter(each.kind for each in resources)
    size = sum(_bytes(each.spec) + _bytes(each.accepted) for each in resources)
    size += sum(map(spec_bytes, state.deployments.values()))
    size += sum(held.size for held in state.objects.values() if not held.wanted)
    listing = [each for each in resources if kinds[each.kind].destinations is not None]
    listed = sum(_destinations(kinds, each, each.spec, *_in_force(state, each)) for each in listing)
    fits = all(count <= limits.of(kind) for kind, count in counts.items())
    return fits and size <= limits.bytes and listed <= limits.destinations


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of its quota a tenant's deployments take up."""

    deployments: int = 0
    """With something on an engine."""
    waiting: int = 0
    """That wait for their first manifest with a spec on offer."""
    bytes: int = 0
    """Of their specs."""
    other_bytes: int = 0
    """Of all other specs in force, sealed Secrets among them, and of what has to be removed."""

    @classmethod
    def of(cls, deployments: Iterable[Deployment], state: TenantState) -> Usage:
        """Of ``deployments``, and of everything else in ``state``."""
        known = list(deployments)
        texts = [each.accepted if each.over_quota else each.spec for each in state.resources.values() if each.present]
        going = sum(held.size for held in state.objects.values() if not held.wanted)
        return cls(
            deployments=sum(each.repository is not None for each in known),
            waiting=sum(_waits(each) for each in known),
            bytes=sum(map(spec_bytes, known)),
            other_bytes=sum(map(_bytes, texts)) + going,
        )

    def after(self, before: Deployment | None, now: Deployment | None) -> Usage:
        """Once ``now`` has taken the place of ``before``."""
        return replace(
            self,
            deployments=self.deployments + _counts(now) - _counts(before),
            waiting=self.waiting + _waits(now) - _waits(before),
            bytes=self.bytes + spec_bytes(now) - spec_bytes(before),
        )

    def has_room(self, before: Deployment | None, now: Deployment, limits: Limits) -> bool:
        """Whether ``now`` may have what it asks for."""
        if now.spec is None and self.deployments >= limits.of(GITOPS_DEPLOYMENT.kind):
            return False
        return self.other_bytes + self.after(before, now).bytes <= limits.bytes


def spec_bytes(deployment: Deployment | None) -> int:
    """Length of its specs, UTF-8."""
    if deployment is None:
        return 0
    return (_bytes(deployment.spec) if deployment.spec else 0) + (
        _bytes(deployment.offered) if deployment.offered else 0
    )


def _waits(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.spec is None and deployment.offered is not None


def _counts(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.repository is not None


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _admitted(known: Resource, limits: Limits, *, within: bool, is_held: bool) -> Resource:
    """What is beyond the quota is kept only if it is short: it would fill the database just as well."""
    if within:
        return replace(known, over_quota=False) if known.over_quota else known
    refused = replace(known, over_quota=True, accepted=known.accepted if is_held else "")
    if len(known.spec) <= KEPT_BEYOND_QUOTA:
        return refused
    omitted = f"{limits.message(known.kind)}; change it afterwards to have it looked at again"
    return replace(refused, spec="{}", omitted=omitted)


def _taken(state: TenantState, gone: Iterable[Resource], kinds: Registry) -> Taken:
    """By deployments, and by what has to be removed."""
    going = list(gone)
    size = sum(map(spec_bytes, state.deployments.values()))
    size += sum(held.size for held in state.objects.values() if not held.wanted)
    destinations = sum(_destinations(kinds, each, *_in_force(state, each)) for each in going)
    return Taken(Counter(resource.kind for resource in going), Share(size, destinations))


def _claim(state: TenantState, before: TenantState, known: Resource, kinds: Registry, *, is_held: bool) -> Claim:
    """Of what is in force a part stays so until something newer has worked: till then both count."""
    admitted = before.resources.get(known.id)
    if admitted is not None and (not admitted.present or admitted.over_quota):
        admitted = None

    def share(text: str, *, with_force: bool) -> Share:
        if kinds[known.kind].destinations is None:
            return Share(_bytes(text))
        force = _in_force(state, known) if with_force else ()
        return Share(_bytes(text), _destinations(kinds, known, text, *force))

    size = share(known.spec, with_force=is_held)
    return Claim(
        known.id,
        known.kind,
        known.created_at,
        known.name,
        size=size,
        admitted=None if admitted is None else size if admitted is known else share(admitted.spec, with_force=is_held),
        held=share(known.accepted, with_force=True) if is_held else None,
    )


def _in_force(state: TenantState, known: Resource) -> tuple[str, str]:
    """Specs, JSON text, by which an engine may hold it; empty ones if there are none."""
    check = state.checks.get(known.id)
    return known.accepted, check.worked if check is not None else ""


def _destinations(kinds: Registry, known: Resource, *specs: str) -> int:
    """How many namespaces the tenant's deployments get because of these specs."""
    listed = kinds[known.kind].destinations
    return len({namespace for spec in specs if spec for namespace in listed(spec)}) if listed is not None else 0


def room_for(deployments: Iterable[Deployment], usage: Usage, limits: Limits) -> list[UUID]:
    """Deployments that wait for room, the oldest first, as many as there may be room for."""
    room = min(ADMITTED_AT_ONCE, limits.of(GITOPS_DEPLOYMENT.kind) - usage.deployments)
    if room <= 0 or usage.bytes + usage.other_bytes >= limits.bytes:
        return []
    waiting = sorted((each.seen_at, each.id) for each in deployments if each.over_quota and each.wanted)
    return [subject for _, subject in waiting[:room]]
