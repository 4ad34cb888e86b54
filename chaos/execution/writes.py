"""What a user writes, until the API server has acknowledged it; the record knows of it then."""

from __future__ import annotations

from chaos.execution.api_calls import ApiCalls
from chaos.record import Record, key_of
from services.common.kubernetes import ApiResource, Manifest


class Writes:
    """Of all tenants' users."""

    def __init__(self, calls: ApiCalls, record: Record) -> None:
        self._calls, self._record = calls, record

    async def put(self, resource: ApiResource, manifest: Manifest, part: str, *, afresh: bool = False) -> Manifest:
        """Make an object, or change one part of it; ``afresh``: it is deleted first. Raises Unavailable."""
        _, namespace, name = key_of(manifest)
        if afresh:
            await self.remove(resource, namespace, name)
        while True:
            found = await self._calls.find(resource, namespace, name)
            if found is None:
                stored: Manifest | None = await self._calls.create(resource, manifest)
            elif found["metadata"].get("deletionTimestamp"):
                await self._calls.until_gone(resource, namespace, name)
                continue
            else:
                stored = await self._calls.replace(resource, found, part, manifest[part])
            if stored is not None and not stored["metadata"].get("deletionTimestamp"):
                self._record.acknowledge(stored)
                return stored

    async def remove(self, resource: ApiResource, namespace: str, name: str) -> None:
        """Ask for the deletion of an object, which may be gone already. Raises Unavailable."""
        await self._calls.delete(resource, namespace, name)
        self._record.forget((resource.kind, namespace, name))


def resource_of(
    resource: ApiResource, namespace: str, name: str, spec: Manifest, finalizers: list[str] | None = None
) -> Manifest:
    """A custom resource as it is written first."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace, "finalizers": finalizers or []},
        "spec": spec,
    }
