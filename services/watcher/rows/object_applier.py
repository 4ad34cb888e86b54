"""Makes an object as its row desires, in the tenant's own namespace. Called by :mod:`delivery`.

The object is read, judged by :mod:`child_steps` and changed. The change is bound to the version that was read: if the
object changes in between, it is read again. To do all of this twice changes nothing. The object is applied on the
server side: fields that we no longer apply are removed, and fields that others have added stay.

    1. The object is read: whose is it?              An object of somebody else is left alone.
    2. If there is none: does its owner still exist? Without the owner no object is created. The owner is read at most
                                                     once a second.
    3. It is applied, with a reference to the owner. If the owner goes in between, the API server's garbage collector
                                                     removes the object, even if it was created later.

The read is necessary. An apply without it would add our reference to an object of somebody else that differs in no
field. If objects were created instead of applied, fields that are no longer desired would never be removed.

An unowned object is not applied but changed, in the fields that its row names: see :mod:`unowned_changes`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from services.common.errors import AskedAgain, Permanent, Retry
from services.common.kubernetes import (
    ApiResource,
    Conflict,
    KubeClient,
    Manifest,
    NamespaceTerminating,
    NotFound,
    Rejected,
)
from services.common.messages import ChildKind, WorkspaceObject
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.rows.child_manifest import (
    ChildManifest,
    SecretSource,
    manifest_of,
    resource_of,
)
from services.watcher.rows.child_steps import (
    bound_to,
    desired_object,
    has_to_be_replaced,
    is_ours,
    require_applicable,
    uid_to_delete,
)
from services.watcher.rows.missing_rights import waiting_for_rights
from services.watcher.rows.owners import Owners
from services.watcher.rows.secret_copies import copied_content
from services.watcher.rows.unowned_changes import UnownedChanges
from services.watcher.unowned_kinds import UNOWNED_RESOURCES

log = structlog.get_logger(__name__)

ATTEMPTS = 5
"""How often an object is read again if it changes between the read and the write."""


@dataclass(slots=True)
class ObjectApplier:
    """Writes to one workspace cluster."""

    kube: KubeClient
    max_secret_bytes: int
    """Largest Secret that is copied."""
    _owners: Owners = field(init=False)

    def __post_init__(self) -> None:
        self._owners = Owners(self.kube)

    async def apply_row(self, row: WorkspaceObject) -> bool:
        """Make the object as ``row`` says; returns whether anything had to be changed.

        Raises Retry (API server away, or the object keeps changing), Wait (an operator has to grant a right),
        AskedAgain (another object of the name is being deleted, or none may be created), Permanent (an object of
        somebody else has the name, or the API server refuses it).
        """
        try:
            with waiting_for_rights(_rights_to(resource_of(row))):
                return await self._apply_until_unchanged(row)
        except NamespaceTerminating as error:
            raise AskedAgain(str(error)) from error
        except Rejected as error:
            if row.kind != ChildKind.SECRET_COPY:
                raise
            # What is said of a refused object may quote it.
            refused = f"the API server refuses Secret {row.namespace}/{row.name} with status {error.status}"
            raise Permanent(refused) from None

    async def _apply_until_unchanged(self, row: WorkspaceObject) -> bool:
        for _ in range(ATTEMPTS):
            with suppress(Conflict, NotFound):  # since it was read it has gone, or another has its name
                is_changed = await self._try(row)
                if is_changed is None:
                    continue
                if not is_changed:
                    _count(resource_of(row), "unneeded")
                return is_changed
        raise Retry(f"{resource_of(row).kind} {row.namespace}/{row.name} keeps changing")

    async def _try(self, row: WorkspaceObject) -> bool | None:
        """Whether anything had to be changed; None if the object has to be read again."""
        if row.kind in UNOWNED_RESOURCES:
            return await self._change_unowned(row)
        return await (self._apply(row) if row.desired == "present" else self._remove(row))

    async def _change_unowned(self, row: WorkspaceObject) -> bool:
        """Change an unowned object, if the resource that wants the change exists. A deletion needs no such resource."""
        changes = UnownedChanges(self.kube)
        if row.desired == "absent":
            verb = await changes.delete_object(row) if row.uid else ""
        elif not await self._owners.has_owner(row):
            verb = ""
        else:
            verb = await (changes.patch_object(row) if row.uid else changes.make_object(row))
        if verb:
            _count(resource_of(row), verb)
        return bool(verb)

    async def _apply(self, row: WorkspaceObject) -> bool | None:
        """Whether anything had to be changed; None if the object is being replaced, and has to be read again."""
        resource, manifest = resource_of(row), manifest_of(row)
        content = await self._content(row, manifest)
        if content is None:
            return await self._remove(row)
        live = await self._find(resource, row.namespace, row.name)
        if live is not None:
            require_applicable(row, live)
        elif not await self._owners.has_owner(row):
            log.info("not applied: its owner is gone", kind=row.kind, namespace=row.namespace, name=row.name)
            return False
        desired = desired_object(row, manifest, content)
        if live is not None and has_to_be_replaced(live, desired):
            await self._delete(row, resource, live["metadata"]["uid"])
            return None
        await self._write(resource, desired, live)
        return True

    async def _write(self, resource: ApiResource, desired: Manifest, live: Manifest | None) -> None:
        """Apply ``desired`` to the live object, or create it if there is none.

        Creation takes no object from anybody: if one has come meanwhile that differs, it is read first. The planner
        asks again and again for a missing object, because a quota may forbid it, and nothing reports when there is
        room.
        """
        _count(resource, "apply")
        if live is None:
            with waiting_for_rights(_rights_to(resource), AskedAgain):
                await self.kube.apply_object(resource, desired, field_manager=WATCHER_FIELD_MANAGER, force=False)
        else:
            await self.kube.apply_object(resource, bound_to(live, desired), field_manager=WATCHER_FIELD_MANAGER)

    async def _content(self, row: WorkspaceObject, manifest: ChildManifest) -> Manifest | None:
        """The object's fields besides its metadata; None if it copies a Secret that is gone.

        Raises Permanent if that Secret is not copied.
        """
        if not isinstance(manifest.content, SecretSource):
            return {"spec": manifest.content}
        source = await self._find(resource_of(row), row.namespace, manifest.content.name)
        return None if source is None else copied_content(source, manifest.content.type, self.max_secret_bytes)

    async def _remove(self, row: WorkspaceObject) -> bool:
        resource = resource_of(row)
        live = await self._find(resource, row.namespace, row.name)
        uid = uid_to_delete(row, live)
        if uid is None:
            if live is not None and not is_ours(row, live):
                log.info("left alone: it is not ours", kind=row.kind, namespace=row.namespace, name=row.name)
            return False
        return await self._delete(row, resource, uid)

    async def _delete(self, row: WorkspaceObject, resource: ApiResource, uid: str) -> bool:
        """Request the deletion; False if the object is gone. Raises Conflict if another object has its name."""
        try:
            await self.kube.delete_object(resource, row.namespace, row.name, uid=uid)
        except NotFound:
            return False
        _count(resource, "delete")
        return True

    async def _find(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        try:
            return await self.kube.get_object(resource, namespace, name)
        except NotFound:
            return None


def _rights_to(resource: ApiResource) -> str:
    return f"'create', 'patch' and 'delete' on {resource.plural}"


def _count(resource: ApiResource, verb: str) -> None:
    metrics.KUBERNETES_WRITES.labels(SERVICE, resource.kind, verb).inc()
