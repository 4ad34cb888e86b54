"""The private keys that agents open sealed texts with.

A text opens only for the Secret that it was sealed for. An agent that puts a Secret to use opens it for that use alone:
the binding of the resource that names the Secret has to fit the content and the use. ``gitopsctl keys reseal`` opens
Secrets and bindings to seal them under other keys.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import orjson
from joserfc.jwk import ECKey

from services.common.json_values import dict_of
from services.common.sealing.jwk_sets import cluster_of
from services.common.sealing.key_file import KeyFile
from services.common.sealing.sealed_text import Unopenable, decrypt_text, key_ids_of
from services.common.sealing.secret_context import BINDING, SecretContext, describe_use
from services.common.secret_use import SecretUse

PRIVATE_KEYS = "SEALING_PRIVATE_KEYS"


class UseRefused(Unopenable):
    """The Secret may not be used for this."""


class Unbound(UseRefused):
    """No watcher has sent what the Secret may be used for."""


class OpeningKeys(KeyFile):
    """Private keys: all under which something may still be sealed."""

    VARIABLE, IS_PRIVATE = PRIVATE_KEYS, True

    def __init__(self, path: Path, engine_cluster: str = "") -> None:
        """``engine_cluster``: the agents' cluster. The file must not have another cluster's keys. Empty: any."""
        self._engine_cluster = engine_cluster
        super().__init__(path)

    @classmethod
    def load_of_cluster(cls, path: Path, engine_cluster: str) -> Self:
        """Read the file of an agent of this cluster. Raises InvalidConfiguration, also if it has another's keys."""
        return cls(path, engine_cluster)

    def _check(self, keys: Mapping[str, ECKey]) -> None:
        """Raises ValueError if a key belongs to another cluster: this one must not open that cluster's Secrets."""
        for kid, key in keys.items():
            if self._engine_cluster and (other := cluster_of(key)) not in {"", self._engine_cluster}:
                raise ValueError(
                    f"key {kid} is of engine cluster {other}, and these are agents of {self._engine_cluster}; take it "
                    "out of the file"
                )

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all keys."""
        return tuple(self.current())

    def open_secret(self, sealed: str, context: SecretContext) -> dict[str, bytes]:
        """The Secret's values by key, for any use. Raises Unopenable: key unknown, another context, damaged."""
        values = _values(self._open(sealed, context, purpose=""))
        if values is None:
            raise Unopenable("what was sealed is not the data of a Secret")
        return values

    def open_binding(self, binding: str, context: SecretContext) -> bytes:
        """What was sealed by ``seal_binding``. Raises Unopenable."""
        return self._open(binding, context, purpose=BINDING)

    def open_secret_for(self, use: SecretUse, sealed: str, binding: str, context: SecretContext) -> dict[str, bytes]:
        """The Secret's values, if it may be used for ``use``. Raises Unopenable, UseRefused if it may not."""
        values = self.open_secret(sealed, context)
        if not binding:
            raise Unbound("no watcher has said yet what it may be used for")
        bound, wanted = _parsed(self.open_binding(binding, context)), describe_use(values, use)
        if bound.get("content") != wanted["content"]:
            raise UseRefused("what it may be used for was said of another content")
        if bound.get("url") != wanted["url"]:
            raise UseRefused("it was given for another URL")
        if bound != wanted:
            raise UseRefused("it was given for this URL on other terms, such as whether TLS is verified")
        return values

    def _open(self, sealed: str, context: SecretContext, purpose: str) -> bytes:
        ids, keys = key_ids_of(sealed), self.current()
        kid = next((each for each in ids if each in keys), None)
        if kid is None:
            raise Unopenable(f"sealed under a key that is not here: {', '.join(ids)!r}")
        opened = decrypt_text(sealed, kid, keys[kid])
        if opened is None:
            raise Unopenable("the sealed text is damaged")
        header, plaintext = opened
        sealed_for = header.get("ctx")
        sealed_for = dict(sealed_for) if isinstance(sealed_for, dict) else {}
        if sealed_for.pop("purpose", "") != purpose or not context.fits_header(sealed_for):
            raise Unopenable("sealed for another Secret than the one it is used for")
        return plaintext


def _parsed(plaintext: bytes) -> dict[str, Any]:
    try:
        return dict_of(orjson.loads(plaintext))
    except orjson.JSONDecodeError:
        return {}


def _values(plaintext: bytes) -> dict[str, bytes] | None:
    try:
        data = orjson.loads(plaintext)
        return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
    except (ValueError, TypeError, AttributeError):
        return None
