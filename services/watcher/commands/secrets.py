"""Seals Secrets when they are sent. Only their metadata is followed and waits; the content is read and sealed at once.

A Secret is sealed to the keys of the engine clusters that its tenant is in. Until these are known it is sent without
content. So the planner knows that it exists, no list sweeps it, and resources that name it wait.

Nothing here logs, raises, counts or represents the content of Secrets.
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
"""How often the key file is checked for a change, which costs one call of stat."""


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals the content of Secrets, and the bindings of resources that name them."""

    keys: SealingKeys
    workspace: str
    max_bytes: int
    tenants: ClustersOfTenants

    async def wait_until_ready(self) -> None:
        """Return once it is known where tenants are, if any key names a cluster."""
        if self.tenants.matters():
            await self.tenants.wait_until_read()

    def subject_of(self, namespace: str, namespace_uid: str) -> str:
        """The identity of a namespace for :meth:`key_ids_of`."""
        return namespace_digest(self.workspace, namespace, namespace_uid)

    def key_ids_of(self, subject: str) -> str:
        """Ids of the keys that seal the Secrets of a namespace now, in one text; empty if there are none."""
        return ",".join(self.keys.ids_for(self.tenants.clusters_of(subject)))

    def sealed_content(self, manifest: Manifest, namespace_uid: str) -> tuple[str, str]:
        """Type, sealed content and key id as JSON; and why the content was left out."""
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
        """What a resource may use the Secret for, sealed; empty if that, or the Secret, cannot be sealed."""
        if excess_of(manifest, self.max_bytes):
            return ""
        try:
            sealed = self.keys.seal_binding(content_of(manifest), use, *self._context(manifest, namespace_uid))
        except NoKey:
            return ""
        meta = manifest["metadata"]
        return SecretBinding(meta["uid"], meta["resourceVersion"], use.digest, key_id_of(sealed), sealed).text

    def _context(self, manifest: Manifest, namespace_uid: str) -> tuple[SecretContext, frozenset[str]]:
        """Where the Secret belongs, and the engine clusters that it is sealed for."""
        meta, secret_type = manifest["metadata"], manifest.get("type", "")
        context = SecretContext(self.workspace, meta["namespace"], meta["name"], secret_type, namespace_uid)
        return context, self.tenants.clusters_of(self.subject_of(meta["namespace"], namespace_uid))

    def state_version(self, manifest: Manifest) -> StateVersion:
        """The version of a Secret, which has no generation: every write counts, and so does a change of keys."""
        return (manifest["metadata"]["resourceVersion"], *sorted(self.keys.active_ids.values()))

    async def until_rotated(self) -> None:
        """Return when other keys are active than at the time of the call."""
        before = self.keys.active_ids
        while self.keys.active_ids == before:  # noqa: ASYNC110 - a file tells nobody that it changed
            await asyncio.sleep(ROTATION_SECONDS)


class SecretState(NamedTuple):
    """What is known of a Secret besides its content."""

    type: str
    version: str
    """The Secret's resourceVersion."""
    is_too_large: bool = False
    """Whether it is too large to be copied. False for a followed Secret, whose content is sent or left out."""

    @property
    def type_to_copy(self) -> str:
        """What is sent in place of the type for a Secret that is copied."""
        return TOO_LARGE if self.is_too_large else self.type


@dataclass(frozen=True, slots=True)
class SecretTypes:
    """Finds the types of Secrets: of followed ones at once, of others by asking the API server."""

    reader: ObjectReader
    max_bytes: int
    """Largest content of a Secret that is copied."""
    _followed: ObjectStore[tuple[str, str], SecretState] = field(
        default_factory=lambda: ObjectStore(
            namespace_and_name,
            lambda manifest, part: SecretState(part.removeprefix(TYPE_IS), manifest["metadata"]["resourceVersion"]),
        )
    )

    def observe_event(self, event: Reflection) -> None:
        """Process an event of a followed Secret."""
        self._followed.observe_event(event)

    def is_followed(self, namespace: str, name: str) -> bool:
        """Whether this Secret is followed, so that the planner learns of it, and of its end."""
        return (namespace, name) in self._followed

    def version_of(self, namespace: str, name: str) -> str:
        """The newest version seen of a followed Secret, empty if it is not followed."""
        followed = self._followed.get((namespace, name))
        return followed.version if followed is not None else ""

    async def type_of(self, namespace: str, name: str) -> str:
        """Current type of a Secret, empty if no Secret of this name can be read."""
        found = await self.state_of(namespace, name)
        return found.type if found is not None else ""

    async def state_of(self, namespace: str, name: str) -> SecretState | None:
        """Current state of a Secret, None if no Secret of this name can be read."""
        if (followed := self._followed.get((namespace, name))) is not None:
            return followed
        secret = await self.reader.find_object(SECRET, namespace, name)
        if secret is None:
            return None
        is_too_large = bool(excess_of(secret, self.max_bytes))
        return SecretState(str(secret.get("type", "")), secret["metadata"]["resourceVersion"], is_too_large)
