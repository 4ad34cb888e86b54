"""Makes a resource agree with its compiled row: writes its status, removes our finalizer. Called by :mod:`delivery`.

It uses JSON patches (RFC 6902) only. Each begins with a test of the uid, because a resource that was deleted and
created again is another one. To write a row twice, or the row of a deleted resource, changes nothing.

A status that is all ours is replaced whole. If other controllers write members of it, the patch names only our members,
as the kind declares them:

- A member that the row has replaces the live one, lists included. A member that the row no longer has is removed; the
  patch adds it first, because the removal of a missing member fails.
- The API server applies a patch to the newest state of the resource, and again if that has changed meanwhile. So
  nothing is read before, and no write is lost, neither ours nor another controller's.
- A member cannot be added where there is no status. Then a patch adds the status, and fails if another controller was
  first; the next patch names the members again.

Server-side apply and merge patches would be shorter, but the API server does not compare their uid on ``/status``: a
row of a former resource would be written to its successor. Apply also forgets which members are ours when the managed
fields are lost, as in a restore from a backup, or when another controller has written the member once. A merge patch
leaves old fields inside a member.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

import orjson

from services.common.errors import Permanent, Poison, Retry
from services.common.kubernetes import Conflict, KubeClient, Manifest, NotFound, Rejected
from services.common.messages import WorkspaceResource
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.common.telemetry import metrics
from services.kinds.shared.api_group import FINALIZER
from services.watcher import SERVICE
from services.watcher.followed_kinds import BY_NAME, FollowedKind
from services.watcher.rows.missing_rights import waiting_for_rights

UNPROCESSABLE = 422
Patch = list[Manifest]
ATTEMPTS = 5
"""Attempts at a patch that fails because another controller wrote first."""


@dataclass(frozen=True, slots=True)
class StatusWriter:
    """Writes to one workspace cluster."""

    kube: KubeClient
    kinds: Mapping[str, FollowedKind] = field(default_factory=lambda: BY_NAME)

    async def write_status(self, row: WorkspaceResource) -> bool:
        """Write the effects of ``row``; returns whether a status was written.

        The finalizer is removed first: usually the resource is then gone, and has no status to write. Raises Retry (API
        server away), Wait (an operator has to grant a right), Rejected (it will never work).
        """
        with waiting_for_rights(f"'patch' on {self.kinds[row.kind].resource.plural} and its status"):
            if row.release_finalizer and not await self._release(row):
                return False
            return await self._write(row)

    async def _write(self, row: WorkspaceResource) -> bool:
        """Write the status. After a patch that failed, the live resource decides the next one."""
        kind, had_status = self.kinds[row.kind], None
        for _ in range(ATTEMPTS):
            try:
                await self._patch(row, status_patch(kind, row, has_status=had_status is not False), "status")
            except (NotFound, Rejected) as error:
                found = await self._find_after(error, row)
                if found is None:
                    return _unneeded(kind)
                if not kind.own_status or has_status(found) == had_status:
                    raise
                had_status = has_status(found)
            else:
                metrics.KUBERNETES_WRITES.labels(SERVICE, kind.name, "status").inc()
                return True
        raise Retry(f"the status of {row.namespace}/{row.name} keeps coming and going")

    async def _find_after(self, error: NotFound | Rejected, row: WorkspaceResource) -> Manifest | None:
        """The live resource after a failed patch, None if it is gone. Raises ``error`` if the resource is as assumed.

        A failed test, a missing member of a status and a status that the CRD refuses cause the same error.
        """
        if isinstance(error, NotFound):
            return None
        if error.status != UNPROCESSABLE:
            raise error
        return await self._find(row)

    async def _release(self, row: WorkspaceResource) -> bool:
        """Remove our finalizer; returns whether the resource may still exist."""
        kind = self.kinds[row.kind]
        for _ in range(ATTEMPTS):
            manifest = await self._find(row)
            if manifest is None:
                return _unneeded(kind)
            if not has_finalizer(manifest):
                return True
            if (left := await self._try_release(row, manifest)) is not None:
                metrics.KUBERNETES_WRITES.labels(SERVICE, kind.name, "finalizer").inc()
                return left
        raise Retry(f"finalizers of {row.namespace}/{row.name} keep changing")

    async def _try_release(self, row: WorkspaceResource, seen: Manifest) -> bool | None:
        """Try once. Returns whether other finalizers keep the resource; None if the finalizers were changed."""
        try:
            after = await self._patch(row, release_finalizer(seen))
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
        """The resource that the row is about; None if it is gone, or another one has its name now."""
        try:
            manifest = await self.kube.get_object(self.kinds[row.kind].resource, row.namespace, row.name)
        except NotFound:
            return None
        return manifest if manifest["metadata"]["uid"] == row.uid else None

    async def _patch(self, row: WorkspaceResource, patch: Patch, subresource: str | None = None) -> Manifest:
        resource = self.kinds[row.kind].resource
        return await self.kube.patch_object(
            resource, row.namespace, row.name, patch, field_manager=WATCHER_FIELD_MANAGER, subresource=subresource
        )


def require_known_kind(row: WorkspaceResource, kinds: Container[str] = BY_NAME) -> WorkspaceResource:
    """Returns ``row`` if the status of its kind can be written. Raises Poison otherwise."""
    if row.kind not in kinds:
        raise Poison(f"this watcher knows no resource of kind {row.kind!r}")
    return row


def _unneeded(kind: FollowedKind) -> bool:
    metrics.KUBERNETES_WRITES.labels(SERVICE, kind.name, "unneeded").inc()
    return False


def status_patch(kind: FollowedKind, row: WorkspaceResource, *, has_status: bool) -> Patch:
    """The patch that writes the row's status. ``has_status``: whether the resource is believed to have one."""
    if not kind.own_status:
        return replace_status(row.uid, row.status)
    status = _parsed(row.status)
    members = {name: status.get(name) for name in sorted(kind.own_status)}
    return write_members(row.uid, members) if has_status else begin_status(row.uid, members)


