"""Finds out which namespace of its name a resource is in: the next owner of a name must not find anything of the last.

Called by :mod:`command_sender`. The namespace is read when a resource is sent, unless another resource of its kind is
known to be in it. A watch of namespaces would not do: it may lag behind the watch of the resource, and the planner
would get the former namespace.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from services.common.kubernetes import NAMESPACE, Changed, Deleted, ListStarted, Manifest, Reflection, Seen
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.translation import created_at

MOST_KNOWN = 100_000
INFERENCE_COUNTS_FOR_SECONDS = 60
LOGICAL_CLUSTER = "kcp.io/cluster"
"""Annotation of every object of KCP. A workspace that is created again under its name is another logical cluster.
Elsewhere it is an ordinary annotation, which anybody who may annotate a namespace can set."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """One incarnation of a namespace."""

    uid: str
    """Preceded by the name of its logical cluster, if there is one."""
    created_at: int
    """Milliseconds since 1970, in whole seconds."""
    read: float
    """When it existed, or later: monotonic seconds, so that a clock that is set back does not make it newer."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces that were read last, for all kinds together. Belongs to one event loop."""

    reader: ObjectReader
    in_logical_clusters: bool = False
    """Whether the API server is KCP."""
    time: Callable[[], float] = time.monotonic
    _known: dict[str, Namespace] = field(default_factory=dict)
    _reading: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def find_namespace(self, name: str, since: float) -> Namespace | None:
        """The namespace as read after ``since`` (monotonic seconds); None if there is none. Raises Rejected."""
        if (known := self._read_since(name, since)) is not None:
            return known
        async with self._reading[name]:  # what waited meanwhile has been read for all
            return self._read_since(name, since) or await self._read(name)

    def _read_since(self, name: str, since: float) -> Namespace | None:
        known = self._known.get(name)
        return known if known is not None and since <= known.read else None

    async def _read(self, name: str) -> Namespace | None:
        read = self.time()
        manifest = await self.reader.find_object(NAMESPACE, None, name)
        if len(self._reading) > MOST_KNOWN:
            self._known.clear()
            self._reading.clear()
        if manifest is None:
            self._known.pop(name, None)
            return None
        meta = manifest["metadata"]
        self._known[name] = found = Namespace(self._identity(meta), created_at(meta), read)
        return found

    def _identity(self, meta: Manifest) -> str:
        cluster = (meta.get("annotations") or {}).get(LOGICAL_CLUSTER, "") if self.in_logical_clusters else ""
        return f"{cluster}/{meta['uid']}" if cluster else str(meta["uid"])


@dataclass(slots=True)
class _Inhabited:
    """A namespace that was read, and the objects that are in it."""

    namespace: Namespace
    uids: set[str]


@dataclass(slots=True)
class NamespaceInference:
    """Infers the namespace of an object from other objects of its kind, as far as the watch of that kind has come.

    Kubernetes removes a namespace only after all that is in it, and a watch shows removals and creations in order. So
    two objects that the watch shows as existing at one time, in namespaces of one name, are in one namespace. But an
    administrator who removes a namespace by force leaves its objects behind in the next one of its name. Therefore the
    inference counts only for a minute after the namespace was read. As long as the former tenant has what was left
    behind, the planner leaves it out.
    """

    is_one_watch: bool
    """Several watches have no order among each other: then nothing is inferred from other objects."""
    _existing: set[str] = field(default_factory=set)
    _inhabited: dict[str, _Inhabited] = field(default_factory=dict)
    """By name of the namespace."""

    def observe_event(self, event: Reflection) -> None:
        """Process an event of the list or watch."""
        match event:
            case ListStarted():
                self._existing.clear()
                self._inhabited.clear()
            case Seen(manifest) | Changed(manifest):
                self._existing.add(manifest["metadata"]["uid"])
            case Deleted(manifest):
                self._remove(manifest["metadata"])

    def find_namespace(self, uid: str, name: str, seen: float) -> Namespace | None:
        """The namespace of this name that contains the object, seen at ``seen``; None if that is not known."""
        found = self._inhabited.get(name)
        if found is None or uid not in self._existing:
            return None
        counts = self.is_one_watch and abs(seen - found.namespace.read) < INFERENCE_COUNTS_FOR_SECONDS
        return found.namespace if counts or uid in found.uids else None

    def note_namespace(self, uid: str, name: str, namespace: Namespace) -> None:
        """The object was found in this namespace, which was read after the object. The object may be gone by now."""
        if uid not in self._existing:
            return
        found = self._inhabited.get(name)
        if found is None or found.namespace.uid != namespace.uid:
            self._inhabited[name] = _Inhabited(namespace, {uid})
        else:
            found.namespace = namespace
            found.uids.add(uid)

    def _remove(self, meta: Manifest) -> None:
        uid, name = meta["uid"], meta.get("namespace", "")
        self._existing.discard(uid)
        found = self._inhabited.get(name)
        if found is not None:
            found.uids.discard(uid)
            if not found.uids:
                del self._inhabited[name]
