"""All that is not as it must be, of one world. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.checker.acknowledged import acknowledged_differences
from chaos.checker.bindings import binding_differences
from chaos.checker.claims import claim_differences
from chaos.checker.difference import Difference
from chaos.checker.moves import move_differences
from chaos.checker.objects import object_differences
from chaos.checker.places import place_differences
from chaos.checker.previews import preview_differences
from chaos.checker.private_repositories import private_repository_differences
from chaos.checker.promotions import count_judged_by_commits, promotion_differences
from chaos.checker.snapshots import count_decided, snapshot_differences
from chaos.checker.statuses import status_differences
from chaos.checker.sync_runs import count_strict, sync_run_differences
from chaos.checker.tenants import Tenant
from chaos.checker.world import Facts, World
from chaos.record import Record


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one world."""

    differences: list[Difference]
    """Empty: everything is as it must be."""
    strictly_judged: int
    """Sync runs that must have succeeded unless the API server failed, and been seen to start exactly once."""
    judged_by_commits: int
    """Promotions that have succeeded while somebody watched what was deployed."""
    decided_bindings: int
    """Of which the last promotion alone decides what snapshot they must have."""


def judge(world: World, facts: Facts, record: Record) -> Judgement:
    """See the module."""
    tenants = [Tenant(namespace, world, facts, record) for namespace in world.namespaces]
    differences = sorted(
        {
            *acknowledged_differences(world, record),
            *binding_differences(world, tenants),
            *claim_differences(world, tenants, record),
            *move_differences(world, tenants, record),
            *object_differences(world, tenants, record),
            *place_differences(tenants),
            *preview_differences(world, record),
            *promotion_differences(tenants, record),
            *private_repository_differences(world, tenants),
            *snapshot_differences(tenants, record),
            *status_differences(world, tenants),
            *sync_run_differences(tenants, record),
        }
    )
    return Judgement(
        differences,
        count_strict(tenants, record),
        count_judged_by_commits(tenants, record),
        count_decided(tenants, record),
    )
