"""The calls that the agent makes to an API server. ``KubeClient`` implements them, and so does a fake of the tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Literal, Protocol

from services.agent.objects.kinds import ManagedKind
from services.common.kubernetes import ApiResource, Manifest, Reflection


class Cluster(Protocol):
    """Calls that raise the types of :mod:`services.common.kubernetes.errors` or Retry."""

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest:
        """Read one object."""

    async def create(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Create an object."""

    async def apply(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Server-side apply, by force."""

    async def patch(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        patch: Manifest | list[Manifest],
        *,
        field_manager: str,
    ) -> Manifest:
        """MergePatch patch."""

    async def delete(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        uid: str | None = None,
    ) -> None:
        """Ask for deletion."""


Follow = Callable[[ManagedKind, str], AsyncGenerator[Reflection]]
"""Lists and watches our objects of one kind in one namespace, for ever."""
