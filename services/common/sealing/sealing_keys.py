"""The public keys that watchers seal with.

A watcher seals Secrets and bindings with them. What is sealed for a tenant opens with the keys of the engine clusters
that the tenant is in: one, or two while it is moved from one to the other.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping

import orjson

from services.common.errors import Permanent
from services.common.sealing.jwk_sets import active_ids, key_age_seconds
from services.common.sealing.key_file import KeyFile
from services.common.sealing.sealed_text import encrypt_text
from services.common.sealing.secret_context import BINDING, SecretContext, describe_use
from services.common.secret_use import SecretUse

PUBLIC_KEYS = "SEALING_PUBLIC_KEYS"


class NoKey(Permanent):
    """No key can seal: the tenant's engine cluster is unknown, or has no key."""


class SealingKeys(KeyFile):
    """Public keys. Of each engine cluster, and of those without a cluster, the first one seals.

    Methods that seal need the tenant's engine clusters, and raise NoKey if no key belongs to them. If no key names a
    cluster, one key seals for all tenants.
    """

    VARIABLE, IS_PRIVATE = PUBLIC_KEYS, False

    @property
    def active_ids(self) -> dict[str, str]:
        """Ids of the active keys by engine cluster; the one without a cluster has an empty name."""
        return active_ids(self.current())

    @property
    def names_clusters(self) -> bool:
        """Whether it matters in which engine cluster a tenant is."""
        return any(self.active_ids)

    def ids_for(self, clusters: Collection[str]) -> tuple[str, ...]:
        """Ids of the keys that seal for a tenant in these clusters; empty: there are none, or the clusters are unknown.

        A cluster without its own key uses the one without a cluster.
        """
        return _ids_for(active_ids(self.current()), clusters)

    def active_age_seconds(self, now: float) -> float:
        """Age of the oldest active key in seconds; infinite if one has no time."""
        keys = self.current()
        return max(key_age_seconds(keys[kid], now) for kid in active_ids(keys).values())

    def seal_secret(self, data: Mapping[str, str], context: SecretContext, clusters: Collection[str] = ()) -> str:
        """Seal a Secret's ``data``: base64 text by key, as Kubernetes has it."""
        return self._seal(orjson.dumps(dict(data)), context.as_header(), clusters)

    def seal_binding(
        self, data: Mapping[str, str], use: SecretUse, context: SecretContext, clusters: Collection[str] = ()
    ) -> str:
        """Seal what the Secret with this ``data`` may be used for."""
        content = {key: base64.b64decode(value) for key, value in data.items()}
        return self._seal(orjson.dumps(describe_use(content, use)), _binding_context(context), clusters)

    def seal_binding_again(self, plaintext: bytes, context: SecretContext, clusters: Collection[str] = ()) -> str:
        """Seal again what ``open_binding`` has opened."""
        return self._seal(plaintext, _binding_context(context), clusters)

    def _seal(self, plaintext: bytes, context: Mapping[str, str], clusters: Collection[str]) -> str:
        keys = self.current()
        ids = _ids_for(active_ids(keys), clusters)
        if not ids:
            raise NoKey(f"no sealing key for {', '.join(sorted(clusters)) or 'a tenant that is not placed yet'}")
        return encrypt_text(plaintext, context, {kid: keys[kid] for kid in ids})


def _binding_context(context: SecretContext) -> dict[str, str]:
    return context.as_header() | {"purpose": BINDING}


def _ids_for(active: Mapping[str, str], clusters: Collection[str]) -> tuple[str, ...]:
    if not any(active):
        return (active[""],)
    return tuple(sorted({kid for each in clusters if (kid := active.get(each, active.get("")))}))
