"""What the user of a deployment sees of it while something happens that they have not asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from devstack.harness.mirror import Mirror, Objects, mirror_of
from services.common.errors import Unavailable
from services.common.kubernetes import Changed, Deleted, Manifest, Reflection, Seen, reflect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.e2e.tenant import Tenant

BY_COMMIT = frozenset({"sync", "resources", "operationState"})
"""Parts of a status that a commit accounts for."""
BY_SIMULATOR = frozenset({"operationState"})
"""Likewise a move, where the simulator is Argo CD: it does not know what is deployed, and syncs once on the target."""
WATCHED_SECONDS = 30.0
"""Until a watch has shown what the API server has."""

Version = Seen | Changed | Deleted
Status = dict[str, Any]


@dataclass(frozen=True)
class StatusHistory:
    """Of one deployment: each version that the API server has had of it since the history began."""

    tenant: Tenant
    name: str
    mirror: Mirror
    versions: list[Version]

    async def changes(self, accounted_for: Collection[str] = ()) -> list[str]:
        """What its user has seen change until now, but for the parts that a change of theirs accounts for.

        Raises NotFound, Unavailable: it is gone, or not every version was seen.
        """
        key = (self.tenant.namespace, self.name)
        live = await self.tenant.kube.get_object(GITOPS_DEPLOYMENT, *key)

        def is_shown(objects: Objects) -> bool:
            return key in objects and _number(objects[key]) >= _number(live)

        await self.mirror.until(f"a watch shows {'/'.join(key)} as it is", is_shown, WATCHED_SECONDS)
        return changes_seen(statuses_of(self.versions), accounted_for)


def statuses_of(versions: Sequence[Version]) -> list[Status]:
    """The status of each, empty if it was gone. Raises Unavailable if there were others between two of them."""
    for before, after in pairwise(versions):
        # Listed anew, because the API server has forgotten what was changed since.
        if isinstance(after, Seen) and _number(before.object) != _number(after.object):
            raise Unavailable(f"what was between versions {_number(before.object)} and {_number(after.object)} is lost")
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
    versions: list[Version] = []
    only = reflect(tenant.kube, GITOPS_DEPLOYMENT, tenant.namespace, parts=(f"metadata.name={name}",))
    async with mirror_of(_noted(only, versions), f"{tenant.namespace}/{name}") as mirror:
        (first, *_) = statuses_of(versions)
        assert (first["sync"]["status"], first["health"]["status"]) == ("Synced", "Healthy"), first
        yield StatusHistory(tenant, name, mirror, versions)


async def _noted(events: AsyncGenerator[Reflection], versions: list[Version]) -> AsyncGenerator[Reflection]:
    """The same events; before each the version that it shows is noted."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Version):
                versions.append(event)
            yield event


def _number(deployment: Manifest) -> int:
    return int(deployment["metadata"]["resourceVersion"])
