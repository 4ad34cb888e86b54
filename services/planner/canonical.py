"""One text per value: JSON with sorted keys and no spaces, so that equal objects have equal digests."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson


def canonical(value: Any) -> str:
    """Canonical JSON text of ``value``."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def digest(text: str) -> str:
    """SHA-256 of ``text``, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
