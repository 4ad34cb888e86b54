"""Makes a resource agree with its compiled row: its status replaced, our finalizer off. Called by :mod:`delivery`.

It does so by JSON patches (RFC 6902) only, each of which begins with a test of the uid: a resource that was deleted and
created anew is another one. Writing a row twice, or one of a resource that is gone, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from services.common.errors import Poison, Retry, Wait
from services.common.kubernetes import ApiResource, Conflict, KubeClient, Manifest, NotFound, Rejected
from services.common.messages import WorkspaceResource
from services.common.telemetry import metrics
from services.kinds.shared.api_group import FINALIZER
from services.watcher import FIELD_MANAGER, SERVICE
from services.watcher.followed_kinds import BY_NAME

UNPROCESSABLE = 422
RELEASE_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class StatusWriter:
    """Writes to one workspace cluster."""

    kube: KubeClient

    async def write_status(self, row: WorkspaceResource) -> bool:
        """Bring the effects of ``row`` about; returns whether a status was written.

        The finalizer goes first: most often the resource goes with it, and then has no status to write.

        Raises Retry (API server away), Wait (an operator has to permit it), Rejected (it will never work).
        """
        try:
            if row.release_finalizer and not await self._release(row):
                return False
            return await self._replace_status(row)
        except Rejected as error:
            if error.is_forbidden:
                raise Wait(f"grant 'patch' on {BY_NAME[row.kind].plural} and its status: {error}") from error
            raise

    async def _replace_status(self, row: WorkspaceResource) -> bool:
        kind = BY_NAME[row.kind]
        patch = replace_status(row.uid, row.status)
        try:
            await self.kube.patch_object(
                kind, row.namespace, row.name, patch, field_manager=FIELD_MANAGER, subresource="status"
            )
        except NotFound:
            return _unneeded(kind)
        except Rejected as error:
            # A failed test of the uid and a status that the CRD refuses look the same from here.
            if error.status == UNPROCESSABLE and await self._find(row) is None:
                return _unneeded(kind)
            raise
        metrics.KUBERNETES_WRITES.labels(SERVICE, kind.kind, "status").inc()
        return True

    async def _release(self, row: WorkspaceResource) -> bool:
        """Take our finalizer off; returns whether the resource may still be there."""
        kind = BY_NAME[row.kind]
        for _ in range(RELEASE_ATTEMPTS):
            manifest = await self._find(row)
            if manifest is None:
                return _unneeded(kind)
            if not has_finalizer(manifest):
                return True
            if (left := await self._try_release(kind, row, manifest)) is not None:
                metrics.KUBERNETES_WRITES.labels(SERVICE, kind.kind, "finalizer").inc()
                return left
        raise Retry(f"finalizers of {row.namespace}/{row.name} keep changing")

    async def _try_release(self, kind: ApiResource, row: WorkspaceResource, seen: Manifest) -> bool | None:
        """One attempt: None if the finalizers were changed meanwhile, else whether others keep the resource."""
        patch = release_finalizer(seen)
        try:
            after = await self.kube.patch_object(kind, row.namespace, row.name, patch, field_manager=FIELD_MANAGER)
        except NotFound:
            return False
        except Conflict:
            return None
        except Rejected as error:
            if error.status == UNPROCESSABLE:
                return None
            raise
        return bool(after["metadata"].get("finalizers"))

    async def _find(self, row: WorkspaceResource) -> Manifest | None:
        """The resource the row is about, unless it is gone or another one has its name now."""
        try:
            manifest = await self.kube.get_object(BY_NAME[row.kind], row.namespace, row.name)
        except NotFound:
            return None
        return manifest if manifest["metadata"]["uid"] == row.uid else None


def require_known_kind(row: WorkspaceResource) -> WorkspaceResource:
    """``row`` if its kind is one that can be written. Raises Poison."""
    if row.kind not in BY_NAME:
        raise Poison(f"this watcher knows no resource of kind {row.kind!r}")
    return row


def _unneeded(kind: ApiResource) -> bool:
    metrics.KUBERNETES_WRITES.labels(SERVICE, kind.kind, "unneeded").inc()
    return False


Patch = list[Manifest]


def replace_status(uid: str, status: str) -> Patch:
    """Replace the whole status by ``status``, JSON text, which goes into the request as it is."""
    return [_same(uid), {"op": "add", "path": "/status", "value": orjson.Fragment(status)}]


def release_finalizer(manifest: Manifest) -> Patch:
    """Take our finalizer from ``manifest``'s list, provided the list is still what ``manifest`` says."""
    present = manifest["metadata"]["finalizers"]
    remaining = [finalizer for finalizer in present if finalizer != FINALIZER]
    path = "/metadata/finalizers"
    return [
        _same(manifest["metadata"]["uid"]),
        {"op": "test", "path": path, "value": present},
        {"op": "replace", "path": path, "value": remaining},
    ]


def has_finalizer(manifest: Manifest) -> bool:
    """Whether our finalizer is on the object."""
    return FINALIZER in (manifest["metadata"].get("finalizers") or ())


def _same(uid: str) -> Manifest:
    return {"op": "test", "path": "/metadata/uid", "value": uid}
