"""Reads of single objects, when a command goes out; each waits while the API server is away.

Called by :mod:`dispatch`, several at a time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kube import KubeClient, Manifest, NotFound, Refused, Resource
from services.common.kube.forbidden import FORBIDDEN_SECONDS, Forbidden

log = structlog.get_logger(__name__)

OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""What Kubernetes takes as a name, and nothing that means something else in a path."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """Keeps nothing of what it reads."""

    kube: KubeClient
    new_delays: Callable[[], Backoff] = Backoff
    forbidden_seconds: float = FORBIDDEN_SECONDS

    async def find(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """The object of this name at this moment, None if there is none that can be read.

        The name is a user's: whatever the API server says to it is an answer.
        """
        if not OBJECT_NAME.fullmatch(name):
            return None
        delays = self.new_delays()
        while True:
            try:
                return await self.kube.get(resource, namespace, name)
            except NotFound:
                return None
            except Refused as error:
                log.warning("cannot be read", resource=resource.plural, namespace=namespace, error=str(error))
                return None
            except Retry as error:
                await _pause(error, resource, delays)

    async def read(self, resource: Resource, namespace: str, name: str, uid: str) -> Manifest | None:
        """An object that was there when it was last heard of, None if it is gone for certain.

        What was only not found because the API server does not serve its kind, or no rights, at the moment must not
        be taken for gone. Raises Refused if reading stays forbidden.
        """
        delays, forbidden = self.new_delays(), Forbidden(self.forbidden_seconds)
        while True:
            try:
                manifest = await self.kube.get(resource, namespace, name)
            except Refused as error:
                forbidden.bear(error)
                await _pause(error, resource, delays)
            except NotFound as error:
                if f'"{name}" not found' in str(error):
                    return None
                await _pause(error, resource, delays)
            except Retry as error:
                await _pause(error, resource, delays)
            else:
                return manifest if manifest["metadata"]["uid"] == uid else None


async def _pause(error: Exception, resource: Resource, delays: Backoff) -> None:
    log.info("awaiting the API server", resource=resource.plural, error=str(error))
    await asyncio.sleep(delays.next())
