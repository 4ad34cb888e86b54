"""Our objects of one engine instance, as its informers and our own writes showed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain

from services.agent.objects.keys import ObjectKey
from services.agent.objects.kinds import KINDS, ManagedKind
from services.agent.objects.live import LiveObject, live_object
from services.common.kubernetes import Manifest, ObjectStore, namespace_and_name


class EngineObjects(Mapping[ObjectKey, LiveObject]):
    """A store for each kind."""

    def __init__(self) -> None:
        self.stores = {kind: _store_of(managed) for kind, managed in KINDS.items()}

    def __getitem__(self, key: ObjectKey) -> LiveObject:
        return self.stores[key.kind][key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return chain.from_iterable(self.stores.values())

    def __len__(self) -> int:
        return sum(map(len, self.stores.values()))

    def put_answer(self, kind: str, manifest: Manifest, known: LiveObject | None) -> None:
        """Take in the answer to a request; ``known`` is the object as it was known when that was made."""
        self.stores[kind].put_answer(manifest, known)

    def remove_object(self, key: ObjectKey, uid: str) -> None:
        """The incarnation ``uid`` is gone."""
        self.stores[key.kind].remove_object(key, uid)


def _store_of(kind: ManagedKind) -> ObjectStore[ObjectKey, LiveObject]:
    return ObjectStore(partial(_key_of, kind.resource.kind), lambda manifest, _: live_object(kind, manifest))


def _key_of(kind: str, manifest: Manifest) -> ObjectKey:
    return ObjectKey(kind, *namespace_and_name(manifest))
