"""JSON that somebody else wrote, read as if it had the expected shape: what has not is empty. Pure."""

from __future__ import annotations

from typing import Any


def dict_of(value: Any) -> dict[str, Any]:
    """``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: Any) -> list[dict[str, Any]]:
    """The mappings in ``value`` if it is a list, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""
