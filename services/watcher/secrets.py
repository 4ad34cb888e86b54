"""Secrets, sealed as soon as they are read. Nothing here logs, raises, counts or represents their content."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

import orjson
import structlog

from services.common.backoff import Backoff
from services.common.errors import Retry
from services.common.kube import SECRET, KubeClient, Manifest, NotFound, Refused
from services.common.sealing import SealingKeys, SecretContext, key_id_of
from services.watcher.commands import OMITTED_SPEC
from services.watcher.echoes import Fingerprint

log = structlog.get_logger(__name__)

OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""What Kubernetes takes as a name, and nothing that means something else in a path."""
ROTATION_SECONDS = 2.0
"""How soon a change of the key file is noticed; asking costs one call of stat."""


@dataclass(frozen=True, slots=True)
class Sealer:
    """What commands say of Secrets."""

    keys: SealingKeys
    workspace: str
    max_bytes: int

    def content(self, manifest: Manifest) -> tuple[str, str]:
        """Type, sealed content and key id as JSON; and why they were left out."""
        data = manifest.get("data") or {}
        size = len(orjson.dumps(data))
        if size > self.max_bytes:
            return OMITTED_SPEC, f"the Secret is too large: {size} bytes as JSON, of at most {self.max_bytes}"
        meta, secret_type = manifest["metadata"], manifest.get("type", "")
        sealed = self.keys.seal(data, SecretContext(self.workspace, meta["namespace"], meta["name"], secret_type))
        return orjson.dumps({"type": secret_type, "sealed": sealed, "keyId": key_id_of(sealed)}).decode(), ""

    def fingerprint(self, manifest: Manifest) -> Fingerprint:
        """Secrets have no generation: every write counts, and so does another key."""
        return (manifest["metadata"]["resourceVersion"], self.keys.active_id)

    async def until_rotated(self) -> None:
        """Return when another key seals than at the time of the call."""
        before = self.keys.active_id
        while self.keys.active_id == before:  # noqa: ASYNC110 - a file tells nobody that it changed
            await asyncio.sleep(ROTATION_SECONDS)


@dataclass(frozen=True, slots=True)
class SecretTypes:
    """Tells the types of Secrets, of which it keeps nothing."""

    kube: KubeClient
    delays: Backoff = field(default_factory=Backoff)

    async def type_of(self, namespace: str, name: str) -> str:
        """Type of a Secret at this moment, "" if there is none that can be read by this name.

        The name is a user's: whatever the API server says to it is an answer. Waits while the API server is away.
        """
        if not OBJECT_NAME.fullmatch(name):
            return ""
        while True:
            try:
                secret = await self.kube.get(SECRET, namespace, name)
            except (NotFound, Refused) as error:
                if isinstance(error, Refused):
                    log.warning("a Secret's type cannot be read", namespace=namespace, error=str(error))
                return ""
            except Retry as error:
                log.info("awaiting a Secret's type", namespace=namespace, error=str(error))
                await asyncio.sleep(self.delays.next())
            else:
                self.delays.reset()
                return str(secret.get("type", ""))
