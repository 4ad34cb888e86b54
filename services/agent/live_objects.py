"""What exists on an engine instance, as its watches and our own writes showed it.

A write's answer is newer than the watch: an event of an older version of the same object changes nothing. Resource
versions of one API server are comparable (Kubernetes says so since 1.35; etcd's revisions always were).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from services.agent.kinds import KINDS
from services.agent.objects import LiveObject, ObjectKey, live_object
from services.common.kube import Manifest


class LiveObjects:
    """Our objects of one instance."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, LiveObject] = {}
        self._round: dict[ObjectKey, int] = {}
        self._rounds: dict[str, int] = {}
        self._counts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._objects)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._objects

    def __len__(self) -> int:
        return len(self._objects)

    def count(self, kind: str) -> int:
        """How many objects of ``kind`` exist."""
        return self._counts[kind]

    def get(self, key: ObjectKey) -> LiveObject | None:
        """The object as last seen."""
        return self._objects.get(key)

    def put(self, kind: str, manifest: Manifest) -> ObjectKey | None:
        """Take in what the API server showed; None if it was older than what is known."""
        meta = manifest["metadata"]
        key = ObjectKey(kind, meta["namespace"], meta["name"])
        self._round[key] = self._rounds.get(kind, 0)
        known = self._objects.get(key)
        if known is not None and known.version >= int(meta["resourceVersion"]):
            return None
        self._counts[kind] += known is None
        self._objects[key] = live_object(KINDS[kind], manifest)
        return key

    def drop(self, key: ObjectKey, uid: str) -> None:
        """The incarnation ``uid`` is gone."""
        known = self._objects.get(key)
        if known is not None and known.uid == uid:
            self._delete(key)

    def begin_list(self, kind: str) -> None:
        """A complete list of ``kind`` begins."""
        self._rounds[kind] = self._rounds.get(kind, 0) + 1

    def end_list(self, kind: str) -> list[ObjectKey]:
        """The list is complete: what was neither seen nor written since it began is gone, and returned."""
        current = self._rounds[kind]
        gone = [key for key, seen in self._round.items() if key.kind == kind and seen < current]
        for key in gone:
            self._delete(key)
        return gone

    def _delete(self, key: ObjectKey) -> None:
        del self._objects[key]
        self._round.pop(key, None)
        self._counts[key.kind] -= 1
