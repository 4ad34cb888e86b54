"""Changes an unowned object as its row says: creates, patches or deletes it. Called by :mod:`object_applier`.

An object is patched or deleted only if it has the uid that the row names. A successor of its name is left alone.

A row may name other objects that keep this one, which the planner has not heard of. Then the API server is asked, as
the garbage collector asks for an owner. The object counts as missing only if the API server answers that this very
object does not exist, not if it does not serve the kind. An object that is created after the answer comes too late.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from services.common.kubernetes import AlreadyExists, ApiResource, KubeClient, Manifest, NotFound
from services.common.messages import WorkspaceObject
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.watcher.rows.missing_rights import waiting_for_rights
from services.watcher.rows.unowned_manifest import keepers_of, unowned_manifest_of, unowned_resource_of
from services.watcher.rows.unowned_steps import merge_patch, new_object

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UnownedChanges:
    """Each call is bound to what was read before. Raises Conflict if the object has changed, NotFound if it is gone."""

    kube: KubeClient

    async def make_object(self, row: WorkspaceObject) -> str:
        """Create the object, unless any object has its name. Returns the verb, empty if nothing was done."""
        try:
            resource = unowned_resource_of(row).resource
            await self.kube.create_object(resource, new_object(row), field_manager=WATCHER_FIELD_MANAGER)
        except AlreadyExists:
            return ""
        return "create"

    async def patch_object(self, row: WorkspaceObject) -> str:
        """Patch the object as the row says. Returns the verb, empty if nothing was done."""
        live = await self._find(row)
        patch = merge_patch(live, unowned_manifest_of(row)) if live is not None else None
        if patch is None:
            return ""
        resource = unowned_resource_of(row).resource
        await self.kube.patch_object(resource, row.namespace, row.name, patch, field_manager=WATCHER_FIELD_MANAGER)
        return "patch"

    async def delete_object(self, row: WorkspaceObject) -> str:
        """Request the object's deletion, once. Returns the verb, empty if nothing was done."""
        live = await self._find(row)
        if live is None or live["metadata"].get("deletionTimestamp"):
            return ""
        for resource, name in ((kind, each) for kind, names in keepers_of(row).items() for each in names):
            if not await self._is_missing(resource, row.namespace, name):
                log.info("not deleted: it may be needed", kind=row.kind, namespace=row.namespace, name=row.name)
                return ""
        await self.kube.delete_object(unowned_resource_of(row).resource, row.namespace, row.name, uid=row.uid)
        return "delete"

    async def _is_missing(self, resource: ApiResource, namespace: str, name: str) -> bool:
        """Whether the API server serves the kind and has no such object. Raises Wait if we may not read it."""
        try:
            with waiting_for_rights(f"'get' on {resource.plural}"):
                await self.kube.get_object(resource, namespace, name)
        except NotFound as error:
            return error.is_of(resource.plural, name)
        return False

    async def _find(self, row: WorkspaceObject) -> Manifest | None:
        """The object with the uid that the row names; None if there is none."""
        try:
            live = await self.kube.get_object(unowned_resource_of(row).resource, row.namespace, row.name)
        except NotFound:
            return None
        return live if live["metadata"]["uid"] == row.uid else None
