"""Makes an object as its row desires, in the tenant's own namespace. Called by :mod:`delivery`.

The object is read, judged by :mod:`child_steps` and changed; the change is bound to what was read. What happens
in between is met by looking again; doing it all twice changes nothing. It is applied on the server side: fields that we
have applied before and do not any more go, what others have added stays.

    1. The object is read: whose is it?              Another's is left alone.
    2. If there is none: is its owner still there?   Without it nothing is made. It is read once a second at most.
    3. It is applied, with a reference to it.        The owner may go in between: the API server's garbage collector
                                                     takes what refers to an owner that is gone, also if it came later.

The look cannot be spared. To apply without one would add our reference to an object of somebody else's that differs in
no field; and of what is created in place of applied, fields that are wanted no more would never go.

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
"""Looks at an object that changes between each look and the change that follows from it."""


@dataclass(slots=True)
class ObjectApplier:
    """Writes to one workspace cluster."""

    kube: KubeClient
    max_secret_bytes: int
    """Of a Secret that is copied."""
    _owners: Owners = field(init=False)

    def __post_init__(self) -> None:
        self._owners = Owners(self.kube)

    async def apply_row(self, row: WorkspaceObject) -> bool:
        """Make the object as ``row`` says; returns whether anything had to be changed.

        Raises Retry (API server away, or the object keeps changing), Wait (an operator has to grant a right),
        AskedAgain (an object of this name has to go first, or none may be made), Permanent (somebody else's object has
        the name, or it is refused).
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
        """Whether anything had to be changed; None if it has to be looked at again."""
        if row.kind in UNOWNED_RESOURCES:
            return await self._change_unowned(row)
        return await (self._apply(row) if row.desired == "present" else self._remove(row))

    async def _change_unowned(self, row: WorkspaceObject) -> bool:
        """As long as who wants it is there; the deletion was decided."""
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
        """Whether anything had to be changed; None if it has to be looked at again, because it is made anew."""
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
        """Apply ``desired`` to this very object, or make it if there is none.

        Without an object nothing is taken over from anybody: if one has come meanwhile that says something else, it is
        looked at first. The planner asks again and again for an object that is not there: a quota may forbid it, which
        nothing tells of when there is room.
        """
        _count(resource, "apply")
        if live is None:
            with waiting_for_rights(_rights_to(resource), AskedAgain):
                await self.kube.apply_object(resource, desired, field_manager=WATCHER_FIELD_MANAGER, force=False)
        else:
            await self.kube.apply_object(resource, bound_to(live, desired), field_manager=WATCHER_FIELD_MANAGER)

    async def _content(self, row: WorkspaceObject, manifest: ChildManifest) -> Manifest | None:
        """The object's fields besides its metadata; None if it is the copy of a Secret that is gone.

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
        """Ask for the deletion; False if the object is gone already. Raises Conflict if another has its name."""
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
