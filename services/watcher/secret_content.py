"""The content of a Secret, and whether it is too large to be sealed or copied. Nothing here shows it."""

from __future__ import annotations

import orjson

from services.common.kubernetes import Manifest


def content_of(secret: Manifest) -> dict[str, str]:
    """The Secret's data, encoded as the API server sends it."""
    return secret.get("data") or {}


def excess_of(secret: Manifest, max_bytes: int) -> str:
    """Why the Secret is too large, "" if it is not."""
    size = len(orjson.dumps(content_of(secret)))
    return "" if size <= max_bytes else f"the Secret is too large: {size} bytes as JSON, of at most {max_bytes}"
