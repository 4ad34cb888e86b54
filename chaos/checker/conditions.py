"""What a resource says of itself in its conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.common.kubernetes import Manifest


def condition_of(resource: Manifest, type_: str) -> Mapping[str, Any]:
    """The one of this type; empty: it has none."""
    conditions = (resource.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == type_), {})


def error_of(resource: Manifest) -> str:
    """The message of its error; empty: there is none."""
    error = condition_of(resource, "ErrorOccurred")
    return error.get("message", "") if error.get("status") == "True" else ""
