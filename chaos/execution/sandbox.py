"""The developer sandbox: a namespace for each SpaceRequest of a tenant, whatever becomes of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from devstack.appstudio.space_requests import SpaceRequestController
from services.common.errors import Retry, Wait
from services.common.kubernetes import KubeClient, NotFound

PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Sandbox:
    """That of some namespaces."""

    kube: KubeClient
    namespaces: Sequence[str]
    api_url: str
    """Of the cluster that the new namespaces are in."""
    kubeconfig: str
    """What opens it."""

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            for namespace in self.namespaces:
                group.create_task(self._serve(namespace))

    async def _serve(self, namespace: str) -> None:
        while True:
            try:
                await SpaceRequestController(self.kube, namespace, self.api_url, self.kubeconfig).run()
            except (Retry, Wait, NotFound):  # it begins anew, with a list
                await asyncio.sleep(PAUSE_SECONDS)
