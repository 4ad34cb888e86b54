"""The form of a sealed text: JWE, ECDH-ES+A256KW to P-256 keys, A256GCM.

The protected header names the key (``kid``) and the context (``ctx``): where the Secret belongs. For one key a text is
JWE compact (RFC 7516). For several keys it is JWE in its general form (JSON): one content, whose key is wrapped for
each.

:class:`SealingKeys` makes such texts, :class:`OpeningKeys` opens them. Whether the context is the expected one is
checked there, not here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from joserfc.registry import HeaderParameter

from services.common.errors import Permanent
from services.common.json_values import dict_of, dicts_of, text_of
from services.common.sealing.jwk_sets import ALGORITHM

ENCRYPTION = "A256GCM"


class _Registry(jwe.JWERegistry):
    """A registry with greater limits than joserfc's, for whole Secrets, and without compression (``zip``)."""

    max_protected_header_length = 4096
    max_ciphertext_length = 4 * 1024 * 1024


def _check_context(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError("must be an object")  # noqa: TRY004 - as joserfc's own checks do


REGISTRY = _Registry({"ctx": HeaderParameter("Where the Secret belongs", _check_context)}, [ALGORITHM, ENCRYPTION])


class Unopenable(Permanent):
    """A sealed text cannot be opened. The message is the reason, never content."""


def encrypt_text(plaintext: bytes, context: Mapping[str, str], keys: Mapping[str, ECKey]) -> str:
    """Encrypt for these public keys by id, at least one. The private key of each opens the text."""
    header = {"alg": ALGORITHM, "enc": ENCRYPTION, "ctx": dict(context)}
    if len(keys) == 1:
        ((kid, key),) = keys.items()
        return jwe.encrypt_compact(header | {"kid": kid}, plaintext, key, registry=REGISTRY)
    content = jwe.GeneralJSONEncryption(header, plaintext)
    for kid, key in keys.items():
        content.add_recipient({"kid": kid}, key)
    return orjson.dumps(jwe.encrypt_json(content, None, registry=REGISTRY)).decode()


def decrypt_text(sealed: str, kid: str, key: ECKey) -> tuple[dict[str, Any], bytes] | None:
    """The protected header and the content; None if the text is damaged."""
    recipient = next((each for each in _recipients(sealed) if dict_of(each.get("header")).get("kid") == kid), None)
    try:
        if recipient is None:
            opened = jwe.decrypt_compact(sealed, key, registry=REGISTRY)
            return opened.headers(), opened.plaintext or b""
        shared = {name: orjson.loads(sealed)[name] for name in ("protected", "iv", "ciphertext", "tag")}
        flattened: Any = {**shared, **recipient}
        one = jwe.decrypt_json(flattened, key, registry=REGISTRY)
    except (JoseError, ValueError, KeyError, TypeError):
        return None
    return dict(one.protected), one.plaintext or b""


def key_ids_of(sealed: str) -> tuple[str, ...]:
    """Ids of the keys that ``sealed`` opens with, from its headers. Raises Unopenable."""
    headers = [each.get("header") for each in _recipients(sealed)] or [_header(sealed)]
    ids = tuple(text_of(dict_of(header).get("kid")) for header in headers)
    if not all(ids):
        raise Unopenable("not a sealed text")
    return ids


def key_id_of(sealed: str) -> str:
    """The ids in one text, which shows whether another text is sealed under the same keys. Raises Unopenable."""
    return ",".join(key_ids_of(sealed))


def _recipients(sealed: str) -> Sequence[dict[str, Any]]:
    """Recipients of a text in the general form, unverified; none for the compact form, which has no braces."""
    if not sealed.startswith("{"):
        return ()
    try:
        return dicts_of(orjson.loads(sealed).get("recipients"))
    except orjson.JSONDecodeError:
        return ()


def _header(sealed: str) -> dict[str, Any]:
    """The protected header, unverified; empty if there is none."""
    first = sealed.partition(".")[0]
    try:
        header = orjson.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return header if isinstance(header, dict) else {}
