"""The private repositories of one instance, in a Secret of the engine namespace: as durable as its checkouts.

Only hashes are in it, but who may not read Secrets need not know whether a URL that he guesses is private either. One
agent at a time owns an instance; a write of a former owner meets a newer resource version and is merged.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from dataclasses import dataclass

from services.common.errors import Permanent
from services.common.kubernetes import SECRET, AlreadyExists, Conflict, KubeClient, Manifest, NotFound
from services.common.ownership import AGENT_FIELD_MANAGER, OURS
from services.common.urls.repository_url import normalised, parts_of

NAME = "gitops-service-private-repositories"
FIELD = "repositories"
LIMIT = 20_000
"""Repositories; 640,000 bytes, of the 1 MiB that a Secret may hold."""
MAX_WRITES = 5
"""Of one attempt: more conflicts than that in a row come from another writer."""
SIZE = 16
"""Bytes of each half."""
SUFFIX = ".git"


@dataclass(frozen=True, slots=True)
class Identity:
    """A repository as it is remembered: by hashes, because it is remembered for longer than any tenant names it."""

    repository: bytes
    """Of the form by which Argo CD shares its checkouts."""
    spelling: bytes
    """Upper and lower case count here as they do to many servers: another repository may be public."""


def identity_of(url: str) -> Identity:
    """The identity of an acceptable URL."""
    parts = parts_of(url)
    path = parts.rest if parts is not None else url
    bare = path[: -len(SUFFIX)] if path.lower().endswith(SUFFIX) else path
    return Identity(repository_of(url), _digest(bare))


def repository_of(url: str) -> bytes:
    """The first half of its identity; also of the normalised form, as AppProjects list it."""
    return _digest(normalised(url))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=SIZE).digest()


class StoreFull(Exception):
    """There is no room for another repository."""


class PrivateRepositoryStore:
    """Private repositories. What changes is in force at once, and durable when ``save_repositories`` returns."""

    def __init__(self, cluster: KubeClient, namespace: str, limit: int = LIMIT) -> None:
        self._cluster, self._namespace, self._limit = cluster, namespace, limit
        self._spellings: dict[bytes, bytes] = {}
        self._unsaved: dict[bytes, bytes | None] = {}
        self._version = ""
        """Empty: there is no such Secret yet."""
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._spellings)

    def identity_in_force(self, repository: bytes) -> Identity | None:
        """The private repository that shares its checkout with this URL's."""
        spelling = self._spellings.get(repository)
        return Identity(repository, spelling) if spelling is not None else None

    def add_repository(self, identity: Identity) -> None:
        """It is private. Raises StoreFull."""
        if len(self._spellings) >= self._limit:
            raise StoreFull
        self._change(identity.repository, identity.spelling)

    def remove_repository(self, identity: Identity) -> None:
        """It is public, and nothing else is known under its URL."""
        if self.identity_in_force(identity.repository) == identity:
            self._change(identity.repository, None)

    async def load_repositories(self) -> None:
        """Read what is there; what was not saved is forgotten. Raises Permanent (unreadable), or as a cluster does."""
        self._unsaved.clear()
        await self._read()

    async def save_repositories(self) -> None:
        """Write what has changed. Raises as a cluster does; what is not written stays to be written."""
        async with self._turn:  # who waits finds that the one before has written for both
            for _ in range(MAX_WRITES if self._unsaved else 0):
                written = dict(self._unsaved)
                if not await self._write():
                    await self._read()
                    continue
                self._unsaved = {key: to for key, to in self._unsaved.items() if written.get(key, b"") != to}
                if not self._unsaved:
                    break
            if self._unsaved:
                raise Conflict(f"Secret {NAME} keeps changing")

    def _change(self, repository: bytes, spelling: bytes | None) -> None:
        self._unsaved[repository] = spelling
        if spelling is None:
            self._spellings.pop(repository, None)
        else:
            self._spellings[repository] = spelling

    async def _read(self) -> None:
        try:
            found = await self._cluster.get(SECRET, self._namespace, NAME)
        except NotFound:
            self._version, self._spellings = "", {}
        else:
            self._version, self._spellings = found["metadata"]["resourceVersion"], _read(found)
        for repository, spelling in self._unsaved.items():
            self._change(repository, spelling)

    async def _write(self) -> bool:
        """Whether it was written; if not it has to be read again."""
        data = {FIELD: _written(self._spellings)}
        try:
            if self._version:
                patch = {"metadata": {"resourceVersion": self._version}, "data": data}
                answer = await self._cluster.patch(
                    SECRET, self._namespace, NAME, patch, field_manager=AGENT_FIELD_MANAGER
                )
            else:
                metadata = {"name": NAME, "namespace": self._namespace, "labels": dict(OURS)}
                secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
                answer = await self._cluster.create(SECRET, secret, field_manager=AGENT_FIELD_MANAGER)
        except (Conflict, NotFound, AlreadyExists):
            return False
        self._version = answer["metadata"]["resourceVersion"]
        return True


def _written(spellings: dict[bytes, bytes]) -> str:
    return base64.b64encode(b"".join(key + spellings[key] for key in sorted(spellings))).decode()


def _read(secret: Manifest) -> dict[bytes, bytes]:
    try:
        content = base64.b64decode((secret.get("data") or {}).get(FIELD, ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        content = b"?"
    if len(content) % (2 * SIZE):
        # Taken for empty it would open every private repository of the instance to all its tenants.
        raise Permanent(f"Secret {NAME} is not as it was written; see docs/operations.md")
    entries = (content[at : at + 2 * SIZE] for at in range(0, len(content), 2 * SIZE))
    return {entry[:SIZE]: entry[SIZE:] for entry in entries}
