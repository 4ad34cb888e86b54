"""Live objects: the parts of objects that decisions need, and the store of one instance's objects."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import orjson

from services.agent.objects.desired_objects import owned_spec
from services.agent.objects.forbidden_calls import ForbiddenCalls
from services.agent.objects.live_operation import NO_OPERATION, LiveOperation, live_operation
from services.agent.objects.managed_kinds import KINDS, SECRET_KIND, ManagedKind, ObjectKey
from services.agent.objects.reconciliation import NOT_RECONCILED, Reconciliation, reconciliation_of
from services.agent.objects.visible_status import visible_status
from services.common.clock import Clock
from services.common.kubernetes import (
    APPLICATION,
    SECRET,
    KubeClient,
    Manifest,
    NotFound,
    ObjectStore,
    namespace_and_name,
)

_HASH_KEY = os.urandom(32)
"""Random for each process, so a hash means nothing elsewhere."""

READS = 4
"""How many Secrets are read at a time. After a take-over every one is read."""


@dataclass(frozen=True, slots=True)
class LiveObject:
    """The parts of an existing object that decisions need."""

    uid: str
    version: int
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: tuple[str, ...]
    deletion_started: datetime | None
    owned: Manifest
    """Only our part, see :func:`owned_part`."""
    status: str
    """The part of the status that users see, as canonical JSON; empty if there is none."""
    operation: LiveOperation
    """The operation of an Application."""
    reconciliation: Reconciliation = NOT_RECONCILED
    """The reconciliation of an Application."""


def live_object(kind: ManagedKind, manifest: Manifest) -> LiveObject:
    """The stored parts of ``manifest``."""
    meta = manifest["metadata"]
    started = meta.get("deletionTimestamp")
    return LiveObject(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        finalizers=tuple(meta.get("finalizers") or ()),
        deletion_started=datetime.fromisoformat(started) if started else None,
        owned=owned_part(kind, manifest),
        status=visible_status(manifest.get("status") or {}) if kind.reports_status else "",
        operation=live_operation(manifest) if kind.reports_status else NO_OPERATION,
        reconciliation=reconciliation_of(manifest) if kind.reports_status else NOT_RECONCILED,
    )


def owned_part(kind: ManagedKind, manifest: Manifest) -> Manifest:
    """The part of an object that is compared. Of a Secret it has hashes in place of values."""
    if kind is not SECRET_KIND:
        return {"spec": owned_spec(kind, manifest.get("spec") or {})}
    data = {name: value_hash(value) for name, value in (manifest.get("data") or {}).items()}
    fixed = {name: manifest[name] for name in kind.unchangeable if manifest.get(name)}
    return fixed | {"data": data}


def value_hash(value: Any) -> str:
    """A hash of a JSON value: equal for equal values within this process."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, key=_HASH_KEY, digest_size=16).hexdigest()


class EngineObjects(Mapping[ObjectKey, LiveObject]):
    """A store for each kind. Applications are indexed by their destination cluster."""

    def __init__(self) -> None:
        self.stores = {kind: _store_of(managed) for kind, managed in KINDS.items()}

    def __getitem__(self, key: ObjectKey) -> LiveObject:
        return self.stores[key.kind][key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return chain.from_iterable(self.stores.values())

    def __len__(self) -> int:
        return sum(map(len, self.stores.values()))

    def is_cluster_used(self, name: str) -> bool:
        """Whether an Application's destination is the cluster with this name in Argo CD."""
        return bool(self.stores[APPLICATION.kind].indexed_keys(name))

    def put_answer(self, kind: str, manifest: Manifest, known: LiveObject | None) -> None:
        """Store the answer to a request. ``known`` is the object as known when the request was made."""
        self.stores[kind].put_answer(manifest, known)

    async def read_object(self, cluster: KubeClient, key: ObjectKey) -> bool:
        """Read an object from the API server, because the watch may lag. Returns False if there is none."""
        known = self.get(key)
        try:
            answer = await cluster.get_object(KINDS[key.kind].resource, key.namespace, key.name)
        except NotFound:
            if known is not None:
                self.remove_object(key, known.uid)
            return False
        self.put_answer(key.kind, answer, known)
        return True

    def remove_object(self, key: ObjectKey, uid: str) -> None:
        """The incarnation ``uid`` is gone."""
        self.stores[key.kind].remove_object(key, uid)


class SecretReader:
    """Reads Secrets from the API server, because the store has only hashes of values."""

    def __init__(self, cluster: KubeClient, clock: Clock) -> None:
        self._cluster, self._forbidden = cluster, ForbiddenCalls(clock)
        self._slots = asyncio.Semaphore(READS)

    async def read_secret(self, key: ObjectKey) -> Manifest | None:
        """The Secret, None if there is none.

        Raises what a cluster raises, and Wait as :class:`ForbiddenCalls`.
        """
        async with self._slots:
            return await self._forbidden.tolerate(key, self._read(key))

    async def _read(self, key: ObjectKey) -> Manifest | None:
        try:
            return await self._cluster.get_object(SECRET, key.namespace, key.name)
        except NotFound:
            return None


def _store_of(kind: ManagedKind) -> ObjectStore[ObjectKey, LiveObject]:
    key_of = partial(_key_of, kind.resource.kind)
    return ObjectStore(key_of, lambda manifest, _: live_object(kind, manifest), _cluster_of)


def _cluster_of(live: LiveObject) -> str | None:
    """The name of the cluster that an Application deploys to."""
    destination = live.owned.get("spec", {}).get("destination") or {}
    return destination.get("name")


def _key_of(kind: str, manifest: Manifest) -> ObjectKey:
    return ObjectKey(kind, *namespace_and_name(manifest))
