"""Secrets, sealed as soon as they are read, which is when they are sent: only their metadata is followed and waits.

Nothing here logs, raises, counts or represents their content.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import orjson

from services.common.kubernetes import SECRET, Manifest, ObjectStore, Reflection, namespace_and_name
from services.common.sealing import SealingKeys, SecretContext, key_id_of
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.translation import OMITTED_SPEC, StateVersion
from services.watcher.followed_kinds import TYPE_IS

ROTATION_SECONDS = 2.0
"""How soon a change of the key file is noticed; asking costs one call of stat."""


@dataclass(frozen=True, slots=True)
class Sealer:
    """The content of commands about Secrets."""

    keys: SealingKeys
    workspace: str
    max_bytes: int

    def sealed_content(self, manifest: Manifest, namespace_uid: str) -> tuple[str, str]:
        """Type, sealed content and key id as JSON; and why they were left out."""
        data = manifest.get("data") or {}
        size = len(orjson.dumps(data))
        if size > self.max_bytes:
            return OMITTED_SPEC, f"the Secret is too large: {size} bytes as JSON, of at most {self.max_bytes}"
        meta, secret_type = manifest["metadata"], manifest.get("type", "")
        context = SecretContext(self.workspace, meta["namespace"], meta["name"], secret_type, namespace_uid)
        sealed = self.keys.seal_secret(data, context)
        return orjson.dumps({"type": secret_type, "sealed": sealed, "keyId": key_id_of(sealed)}).decode(), ""

    def state_version(self, manifest: Manifest) -> StateVersion:
        """Secrets have no generation: every write counts, and so does another key."""
        return (manifest["metadata"]["resourceVersion"], self.keys.active_id)

    async def until_rotated(self) -> None:
        """Return when another key seals than at the time of the call."""
        before = self.keys.active_id
        while self.keys.active_id == before:  # noqa: ASYNC110 - a file tells nobody that it changed
            await asyncio.sleep(ROTATION_SECONDS)


@dataclass(frozen=True, slots=True)
class SecretTypes:
    """Tells the types of Secrets: of those that are followed at once, of others by asking."""

    reader: ObjectReader
    _followed: ObjectStore[tuple[str, str], str] = field(
        default_factory=lambda: ObjectStore(namespace_and_name, lambda _, part: part.removeprefix(TYPE_IS))
    )

    def observe_event(self, event: Reflection) -> None:
        """Take note of what became of the Secrets that are followed."""
        self._followed.observe_event(event)

    def is_followed(self, namespace: str, name: str) -> bool:
        """Whether the planner learns of this Secret, and of its end, by itself."""
        return (namespace, name) in self._followed

    async def type_of(self, namespace: str, name: str) -> str:
        """Type of a Secret at this moment, "" if there is none that can be read by this name."""
        if (followed := self._followed.get((namespace, name))) is not None:
            return followed
        secret = await self.reader.find_object(SECRET, namespace, name)
        return str(secret.get("type", "")) if secret else ""
