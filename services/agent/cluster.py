"""What the agent needs of an API server. ``KubeClient`` has it; so has the cluster in memory of the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Literal, Protocol

from services.agent.kinds import ManagedKind
from services.common.kube import Manifest, Reflection, Resource


class Cluster(Protocol):
    """Calls that raise the types of :mod:`services.common.kube.errors` or Retry."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest:
        """Read one object."""

    async def create(self, resource: Resource, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Create an object."""

    async def apply(self, resource: Resource, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Server-side apply, by force."""

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Manifest | list[Manifest],
        *,
        field_manager: str,
    ) -> Manifest:
        """Merge patch."""

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        uid: str | None = None,
    ) -> None:
        """Ask for deletion."""


Follow = Callable[[ManagedKind, str], AsyncIterator[Reflection]]
"""Lists and watches our objects of one kind in one namespace, for ever."""
