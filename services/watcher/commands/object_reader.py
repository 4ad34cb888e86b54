"""Reads single objects when a command is built, and waits while the API server does not answer.

Called by :mod:`command_sender`, several at a time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Retry
from services.common.kubernetes import ApiResource, ForbiddenGrace, KubeClient, Manifest, NotFound, Rejected
from services.common.kubernetes.access import GRACE_SECONDS

log = structlog.get_logger(__name__)

OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Names that Kubernetes accepts, and that have no other meaning in a path."""


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Caches nothing. An object counts as missing only if the API server says so of this very object.

    It is asked again if its kind is not served at the moment, or if rights are not known yet. Raises Rejected if that
    persists. Nothing uncertain may be sent: the planner keeps what it first learns of a sync run's deployment.
    """

    kube: KubeClient
    new_delays: Callable[[], Backoff] = Backoff
    grace_seconds: float = GRACE_SECONDS

    async def find_object(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest | None:
        """The object of this name, None if there is none. The name comes from a user, and may be any text."""
        if not OBJECT_NAME.fullmatch(name):
            return None
        delays, grace = self.new_delays(), ForbiddenGrace(self.grace_seconds)
        while True:
            reason: GitOpsError
            try:
                return await self.kube.get_object(resource, namespace, name)
            except NotFound as error:
                if error.is_of(resource.plural, name):
                    return None
                reason = error
            except Rejected as error:
                grace.tolerate_rejection(error)
                reason = error
            except Retry as error:
                grace.begin_anew()
                reason = error
            log.info("awaiting the API server", resource=resource.plural, namespace=namespace, error=str(reason))
            await asyncio.sleep(delays.next_delay())

    async def find_incarnation(self, resource: ApiResource, namespace: str, name: str, uid: str) -> Manifest | None:
        """The object of this name, None if it has another uid by now."""
        manifest = await self.find_object(resource, namespace, name)
        return manifest if manifest is not None and manifest["metadata"]["uid"] == uid else None
