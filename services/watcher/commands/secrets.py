"""Secrets, sealed as soon as they are read, which is when they are sent: only their metadata is followed and waits.

Nothing here logs, raises, counts or represents their content.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from services.common.json_values import OMITTED
from services.common.kubernetes import SECRET, Manifest, ObjectStore, Reflection, namespace_and_name
from services.common.sealing import SealingKeys, SecretContext, key_id_of
from services.common.secret_use import SecretUse
from services.kinds.secret.rules import BOUND
from services.kinds.shared.secret_binding import SecretBinding
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.translation import StateVersion
from services.watcher.followed_kinds import TYPE_IS
from services.watcher.secret_content import content_of, excess_of

ROTATION_SECONDS = 2.0
"""How soon a change of the key file is noticed; asking costs one call of stat."""


@dataclass(frozen=True, slots=True)
class Sealer:
    """The content of commands about Secrets, and the bindings of what names them."""

    keys: SealingKeys
    workspace: str
    max_bytes: int

    def sealed_content(self, manifest: Manifest, namespace_uid: str) -> tuple[str, str]:
        """Type, sealed content and key id as JSON; and why they were left out."""
        if too_large := excess_of(manifest, self.max_bytes):
            return OMITTED, too_large
        sealed = self.keys.seal_secret(content_of(manifest), self._context(manifest, namespace_uid))
        content = {"type": manifest.get("type", ""), "sealed": sealed, "keyId": key_id_of(sealed), BOUND: True}
        return orjson.dumps(content).decode(), ""

    def sealed_binding(self, manifest: Manifest, use: SecretUse, namespace_uid: str) -> str:
        """What a resource may use the Secret for, sealed: text; "" if the Secret is too large to be sent."""
        if excess_of(manifest, self.max_bytes):
            return ""
        sealed = self.keys.seal_binding(content_of(manifest), use, self._context(manifest, namespace_uid))
        meta = manifest["metadata"]
        return SecretBinding(meta["uid"], meta["resourceVersion"], use.digest, key_id_of(sealed), sealed).text

    def _context(self, manifest: Manifest, namespace_uid: str) -> SecretContext:
        meta, secret_type = manifest["metadata"], manifest.get("type", "")
        return SecretContext(self.workspace, meta["namespace"], meta["name"], secret_type, namespace_uid)

    def state_version(self, manifest: Manifest) -> StateVersion:
        """Secrets have no generation: every write counts, and so does another key."""
        return (manifest["metadata"]["resourceVersion"], self.keys.active_id)

    async def until_rotated(self) -> None:
        """Return when another key seals than at the time of the call."""
        before = self.keys.active_id
        while self.keys.active_id == before:  # noqa: ASYNC110 - a file tells nobody that it changed
            await asyncio.sleep(ROTATION_SECONDS)


class SecretState(NamedTuple):
    """What is known of a Secret besides its content."""

    type: str
    version: str
    """Its resourceVersion."""


@dataclass(frozen=True, slots=True)
class SecretTypes:
    """Tells the types of Secrets: of those that are followed at once, of others by asking."""

    reader: ObjectReader
    _followed: ObjectStore[tuple[str, str], SecretState] = field(
        default_factory=lambda: ObjectStore(
            namespace_and_name,
            lambda manifest, part: SecretState(part.removeprefix(TYPE_IS), manifest["metadata"]["resourceVersion"]),
        )
    )

    def observe_event(self, event: Reflection) -> None:
        """Take note of what became of the Secrets that are followed."""
        self._followed.observe_event(event)

    def is_followed(self, namespace: str, name: str) -> bool:
        """Whether the planner learns of this Secret, and of its end, by itself."""
        return (namespace, name) in self._followed

    def version_of(self, namespace: str, name: str) -> str:
        """The newest version that was seen of a Secret that is followed, "" if it is not."""
        followed = self._followed.get((namespace, name))
        return followed.version if followed is not None else ""

    async def type_of(self, namespace: str, name: str) -> str:
        """Type of a Secret at this moment, "" if there is none that can be read by this name."""
        found = await self.state_of(namespace, name)
        return found.type if found is not None else ""

    async def state_of(self, namespace: str, name: str) -> SecretState | None:
        """What a Secret is at this moment, None if there is none that can be read by this name."""
        if (followed := self._followed.get((namespace, name))) is not None:
            return followed
        secret = await self.reader.find_object(SECRET, namespace, name)
        return SecretState(str(secret.get("type", "")), secret["metadata"]["resourceVersion"]) if secret else None
