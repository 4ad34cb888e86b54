"""Which Snapshot each binding has: the one of the last promotion that succeeded, or what a user has asked for since.

Where a promotion and a user ask for different ones at the same time either may be last, and where one was deleted
before it was over nobody knows how far it was. What is certain then is only that somebody has asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.api import BINDING, PROMOTION_RUN
from chaos.checker.difference import Difference, difference_of
from chaos.checker.promotions import environments_of, is_complete, is_of_another, reached_environments
from chaos.checker.tenants import Tenant
from chaos.record import Record, key_of, version_of
from services.common.kubernetes import Manifest


@dataclass(frozen=True, slots=True)
class _Promotion:
    """To one environment."""

    snapshot: str
    began: int
    """Version of the run when it was made."""
    ended: float
    """Version of the run with which it was over; infinite: it was not, or nobody knows."""
    has_succeeded: bool
    deleted_at: float = math.inf
    """Version after which it was deleted."""

    def may_follow(self, other: _Promotion) -> bool:
        """Whether it may have ordered its snapshot after ``other`` did: one follows the other, and none goes on then.

        One that was deleted before the other was asked for has not: the product hears of both in this order. The status
        of one that is over is written again when the database was restored, so one that was asked for later may have.
        """
        is_later = self.ended > other.ended or self.began > other.began
        return is_later and self.deleted_at >= other.began


def snapshot_differences(tenants: Sequence[Tenant], record: Record) -> Iterator[Difference]:
    """All of them."""
    for tenant in tenants:
        for binding in tenant.own(tenant.world.bindings):
            found, allowed = binding["spec"]["snapshot"], _allowed(binding, tenant, record)
            if found not in allowed:
                yield difference_of("differs", binding, f"its snapshot is {found}, not {' or '.join(sorted(allowed))}")


def count_decided(tenants: Sequence[Tenant], record: Record) -> int:
    """Of how many bindings the last promotion alone decides what they must have."""
    return sum(
        _deciding(binding, tenant, record) is not None
        for tenant in tenants
        for binding in tenant.own(tenant.world.bindings)
    )


def _allowed(binding: Manifest, tenant: Tenant, record: Record) -> set[str]:
    promotions = _promotions(binding, tenant, record)
    if (last := _deciding(binding, tenant, record)) is not None:
        return {last.snapshot} | {each.snapshot for each in promotions if each.may_follow(last)}
    written = record.present.get(key_of(binding))
    own = {written["spec"]["snapshot"]} if written is not None else set()
    return own | {each.snapshot for each in promotions if each.ended > _written_at(binding, record)}


def _deciding(binding: Manifest, tenant: Tenant, record: Record) -> _Promotion | None:
    """The last promotion that succeeded, if the binding was as its user has written it last before that was asked for.

    It must have been the only one for its environment by then, or the oldest: otherwise the promotion was to another.
    """
    succeeded = [each for each in _promotions(binding, tenant, record) if each.has_succeeded]
    last = max(succeeded, key=lambda each: each.ended, default=None)
    if last is None or last.began < _written_at(binding, record):
        return None
    rivals = _rivals(binding, tenant, record)
    return last if all(record.deleted_at.get(uid, math.inf) < last.began for uid in rivals) else None


def _written_at(binding: Manifest, record: Record) -> int:
    written = record.present.get(key_of(binding))
    return version_of(written) if written is not None else 0


def _rivals(binding: Manifest, tenant: Tenant, record: Record) -> Iterator[str]:
    """Uids of other bindings that were ever for its environment, but for those that are there and younger."""
    meta, environment = binding["metadata"], binding["spec"]["environment"]
    age = (meta["creationTimestamp"], meta["name"])
    live = {each["metadata"]["uid"]: each for each in tenant.own(tenant.world.bindings)}
    every = [uid for uid, key in record.names.items() if key[:2] == (BINDING.kind, tenant.name)]
    for uid in {*every, *live} - {meta["uid"]}:
        there = live.get(uid)
        contents = record.contents[uid] if there is None else [there["spec"]]
        if any(each["environment"] == environment for each in contents) and (
            there is None or (there["metadata"]["creationTimestamp"], there["metadata"]["name"]) < age
        ):
            yield uid


def _promotions(binding: Manifest, tenant: Tenant, record: Record) -> list[_Promotion]:
    """All to its environment, but for those that have to fail: these leave it as it is."""
    environment = binding["spec"]["environment"]
    live = {run["metadata"]["uid"]: run for run in tenant.own(tenant.world.promotions)}
    found = []
    for uid, key in record.names.items():
        if key[:2] != (PROMOTION_RUN.kind, tenant.name):
            continue
        spec, run, gone = record.contents[uid][0], live.get(uid), record.deleted_at.get(uid)
        if is_of_another(spec, tenant.name, record):
            continue
        if run is None or gone is not None:
            if environment in environments_of(spec, tenant):
                found.append(_Promotion(spec["snapshot"], 0, math.inf, has_succeeded=False, deleted_at=gone or 0))
        elif environment in reached_environments(run):
            ended = version_of(run) if is_complete(run) else math.inf
            has_succeeded = environment in reached_environments(run, "Success")
            found.append(_Promotion(spec["snapshot"], version_of(record.present[key]), ended, has_succeeded))
    return found
