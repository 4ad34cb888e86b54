"""Reads JSON from others as if it had the expected shape, and writes our JSON as canonical text. Pure.

Canonical text has sorted keys and no spaces, so that equal objects have equal digests.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

OMITTED = "{}"
"""Replaces an object that was left out."""


def dict_of(value: Any) -> dict[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: Any) -> list[dict[str, Any]]:
    """The mappings in ``value`` if it is a list, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts_of(value: Any) -> list[str]:
    """The texts in ``value`` if it is a list, else none."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def text_at(value: Any, path: str) -> str:
    """The text at ``path`` (names of members, separated by dots); empty if there is none."""
    for member in path.split("."):
        value = dict_of(value).get(member)
    return text_of(value)


def canonical(value: Any) -> str:
    """Canonical JSON text of ``value``."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def bounded(value: Any, limit: int, subject: str, option: int = 0) -> tuple[str, str]:
    """JSON text of ``value``, and why it was left out; empty if it was not. ``subject`` names it to users.

    A text above ``limit`` bytes is left out, not cut: the user must learn of it, and nobody may mistake a part for the
    whole.
    """
    try:
        text = orjson.dumps(value, option=option)
    except TypeError:  # what JSON was read from is written again, unless it has some hundred levels
        return OMITTED, f"the {subject} is nested too deeply"
    if len(text) <= limit:
        return text.decode(), ""
    return OMITTED, f"the {subject} is too long: {len(text)} bytes as JSON, of at most {limit}"


def digest(text: str) -> str:
    """SHA-256 of ``text``, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
