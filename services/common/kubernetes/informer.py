"""An informer: list, watch and a store of what exists, as in client-go.

The store has what lists and watches show, and the answers to our own writes, which may be ahead of the watch. A
complete list is authoritative: it replaces what was known before it began, even with a greater resource version,
because an API server that was restored from a backup counts from an older one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Hashable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.common.kubernetes.builtin_kinds import Manifest
from services.common.kubernetes.reflector import Changed, Deleted, ListCompleted, ListStarted, Reflection, Seen

KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT")


@dataclass(slots=True)
class _Entry(Generic[ItemT]):
    uid: str
    version: int
    item: ItemT
    list: int
    """Number of the newest list that had begun when the object was last shown."""
    value: str | None
    """The object's value in the index."""


class ObjectStore(Mapping[KeyT, ItemT]):
    """Stores what ``project`` makes of each existing object: the whole, or the part that decisions need.

    ``project`` gets the object and its part of the collection, see :mod:`reflector`. ``index_by`` returns the value by
    which an object is found in the index; None: it is not indexed.
    """

    def __init__(
        self,
        key_of: Callable[[Manifest], KeyT],
        project: Callable[[Manifest, str], ItemT],
        index_by: Callable[[ItemT], str | None] = lambda _: None,
    ) -> None:
        self._key_of, self._project, self._index_by = key_of, project, index_by
        self._entries: dict[KeyT, _Entry[ItemT]] = {}
        self._index: dict[str, dict[KeyT, None]] = {}
        self._list = 0
        self.is_complete = False
        """Whether a list was completed since the last one began."""

    def __getitem__(self, key: KeyT) -> ItemT:
        return self._entries[key].item

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def indexed_keys(self, value: str) -> Collection[KeyT]:
        """Keys of the objects with this value in the index."""
        return self._index.get(value, {}).keys()

    def observe_event(self, event: Reflection) -> list[KeyT]:
        """Process an event of the list or watch. Returns the keys of objects that have changed in the store."""
        match event:
            case ListStarted():
                self._list += 1
                self.is_complete = False
            case Seen(manifest, part) | Changed(manifest, part):
                return self._put_newer(manifest, part)
            case Deleted(manifest):
                key = self._key_of(manifest)
                self.remove_object(key, manifest["metadata"]["uid"])
                return [key]
            case ListCompleted():
                self.is_complete = True
                return self._remove_unlisted()
        return []

    def put_answer(self, manifest: Manifest, known: ItemT | None) -> None:
        """Store the answer to a request of ours. ``known`` is the stored object when the request was made.

        If that has not changed meanwhile, the answer is newer, whatever its resource version, because the API server
        may have been restored. If the object went meanwhile, the watch will show whether it came again.
        """
        entry = self._entries.get(self._key_of(manifest))
        if entry is None:
            if known is None:
                self._put(manifest)
        elif entry.item is known:
            self._put(manifest)
        else:
            self._put_newer(manifest)

    def remove_object(self, key: KeyT, uid: str) -> None:
        """The incarnation ``uid`` is gone."""
        entry = self._entries.get(key)
        if entry is not None and entry.uid == uid:
            self._set_entry(key, None)

    def _put_newer(self, manifest: Manifest, part: str = "") -> list[KeyT]:
        """Store a newer version. Versions are comparable only since the newest list began."""
        entry, version = self._entries.get(self._key_of(manifest)), int(manifest["metadata"]["resourceVersion"])
        if entry is None or entry.list < self._list or entry.version < version:
            return self._put(manifest, part)
        return []

    def _put(self, manifest: Manifest, part: str = "") -> list[KeyT]:
        key, meta = self._key_of(manifest), manifest["metadata"]
        known = self._entries.get(key)
        item = self._project(manifest, part)
        entry = _Entry(meta["uid"], int(meta["resourceVersion"]), item, self._list, self._index_by(item))
        self._set_entry(key, entry)
        return [key] if known is None or known.item != item else []

    def _remove_unlisted(self) -> list[KeyT]:
        gone = [key for key, entry in self._entries.items() if entry.list < self._list]
        for key in gone:
            self._set_entry(key, None)
        return gone

    def _set_entry(self, key: KeyT, entry: _Entry[ItemT] | None) -> None:
        """Store or remove (None) an entry, with the index. Nothing else changes either."""
        known = self._entries.get(key)
        if entry is None:
            del self._entries[key]
        else:
            self._entries[key] = entry
        before, now = known.value if known else None, entry.value if entry else None
        if before == now:
            return
        if before is not None:
            del self._index[before][key]
            if not self._index[before]:
                del self._index[before]
        if now is not None:
            self._index.setdefault(now, {})[key] = None


@dataclass(frozen=True, slots=True)
class Informer(Generic[KeyT, ItemT]):
    """Keeps ``store`` up to date with the ``events`` of one collection."""

    events: AsyncGenerator[Reflection]
    store: ObjectStore[KeyT, ItemT]

    async def changes(self) -> AsyncIterator[tuple[Reflection, list[KeyT]]]:
        """Each event, after the store was updated, and the keys of objects that have changed; for ever."""
        async with aclosing(self.events) as events:
            async for event in events:
                yield event, self.store.observe_event(event)
