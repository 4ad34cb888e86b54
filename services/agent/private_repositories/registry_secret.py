"""The private repositories that one tenant's logins have opened, in a Secret of the engine namespace.

It has only hashes. It is a Secret because a hash confirms a guessed URL. One agent at a time owns an instance; a write
of a former owner meets a newer resource version and is merged.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import struct
from dataclasses import dataclass

from services.agent.private_repositories.repository_identity import SIZE
from services.common.errors import Permanent
from services.common.kubernetes import SECRET, AlreadyExists, Conflict, KubeClient, Manifest, NotFound
from services.common.ownership import AGENT_FIELD_MANAGER, OURS

NAME = "gitops-service-private-repositories"
"""Prefix of all these Secrets, and name of the former, single Secret."""
LABEL = {"managed-gitops.redhat.com/private-repositories": "true"}
FIELD = "entries"
MAX_WRITES = 5
"""Writes of one attempt. More conflicts in a row come from another writer."""
RECORD = struct.Struct(f">{SIZE}s{SIZE}sI")
"""Repository, spelling, and since when nobody names it."""


def secret_name(owner: bytes) -> str:
    """The name of an owner's Secret."""
    return f"{NAME}-{owner.hex()}"


@dataclass(frozen=True, slots=True)
class PrivateRepository:
    """What is stored of a private repository."""

    spelling: bytes
    unnamed_since: int = 0
    """Since when no row of the instance names it, in seconds since 1970; 0 while one does."""


class RegistrySecret:
    """The entries of one owner. A change is in force at once, and durable when :meth:`save_changes` returns."""

    def __init__(self, cluster: KubeClient, namespace: str, owner: bytes) -> None:
        self.name = secret_name(owner)
        self.entries: dict[bytes, PrivateRepository] = {}
        """By repository."""
        self._cluster, self._namespace = cluster, namespace
        self._unsaved: dict[bytes, PrivateRepository | None] = {}
        self._version = ""
        """The Secret's resource version; empty if there is no Secret yet."""
        self._turn = asyncio.Lock()

    def put_entry(self, repository: bytes, entry: PrivateRepository | None) -> None:
        """Set the entry of ``repository``; None: remove it."""
        self._unsaved[repository] = entry
        if entry is None:
            self.entries.pop(repository, None)
        else:
            self.entries[repository] = entry

    def load_manifest(self, manifest: Manifest) -> None:
        """Load ``manifest``; unsaved changes stay pending. Raises Permanent if it is unreadable."""
        self._version, self.entries = manifest["metadata"]["resourceVersion"], _entries_in(manifest)
        for repository, entry in self._unsaved.items():
            self.put_entry(repository, entry)

    async def save_changes(self) -> None:
        """Save the changes. Raises as a cluster does; unsaved changes stay pending."""
        async with self._turn:  # a caller that waited finds its changes written already
            for _ in range(MAX_WRITES if self._unsaved else 0):
                written = dict(self._unsaved)
                if not await self._write():
                    await self._read_again()
                    continue
                self._unsaved = {
                    key: to for key, to in self._unsaved.items() if key not in written or written[key] != to
                }
                if not self._unsaved:
                    break
            if self._unsaved:
                raise Conflict(f"Secret {self.name} keeps changing")

    async def _read_again(self) -> None:
        try:
            self.load_manifest(await self._cluster.get_object(SECRET, self._namespace, self.name))
        except NotFound:
            self._version = ""  # what is known is written anew

    async def _write(self) -> bool:
        """Write the Secret. Returns False if it has to be read again."""
        data = {FIELD: _written(self.entries)}
        try:
            if not self.entries:
                self._version = await self._delete()
            elif self._version:
                patch = {"metadata": {"resourceVersion": self._version}, "data": data}
                answer = await self._cluster.patch_object(
                    SECRET, self._namespace, self.name, patch, field_manager=AGENT_FIELD_MANAGER
                )
                self._version = answer["metadata"]["resourceVersion"]
            else:
                metadata = {"name": self.name, "namespace": self._namespace, "labels": OURS | LABEL}
                secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
                answer = await self._cluster.create_object(SECRET, secret, field_manager=AGENT_FIELD_MANAGER)
                self._version = answer["metadata"]["resourceVersion"]
        except (Conflict, NotFound, AlreadyExists):
            return False
        return True

    async def _delete(self) -> str:
        if self._version:
            await self._cluster.delete_object(SECRET, self._namespace, self.name, version=int(self._version))
        return ""


def content_of(secret: Manifest, field: str, size: int) -> bytes:
    """The records in a field of ``secret``. Raises Permanent if it does not hold records of ``size`` bytes."""
    try:
        content = base64.b64decode((secret.get("data") or {}).get(field, ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        content = b"?"
    if len(content) % size or not content:
        # Taken for empty it would open private repositories of the instance to all its tenants.
        name = secret["metadata"]["name"]
        raise Permanent(f"Secret {name} is not as it was written; see docs/operations/killed-process.md")
    return content


def _written(entries: dict[bytes, PrivateRepository]) -> str:
    records = (RECORD.pack(key, entries[key].spelling, entries[key].unnamed_since) for key in sorted(entries))
    return base64.b64encode(b"".join(records)).decode()


def _entries_in(secret: Manifest) -> dict[bytes, PrivateRepository]:
    records = RECORD.iter_unpack(content_of(secret, FIELD, RECORD.size))
    return {repository: PrivateRepository(spelling, since) for repository, spelling, since in records}
