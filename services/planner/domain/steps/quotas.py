"""Decides which of a tenant's resources are within its quotas.

Objects count until the engine has removed them, also those of refused or deleted resources. Otherwise a tenant could
have any number of objects, by creating and deleting resources one after the other. Complete promotion runs do not
count, as they have no effect, but there may be only ``TIMES_WITH_COMPLETE`` times as many runs in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from services.common.json_values import OMITTED
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.promotion_run.kind import TIMES_WITH_COMPLETE
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.registry import Registry
from services.kinds.shared.limits import Claim, Limits, Share, Taken, over_quota
from services.kinds.shared.resource import PlainResource
from services.planner.domain.indexed_rows import Subset, Totals, differing, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant, StepResult
from services.planner.domain.state import BY_KIND, COMPLETE_RUNS, RESOURCES_OVER_QUOTA, TenantState
from services.planner.rows.compiled import EngineObject

KEPT_BEYOND_QUOTA = 4096
"""Characters of a text that are kept of a resource beyond the quota."""

ADMITTED_AT_ONCE = 500
"""Deployments that get room in one plan; the next plan goes on."""

NOTHING = Share()
RowT = TypeVar("RowT")


def apply_quotas(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its resources admitted, or refused, by its quotas."""
    if planned.cause is None:
        return planned
    return planned.after(admit_resources(planned.state, context))


def admit_resources(state: TenantState, context: Context) -> StepResult:
    """Resources that are admitted stay admitted. Those that go make room for the oldest of the others."""
    before = context.before
    if _is_same(state, before, context.policy.kinds):
        return StepResult(state)
    fits = _fits(state, context)
    crowded = _over_quota_kinds(state, context, fits=fits)
    if not crowded:
        return StepResult(state)
    limits, room, owned = context.policy.limits, _room(state, context), state.objects_by_owner()
    compared = [resource for kind in sorted(crowded) for resource in state.plain_resources_of_kind(kind).values()]
    present = [resource for resource in compared if resource.present]
    gone = [resource for resource in compared if not resource.present and resource.id in owned]
    complete, kinds = index_of(state.plain_resources, COMPLETE_RUNS), context.policy.kinds
    counted = [resource for resource in present if resource.id not in complete]
    if fits:
        claims = [_claim_of_one(before, resource, has_objects=resource.id in owned) for resource in counted]
        beyond = over_quota(claims, room, Taken(_counted(state, gone, kinds)))
    else:
        claims = [_claim(state, before, resource, kinds, has_objects=resource.id in owned) for resource in counted]
        beyond = over_quota(claims, room, _taken(state, gone, kinds))
    admitted = [
        _admitted(
            resource,
            limits,
            within=resource.id not in beyond,
            keeps_accepted=resource.id in owned or kinds[resource.kind].accept_spec is None,
        )
        for resource in present
    ]
    changed = [now for now, resource in zip(admitted, present, strict=True) if now is not resource and now != resource]
    return StepResult(state.with_plain_resources(*changed), touched=tuple(each.id for each in changed))


def _is_same(state: TenantState, before: TenantState, kinds: Registry) -> bool:
    """Whether nothing that counts has changed. A check counts only for kinds that list namespaces."""
    if state.plain_resources is not before.plain_resources or state.objects is not before.objects:
        return False
    changed = (state.plain_resources.get(each) for each in differing(state.checks, before.checks))
    return all(known is None or kinds[known.kind].destinations is None for known in changed)


def _over_quota_kinds(state: TenantState, context: Context, *, fits: bool) -> Collection[str]:
    """Kinds whose resources have to be compared: all, unless everything ``fits``, whichever is admitted.

    If it fits, only kinds with more resources than the quota, or with some that wait and may have room now.
    """
    kinds, room = index_of(state.plain_resources, BY_KIND), _room(state, context)
    if not fits:
        return kinds.keys()
    beyond = {each.kind for each in index_of(state.plain_resources, RESOURCES_OVER_QUOTA).values()}
    counts = Counter({kind: len(rows) for kind, rows in kinds.items()}) + _dormant(state, context.policy.kinds)
    counts[PROMOTION_RUN.kind] -= len(index_of(state.plain_resources, COMPLETE_RUNS))
    return {kind for kind in kinds if kind in beyond or counts[kind] > room.of(kind)}


def _dormant(state: TenantState, kinds: Registry) -> Counter[str]:
    """How many dormant resources of each kind count. Complete runs do not."""
    return Counter({kind.name: state.admitted_dormant.get(kind.name, 0) for kind in kinds.dormant})


