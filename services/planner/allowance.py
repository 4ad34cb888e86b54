"""How much of its allowance each tenant's deployments take up, as a plan goes on. Part of a draft."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from services.planner.rows import Deployment, Usage


class Allowance:
    """Deployments with an Application, and bytes of specs, by tenant."""

    def __init__(self, usage: Mapping[UUID, Usage]) -> None:
        self._deployments = Counter({tenant: known.deployments for tenant, known in usage.items()})
        self._bytes = Counter({tenant: known.deployment_bytes for tenant, known in usage.items()})
        self._waiting = Counter({tenant: known.waiting for tenant, known in usage.items()})
        self._others = {tenant: known.resource_bytes for tenant, known in usage.items()}

    def deployments(self, tenant: UUID) -> int:
        """How many have an Application."""
        return self._deployments[tenant]

    def waiting(self, tenant: UUID) -> int:
        """How many wait for their first Application with a spec on offer."""
        return self._waiting[tenant]

    def deployment_bytes(self, tenant: UUID) -> int:
        """Length of their specs, UTF-8."""
        return self._bytes[tenant]

    def bytes_with(self, before: Deployment | None, now: Deployment) -> int:
        """Length of all the tenant's specs once ``now`` has taken the place of ``before``."""
        others = self._others.get(now.tenant_id, 0)
        return others + self._bytes[now.tenant_id] - _size(before) + _size(now)

    def move(self, before: Deployment | None, now: Deployment) -> None:
        """A deployment changed."""
        self._deployments[now.tenant_id] += _counts(now) - _counts(before)
        self._waiting[now.tenant_id] += _waits(now) - _waits(before)
        self._bytes[now.tenant_id] += _size(now) - _size(before)


def _size(deployment: Deployment | None) -> int:
    texts = (deployment.spec, deployment.offered) if deployment is not None else ()
    return sum(len(text.encode()) for text in texts if text is not None)


def _waits(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.spec is None and deployment.offered is not None


def _counts(deployment: Deployment | None) -> bool:
    return deployment is not None and deployment.repository is not None
