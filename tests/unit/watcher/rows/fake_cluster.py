"""An API server as far as an applier of child objects sees it: server-side apply, and deletion bound to a uid."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.common.errors import GitOpsError
from services.common.kubernetes import AlreadyExists, ApiResource, Conflict, Manifest, NotFound, Rejected
from services.common.kubernetes.api_errors import Details

Place = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass
class FakeCluster:
    """Objects, and the calls that changed them."""

    objects: dict[Place, Manifest] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    """Names of what was looked at."""
    failures: list[GitOpsError] = field(default_factory=list)
    """Raised by the next changes, one each."""
    before_change: list[Callable[[], None]] = field(default_factory=list)
    """What others do between our look and the next changes, one each."""
    unserved: set[str] = field(default_factory=set)
    """Kinds that it does not know."""
    unreadable: set[str] = field(default_factory=set)
    """Kinds that nobody may read."""
    made: int = 0
    version: int = 0

    def add(self, manifest: Manifest, namespace: str = "team-a") -> None:
        meta = manifest["metadata"] | {"namespace": namespace, "resourceVersion": self.next_version()}
        self.objects[manifest["kind"], namespace, meta["name"]] = manifest | {"metadata": meta}

    def next_version(self) -> str:
        """As any change gets a greater one."""
        self.version += 1
        return str(self.version)

    def remove(self, kind: str, name: str, namespace: str = "team-a") -> None:
        del self.objects[kind, namespace, name]

    def get(self, kind: str, name: str, namespace: str = "team-a") -> Manifest | None:
        return self.objects.get((kind, namespace, name))

    async def get_object(self, resource: ApiResource, namespace: str, name: str) -> Manifest:
        self.reads.append(name)
        if resource.kind in self.unserved:
            raise NotFound("the server could not find the requested resource")
        if resource.kind in self.unreadable:
            raise Rejected("forbidden", 403)
        found = self.get(resource.kind, name, namespace)
        if found is None:
            raise NotFound(f"no {resource.kind} {name}", Details(resource.plural, name))
        return copy.deepcopy(found)

    async def apply_object(
        self, resource: ApiResource, manifest: Manifest, *, field_manager: str, force: bool = True
    ) -> Manifest:
        assert field_manager == "gitops-watcher"
        self._change("apply")
        meta = manifest["metadata"]
        place = (resource.kind, meta["namespace"], meta["name"])
        live = self.objects.get(place)
        if "uid" in meta and (live is None or live["metadata"]["resourceVersion"] != meta["resourceVersion"]):
            raise Conflict("it is gone, or was changed")
        if live is not None and not force:
            raise Conflict("another manager owns .spec")
        if live is None:
            self.made += 1
            meta = meta | {"uid": f"made-{self.made}"}
        meta = meta | {"resourceVersion": self.next_version()}
        before = live["metadata"] if live is not None else {}
        both = {name: {**before.get(name, {}), **meta.get(name, {})} for name in ("labels", "annotations")}
        self.objects[place] = (live or {}) | copy.deepcopy(manifest) | {"metadata": before | meta | both}
        return self.objects[place]

    async def create_object(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> Manifest:
        assert field_manager == "gitops-watcher"
        self._change("create")
        meta = manifest["metadata"]
        if (resource.kind, meta["namespace"], meta["name"]) in self.objects:
            raise AlreadyExists(meta["name"])
        self.made += 1
        self.add(copy.deepcopy(manifest) | {"metadata": meta | {"uid": f"made-{self.made}"}}, meta["namespace"])
        return self.objects[resource.kind, meta["namespace"], meta["name"]]

    async def patch_object(
        self, resource: ApiResource, namespace: str, name: str, patch: Manifest, *, field_manager: str
    ) -> Manifest:
        """A merge patch (RFC 7386) that names the version."""
        assert field_manager == "gitops-watcher"
        self._change("patch")
        live = self.get(resource.kind, name, namespace)
        if live is None:
            raise NotFound(name)
        bound, meta = patch["metadata"], live["metadata"]
        if (bound["uid"], bound["resourceVersion"]) != (meta["uid"], meta["resourceVersion"]):
            raise Conflict("it was changed")
        self.objects[resource.kind, namespace, name] = _merged(
            live, patch | {"metadata": bound | {"resourceVersion": self.next_version()}}
        )
        return self.objects[resource.kind, namespace, name]

    async def delete_object(self, resource: ApiResource, namespace: str, name: str, *, uid: str) -> None:
        self._change("delete")
        found = self.get(resource.kind, name, namespace)
        if found is None:
            raise NotFound(name)
        if found["metadata"]["uid"] != uid:
            raise Conflict("uid mismatch")
        del self.objects[resource.kind, namespace, name]

    def _change(self, verb: str) -> None:
        self.calls.append(verb)
        if self.before_change:
            self.before_change.pop(0)()
        if self.failures:
            raise self.failures.pop(0)


def _merged(live: Any, patch: Manifest) -> Manifest:
    """RFC 7386."""
    merged = dict(live) if isinstance(live, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value) if isinstance(value, dict) else value
    return merged


def controlled_by(owner: str, owner_uid: str, kind: str = "GitOpsDeployment", **meta: Any) -> Manifest:
    """Metadata of a child of that owner."""
    reference = {"kind": kind, "name": owner, "uid": owner_uid, "controller": True}
    return {"uid": "uid-child", "labels": {}, "annotations": {}, "ownerReferences": [reference]} | meta
