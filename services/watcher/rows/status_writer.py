"""Makes a resource agree with its compiled row: its status written, our finalizer off. Called by :mod:`delivery`.

It does so by JSON patches (RFC 6902) only, each of which begins with a test of the uid: a resource that was deleted and
created anew is another one. Writing a row twice, or one of a resource that is gone, changes nothing.

A status that is all ours is replaced whole. Of one that other controllers write, too, the patch names our members, as
the kind declares them, and no others:

- one that the row has is put in place of what is there, whole, lists included. One that it has no more is removed; the
  patch adds it first, because removing what is not there fails;
- the API server applies a patch to the newest state of the resource, and again if that has changed meanwhile. So
  nothing is read before, nothing that another controller writes at the same time is lost, and nothing of ours is;
- where there is no status yet a member cannot be added. Then the status is, by a patch that fails if the other
  controller was first; the one after that names the members again.

Server-side apply and merge patches would need fewer words, but on ``/status`` the API server compares no uid with
theirs: a row of a former resource would be written to its successor. Apply also forgets which members were ours when
the managed fields are lost, as in a restore from a backup, or when another controller has written the member once; and
a merge patch leaves in a member what a former status had in it.
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
"""At a patch that fails because another controller was first."""


@dataclass(frozen=True, slots=True)
class StatusWriter:
    """Writes to one workspace cluster."""

    kube: KubeClient
    kinds: Mapping[str, FollowedKind] = field(default_factory=lambda: BY_NAME)

    async def write_status(self, row: WorkspaceResource) -> bool:
        """Bring the effects of ``row`` about; returns whether a status was written.

        The finalizer goes first: most often the resource goes with it, and then has no status to write.

        Raises Retry (API server away), Wait (an operator has to permit it), Rejected (it will never work).
        """
        with waiting_for_rights(f"'patch' on {self.kinds[row.kind].resource.plural} and its status"):
            if row.release_finalizer and not await self._release(row):
                return False
            return await self._write(row)

    async def _write(self, row: WorkspaceResource) -> bool:
        """What is found after a patch that failed decides the next: the other controller may begin the status."""
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
        """The resource, None if it is gone. Raises ``error`` unless the resource may be another than was assumed.

        A failed test, a member of a status that is not there and a status that the CRD refuses look the same.
        """
        if isinstance(error, NotFound):
            return None
        if error.status != UNPROCESSABLE:
            raise error
        return await self._find(row)

    async def _release(self, row: WorkspaceResource) -> bool:
        """Take our finalizer off; returns whether the resource may still be there."""
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
        """One attempt: None if the finalizers were changed meanwhile, else whether others keep the resource."""
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
        """The resource the row is about, unless it is gone or another one has its name now."""
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
    """``row`` if its kind is one that can be written. Raises Poison."""
    if row.kind not in kinds:
        raise Poison(f"this watcher knows no resource of kind {row.kind!r}")
    return row


def _unneeded(kind: FollowedKind) -> bool:
    metrics.KUBERNETES_WRITES.labels(SERVICE, kind.name, "unneeded").inc()
    return False


def status_patch(kind: FollowedKind, row: WorkspaceResource, *, has_status: bool) -> Patch:
    """The patch that writes the row's status; ``has_status``: whether the resource has one as far as we know."""
    if not kind.own_status:
        return replace_status(row.uid, row.status)
    status = _parsed(row.status)
    members = {name: status.get(name) for name in sorted(kind.own_status)}
    return write_members(row.uid, members) if has_status else begin_status(row.uid, members)


def replace_status(uid: str, status: str) -> Patch:
    """Replace the whole status by ``status``, JSON text, which goes into the request as it is."""
    return [_same(uid), {"op": "add", "path": "/status", "value": orjson.Fragment(status)}]


def write_members(uid: str, members: Manifest) -> Patch:
    """Write each of ``members`` into the status that is there; None: it is removed, if it is there."""
    patch = [_same(uid)]
    for name, value in members.items():
        path = f"/status/{name}"
        patch.append({"op": "add", "path": path, "value": value})
        if value is None:
            patch.append({"op": "remove", "path": path})
    return patch


def begin_status(uid: str, members: Manifest) -> Patch:
    """The status has these members, provided there is none: a path that is not there counts as null."""
    status = {name: value for name, value in members.items() if value is not None}
    path = "/status"
    return [_same(uid), {"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": status}]


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


def has_status(manifest: Manifest) -> bool:
    """Whether the object has a status, be it empty."""
    return manifest.get("status") is not None


def has_finalizer(manifest: Manifest) -> bool:
    """Whether our finalizer is on the object."""
    return FINALIZER in (manifest["metadata"].get("finalizers") or ())


def _parsed(status: str) -> Manifest:
    """Raises Permanent if it is no object: then it does not say which of our members are to go."""
    try:
        parsed = orjson.loads(status)
    except orjson.JSONDecodeError as error:
        raise Permanent(f"the row's status is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise Permanent("the row's status is not a JSON object")
    return parsed


def _same(uid: str) -> Manifest:
    return {"op": "test", "path": "/metadata/uid", "value": uid}
