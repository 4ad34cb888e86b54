"""An informer: list, watch and a store of what exists, as in client-go.

The store is filled with what lists and watches show, and with the answers to our own writes, which may be ahead of the
watch. A complete list is authoritative: what it shows replaces what was known before it began, even if that had a
greater resource version, because an API server that was restored from a backup counts from an older one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.common.kubernetes.reflector import Changed, ListCompleted, ListStarted, Reflection, Removed, Seen
from services.common.kubernetes.resources import Manifest

KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT")


@dataclass(slots=True)
class _Entry(Generic[ItemT]):
    uid: str
    version: int
    item: ItemT
    list: int
    """Number of the newest list that had begun when it was last shown."""


class ObjectStore(Mapping[KeyT, ItemT]):
    """Of each object that exists what ``project`` makes of it: the whole, or the part that decisions need.

    ``project`` gets the object and the part of the collection it was seen in, see :mod:`reflector`.
    """

    def __init__(self, key_of: Callable[[Manifest], KeyT], project: Callable[[Manifest, str], ItemT]) -> None:
        self._key_of, self._project = key_of, project
        self._entries: dict[KeyT, _Entry[ItemT]] = {}
        self._list = 0
        self.is_complete = False
        """Whether a list has been completed since the last one began."""

    def __getitem__(self, key: KeyT) -> ItemT:
        return self._entries[key].item

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def observe_event(self, event: Reflection) -> list[KeyT]:
        """Take in what was listed or watched. Returns the keys of objects that are not as they were known."""
        match event:
            case ListStarted():
                self._list += 1
                self.is_complete = False
            case Seen(manifest, part) | Changed(manifest, part):
                return self._put_newer(manifest, part)
            case Removed(manifest):
                key = self._key_of(manifest)
                self.remove_object(key, manifest["metadata"]["uid"])
                return [key]
            case ListCompleted():
                self.is_complete = True
                return self._remove_unlisted()
        return []

    def put_answer(self, manifest: Manifest, known: ItemT | None) -> None:
        """Take in the answer to a request of ours; ``known`` is what the store held when it was made.

        If that has not changed meanwhile the answer is newer, whatever its resource version: the API server may have
        been restored. If the object went meanwhile the watch will tell whether it came again.
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
            del self._entries[key]

    def _put_newer(self, manifest: Manifest, part: str = "") -> list[KeyT]:
        """Versions are comparable since the newest list began, not beyond it."""
        entry, version = self._entries.get(self._key_of(manifest)), int(manifest["metadata"]["resourceVersion"])
        if entry is None or entry.list < self._list or entry.version < version:
            return self._put(manifest, part)
        return []

    def _put(self, manifest: Manifest, part: str = "") -> list[KeyT]:
        key, meta = self._key_of(manifest), manifest["metadata"]
        known = self._entries.get(key)
        entry = _Entry(meta["uid"], int(meta["resourceVersion"]), self._project(manifest, part), self._list)
        self._entries[key] = entry
        return [key] if known is None or known.item != entry.item else []

    def _remove_unlisted(self) -> list[KeyT]:
        gone = [key for key, entry in self._entries.items() if entry.list < self._list]
        for key in gone:
            del self._entries[key]
        return gone


@dataclass(frozen=True, slots=True)
class Informer(Generic[KeyT, ItemT]):
    """Keeps ``store`` as ``events``, those of one collection, say."""

    events: AsyncGenerator[Reflection]
    store: ObjectStore[KeyT, ItemT]

    async def changes(self) -> AsyncIterator[tuple[Reflection, list[KeyT]]]:
        """For ever: each event, once the store is as it says, and the keys of the objects that changed by it."""
        async with aclosing(self.events) as events:
            async for event in events:
                yield event, self.store.observe_event(event)
