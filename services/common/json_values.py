"""JSON that somebody else wrote, read as if it had the expected shape, and JSON of ours in one canonical text. Pure.

Canonical text has sorted keys and no spaces, so that equal objects have equal digests.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson


def dict_of(value: Any) -> dict[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: Any) -> list[dict[str, Any]]:
    """The mappings in ``value`` if it is a list, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def canonical(value: Any) -> str:
    """Canonical JSON text of ``value``."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def digest(text: str) -> str:
    """SHA-256 of ``text``, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
