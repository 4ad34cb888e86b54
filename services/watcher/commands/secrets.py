"""Secrets, sealed as soon as they are read, which is when they are sent: only their metadata is followed and waits.

They are sealed to the keys of the engine clusters that their tenant is in. Until these are known a Secret is sent
without content: so it counts as there, is swept by no list, and what names it waits.

Nothing here logs, raises, counts or represents their content.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson
import structlog

from services.common.json_values import OMITTED
from services.common.kubernetes import SECRET, Manifest, ObjectStore, Reflection, namespace_and_name
from services.common.messages import namespace_digest
from services.common.sealing import NoKey, SealingKeys, SecretContext, key_id_of
from services.common.secret_use import SecretUse
from services.kinds.secret.rules import AWAITED, BOUND, TOO_LARGE
from services.kinds.shared.secret_binding import SecretBinding
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.tenant_clusters import ClustersOfTenants
from services.watcher.commands.translation import StateVersion
from services.watcher.followed_kinds import TYPE_IS
from services.watcher.secret_content import content_of, excess_of

log = structlog.get_logger(__name__)

ROTATION_SECONDS = 2.0
"""How soon a change of the key file is noticed; asking costs one call of stat."""


@dataclass(frozen=True, slots=True)
class Sealer:
    """The content of commands about Secrets, and the bindings of what names them."""

    keys: SealingKeys
    workspace: str
    max_bytes: int
    tenants: ClustersOfTenants

    async def wait_until_ready(self) -> None:
        """Return once it is known where tenants are, if that matters."""
        if self.tenants.matters():
            await self.tenants.wait_until_read()

    def subject_of(self, namespace: str, namespace_uid: str) -> str:
        """What :meth:`key_ids_of` knows a namespace by."""
        return namespace_digest(self.workspace, namespace, namespace_uid)

    def key_ids_of(self, subject: str) -> str:
        """Ids of the keys under which the Secrets of a namespace are sealed now, in one text; "" if it is none."""
        return ",".join(self.keys.ids_for(self.tenants.clusters_of(subject)))

    def sealed_content(self, manifest: Manifest, namespace_uid: str) -> tuple[str, str]:
        """Type, sealed content and key id as JSON; and why they were left out."""
        if too_large := excess_of(manifest, self.max_bytes):
            return OMITTED, too_large
        content = {"type": manifest.get("type", ""), BOUND: True}
        try:
            sealed = self.keys.seal_secret(content_of(manifest), *self._context(manifest, namespace_uid))
        except NoKey as error:
            if self.tenants.clusters_of(self.subject_of(manifest["metadata"]["namespace"], namespace_uid)):
                log.warning("a Secret cannot be sealed", namespace=manifest["metadata"]["namespace"], error=str(error))
            return orjson.dumps(content | {AWAITED: True}).decode(), ""
        return orjson.dumps(content | {"sealed": sealed, "keyId": key_id_of(sealed)}).decode(), ""

    def sealed_binding(self, manifest: Manifest, use: SecretUse, namespace_uid: str) -> str:
        """What a resource may use the Secret for, sealed: text; "" if that, or the Secret, is not sealed."""
        if excess_of(manifest, self.max_bytes):
            return ""
        try:
            sealed = self.keys.seal_binding(content_of(manifest), use, *self._context(manifest, namespace_uid))
        except NoKey:
            return ""
        meta = manifest["metadata"]
        return SecretBinding(meta["uid"], meta["resourceVersion"], use.digest, key_id_of(sealed), sealed).text

    def _context(self, manifest: Manifest, namespace_uid: str) -> tuple[SecretContext, frozenset[str]]:
        """Where the Secret belongs, and the engine clusters it is sealed for."""
        meta, secret_type = manifest["metadata"], manifest.get("type", "")
        context = SecretContext(self.workspace, meta["namespace"], meta["name"], secret_type, namespace_uid)
        return context, self.tenants.clusters_of(self.subject_of(meta["namespace"], namespace_uid))

    def state_version(self, manifest: Manifest) -> StateVersion:
        """Secrets have no generation: every write counts, and so does another key."""
        return (manifest["metadata"]["resourceVersion"], *sorted(self.keys.active_ids.values()))

    async def until_rotated(self) -> None:
        """Return when other keys seal than at the time of the call."""
        before = self.keys.active_ids
        while self.keys.active_ids == before:  # noqa: ASYNC110 - a file tells nobody that it changed
            await asyncio.sleep(ROTATION_SECONDS)


class SecretState(NamedTuple):
    """What is known of a Secret besides its content."""

    type: str
    version: str
    """Its resourceVersion."""
    is_too_large: bool = False
    """To be copied; not told of one that is followed, whose content is sent or left out."""

    @property
    def type_to_copy(self) -> str:
        """What is told in place of its type to who has it copied."""
        return TOO_LARGE if self.is_too_large else self.type


@dataclass(frozen=True, slots=True)
class SecretTypes:
    """Tells the types of Secrets: of those that are followed at once, of others by asking."""

    reader: ObjectReader
    max_bytes: int
    """Of a Secret that is copied."""
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
        if secret is None:
            return None
        is_too_large = bool(excess_of(secret, self.max_bytes))
        return SecretState(str(secret.get("type", "")), secret["metadata"]["resourceVersion"], is_too_large)