def replace_status(uid: str, status: str) -> Patch:
    """The patch that replaces the whole status by ``status``, which is JSON text and sent as it is."""
    return [_same(uid), {"op": "add", "path": "/status", "value": orjson.Fragment(status)}]


def write_members(uid: str, members: Manifest) -> Patch:
    """The patch that writes ``members`` into the existing status; None: the member is removed if it exists."""
    patch = [_same(uid)]
    for name, value in members.items():
        path = f"/status/{name}"
        patch.append({"op": "add", "path": path, "value": value})
        if value is None:
            patch.append({"op": "remove", "path": path})
    return patch


def begin_status(uid: str, members: Manifest) -> Patch:
    """The patch that adds a status with these members if there is none: a missing path counts as null."""
    status = {name: value for name, value in members.items() if value is not None}
    path = "/status"
    return [_same(uid), {"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": status}]


def release_finalizer(manifest: Manifest) -> Patch:
    """The patch that removes our finalizer, provided the list is still as in ``manifest``."""
    present = manifest["metadata"]["finalizers"]
    remaining = [finalizer for finalizer in present if finalizer != FINALIZER]
    path = "/metadata/finalizers"
    return [
        _same(manifest["metadata"]["uid"]),
        {"op": "test", "path": path, "value": present},
        {"op": "replace", "path": path, "value": remaining},
    ]


def has_status(manifest: Manifest) -> bool:
    """Whether the object has a status, even an empty one."""
    return manifest.get("status") is not None


def has_finalizer(manifest: Manifest) -> bool:
    """Whether our finalizer is on the object."""
    return FINALIZER in (manifest["metadata"].get("finalizers") or ())


def _parsed(status: str) -> Manifest:
    """The status as an object. Raises Permanent if it is none: then nothing says which of our members to remove."""
    try:
        parsed = orjson.loads(status)
    except orjson.JSONDecodeError as error:
        raise Permanent(f"the row's status is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise Permanent("the row's status is not a JSON object")
    return parsed


def _same(uid: str) -> Manifest:
    return {"op": "test", "path": "/metadata/uid", "value": uid}