def _room(state: TenantState, context: Context) -> Limits:
    """The quotas. That of promotion runs is smaller if complete runs leave less room.

    Of dormant runs only complete ones exist: no other run is both admitted and dormant.
    """
    limits, kind = context.policy.limits, PROMOTION_RUN.kind
    complete = len(index_of(state.plain_resources, COMPLETE_RUNS)) + state.admitted_dormant.get(kind, 0)
    left = max(0, limits.of(kind) * TIMES_WITH_COMPLETE - complete)
    return limits if left >= limits.of(kind) else replace(limits, counts={**limits.counts, kind: left})


def _fits(state: TenantState, context: Context) -> bool:
    """Whether the tenant's bytes and namespaces are within the quotas, whichever of its resources are admitted."""
    limits, kinds = context.policy.limits, context.policy.kinds
    if (
        _sum(state.plain_resources, SPEC_BYTES) + _deployed_bytes(state) + _sum(state.objects, LEAVING_BYTES)
        > limits.bytes
    ):
        return False
    listing = [each for kind in kinds.listing for each in state.plain_resources_of_kind(kind.name).values()]
    listed = sum(_destinations(kinds, each, each.spec, *_in_force(state, each)) for each in listing)
    return listed <= limits.destinations


@dataclass(frozen=True, slots=True)
class Usage:
    """The part of a tenant's quota that its deployments use."""

    deployments: int = 0
    """How many have something on an engine."""
    waiting: int = 0
    """How many wait for their first manifest with a pending spec."""
    bytes: int = 0
    """The bytes of their specs."""
    other_bytes: int = 0
    """The bytes of all other specs in force, also of sealed Secrets, and of objects that have to be removed."""

    @classmethod
    def of(cls, deployments: Mapping[UUID, Deployment], state: TenantState) -> Usage:
        """The usage of ``deployments``, with everything else in ``state``."""
        counts, waiting, size = index_of(deployments, DEPLOYED) or (0, 0, 0)
        other_bytes = _sum(state.plain_resources, FORCE_BYTES) + _sum(state.objects, LEAVING_BYTES)
        return cls(counts, waiting, size, other_bytes)

    def after(self, before: Deployment | None, now: Deployment | None) -> Usage:
        """The usage with ``now`` in place of ``before``."""
        return replace(
            self,
            deployments=self.deployments + _counts(now) - _counts(before),
            waiting=self.waiting + _waits(now) - _waits(before),
            bytes=self.bytes + spec_bytes(now) - spec_bytes(before),
        )

    def has_room(self, before: Deployment | None, now: Deployment, limits: Limits) -> bool:
        """Whether there is room for ``now``."""
        if now.spec is None and self.deployments >= limits.of(GITOPS_DEPLOYMENT.kind):
            return False
        return self.other_bytes + self.after(before, now).bytes <= limits.bytes


def spec_bytes(deployment: Deployment | None) -> int:
    """Bytes of its specs, and of what its kind declares besides, in UTF-8."""
    if deployment is None:
        return 0
    return sum(_bytes(text) for text in (deployment.spec, deployment.pending_spec, deployment.metadata) if text)


