"""What the user of a deployment sees of it while something happens that they have not asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from services.common.kubernetes import Deleted
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.e2e.tenant import Tenant
from tests.e2e.version_history import Version, VersionHistory, versions_seen

BY_COMMIT = frozenset({"sync", "resources", "operationState"})
"""Parts of a status that a commit accounts for."""
BY_PATCH = BY_COMMIT | {"reconciledState"}
"""Likewise a change of where the manifests are."""
BY_SIMULATOR = frozenset({"operationState"})
"""Likewise a move, where the simulator is Argo CD: it does not know what is deployed, and syncs once on the target."""

Status = dict[str, Any]


@dataclass(frozen=True)
class StatusHistory:
    """Of one deployment: each status that it has had since the history began."""

    deployment: VersionHistory

    async def changes(self, accounted_for: Collection[str] = ()) -> list[str]:
        """What its user has seen change until now, but for the parts that a change of theirs accounts for.

        Raises Unavailable: not every version was seen.
        """
        return changes_seen(statuses_of(await self.deployment.until_now()), accounted_for)

    async def gaps(self) -> list[str]:
        """Parts that were there and were gone from the next status on, until now. Raises Unavailable, too."""
        statuses = statuses_of(await self.deployment.until_now())
        return [part for before, after in pairwise(statuses) for part in sorted({*before} - {*after})]


def statuses_of(versions: Sequence[Version]) -> list[Status]:
    """The status of each, empty if it was gone."""
    return [{} if isinstance(each, Deleted) else each.object.get("status", {}) for each in versions]


def changes_seen(statuses: Sequence[Status], accounted_for: Collection[str] = ()) -> list[str]:
    """What is another from one status to the next, by part; nothing of the parts that are accounted for."""
    return [
        f"{part}: {before.get(part)} → {after.get(part)}"
        for before, after in pairwise(map(lasting, statuses))
        for part in sorted({*before, *after} - {*accounted_for})
        if before.get(part) != after.get(part)
    ]


def lasting(status: Status) -> Status:
    """What stays as it is unless somebody changes what is wanted or deployed: all of it, but for one thing.

    ``lastProbeTime`` of a condition is when the status was last written, of whatever part.
    """
    conditions = [
        {name: value for name, value in each.items() if name != "lastProbeTime"}
        for each in status.get("conditions", ())
    ]
    return status | {"conditions": conditions}


@asynccontextmanager
async def seen_by_user(tenant: Tenant, name: str = "web") -> AsyncIterator[StatusHistory]:
    """The history of a deployment while the block runs; it is in sync and healthy when that begins."""
    only = f"metadata.name={name}"
    async with versions_seen(tenant.kube, GITOPS_DEPLOYMENT, tenant.namespace, only) as deployment:
        (first, *_) = statuses_of(deployment.noted)
        assert (first["sync"]["status"], first["health"]["status"]) == ("Synced", "Healthy"), first
        yield StatusHistory(deployment)