def _waits(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.spec is None and deployment.pending_spec is not None


def _counts(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.repository is not None


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _reported_bytes(row: PlainResource) -> int:
    """Bytes of what its watcher has reported: its spec, and what its kind declares besides."""
    return _bytes(row.spec) + _bytes(row.metadata) + _bytes(row.status)


def _admitted(known: PlainResource, limits: Limits, *, within: bool, keeps_accepted: bool) -> PlainResource:
    """The row, admitted or refused. A refused one loses texts of more than KEPT_BEYOND_QUOTA characters.

    Args:
        known: the row.
        limits: for the message to its user.
        within: whether it is within the quota.
        keeps_accepted: whether its accepted spec stays: an engine has its object, or it is no spec but a decision.
    """
    if within:
        return replace(known, over_quota=False) if known.over_quota else known
    refused = replace(known, over_quota=True, accepted=known.accepted if keeps_accepted else "")
    omitted = f"{limits.message(known.kind)}; change it afterwards to have it looked at again"
    if len(known.spec) > KEPT_BEYOND_QUOTA:
        refused = replace(refused, spec=OMITTED, omitted=omitted)
    if len(known.metadata) > KEPT_BEYOND_QUOTA:
        refused = replace(refused, metadata=OMITTED, metadata_omitted=omitted)
    if len(known.status) > KEPT_BEYOND_QUOTA:
        refused = replace(refused, status=OMITTED, status_omitted=omitted)
    return refused


def _counted(state: TenantState, gone: Iterable[PlainResource], kinds: Registry) -> Counter[str]:
    """How many of each kind count besides those that are compared: those that are going, and dormant ones."""
    return _dormant(state, kinds) + Counter(resource.kind for resource in gone)


def _taken(state: TenantState, gone: Iterable[PlainResource], kinds: Registry) -> Taken:
    """The quota that deployments, resources that are going, and complete runs use."""
    going = list(gone)
    size = _deployed_bytes(state) + _sum(state.objects, LEAVING_BYTES)
    size += sum(_reported_bytes(each) for each in index_of(state.plain_resources, COMPLETE_RUNS).values())
    destinations = sum(_destinations(kinds, each, *_in_force(state, each)) for each in going)
    return Taken(_counted(state, going, kinds), Share(size, destinations))


def _claim_of_one(before: TenantState, known: PlainResource, *, has_objects: bool) -> Claim:
    """A claim without sizes, for when bytes and namespaces fit in any case: only the number counts."""
    admitted = _was_admitted(before, known)
    return Claim(
        known.id,
        known.kind,
        known.created_at,
        known.name,
        size=NOTHING,
        admitted=NOTHING if admitted is not None else None,
        held=NOTHING if has_objects else None,
    )


def _was_admitted(before: TenantState, known: PlainResource) -> PlainResource | None:
    """The row before the batch, if it was admitted."""
    row = before.plain_resources.get(known.id)
    return row if row is not None and row.present and not row.over_quota else None


def _claim(
    state: TenantState, before: TenantState, known: PlainResource, kinds: Registry, *, has_objects: bool
) -> Claim:
    """What a resource needs of the quota. Its old spec counts with the new one until the new one works."""
    admitted = _was_admitted(before, known)

    def share(text: str, size: int, *, with_force: bool) -> Share:
        if kinds[known.kind].destinations is None:
            return Share(size)
        force = _in_force(state, known) if with_force else ()
        return Share(size, _destinations(kinds, known, text, *force))

    def share_of(row: PlainResource) -> Share:
        return share(row.spec, _reported_bytes(row), with_force=has_objects)

    size = share_of(known)
    return Claim(
        known.id,
        known.kind,
        known.created_at,
        known.name,
        size=size,
        admitted=None if admitted is None else size if admitted is known else share_of(admitted),
        held=share(known.accepted, _bytes(known.accepted), with_force=True) if has_objects else None,
    )


def _in_force(state: TenantState, known: PlainResource) -> tuple[str, str]:
    """Specs, JSON text, that an engine may have for it; empty ones if there are none."""
    check = state.checks.get(known.id)
    return known.accepted, check.working_spec if check is not None else ""


def _destinations(kinds: Registry, known: PlainResource, *specs: str) -> int:
    """How many namespaces these specs add to the tenant's destinations."""
    listed = kinds[known.kind].destinations
    return len({namespace for spec in specs if spec for namespace in listed(spec)}) if listed is not None else 0


def room_for(deployments: Mapping[UUID, Deployment], usage: Usage, limits: Limits) -> list[UUID]:
    """Deployments that wait for room, the oldest first: as many as there may be room for."""
    room = min(ADMITTED_AT_ONCE, limits.of(GITOPS_DEPLOYMENT.kind) - usage.deployments)
    if room <= 0 or usage.bytes + usage.other_bytes >= limits.bytes:
        return []
    waiting = sorted((each.seen_at, each.id) for each in waiting_for_room(deployments) if each.is_active)
    return [subject for _, subject in waiting[:room]]


def waiting_for_room(deployments: Mapping[UUID, Deployment]) -> Collection[Deployment]:
    """Deployments that are beyond the quotas."""
    return index_of(deployments, DEPLOYMENTS_OVER_QUOTA).values()


def _sum(rows: Mapping[Any, RowT], totals: Totals[RowT]) -> int:
    return sum(part for part in index_of(rows, totals))


def _deployed_bytes(state: TenantState) -> int:
    """Bytes of the specs of all deployments."""
    return (index_of(state.deployments, DEPLOYED) or (0, 0, 0))[2]


SPEC_BYTES: Totals[PlainResource] = Totals(lambda each: (_reported_bytes(each) + _bytes(each.accepted),))
FORCE_BYTES: Totals[PlainResource] = Totals(
    lambda each: ((_bytes(each.accepted) if each.over_quota else _reported_bytes(each)) if each.present else 0,)
)
"""Bytes of specs in force, also of sealed Secrets."""
LEAVING_BYTES: Totals[EngineObject] = Totals(lambda each: (0 if each.is_desired else each.size,))
"""Bytes of objects that have to be removed."""
DEPLOYED: Totals[Deployment] = Totals(lambda each: (_counts(each), _waits(each), spec_bytes(each)))
DEPLOYMENTS_OVER_QUOTA: Subset[Deployment] = Subset(lambda each: each.over_quota)
