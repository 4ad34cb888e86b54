"""The trace id that follows a change through every hop, in the W3C ``traceparent`` header."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

TRACEPARENT = "traceparent"
_TRACE_ID_LENGTH = 32

Headers = Iterable[tuple[str, bytes | str | None]]


def new_traceparent() -> str:
    """A fresh, sampled ``traceparent``."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def traceparent(headers: Headers | None) -> str:
    """The ``traceparent`` among Kafka ``headers``, or "" if there is none that is well formed."""
    for name, value in headers or ():
        if name == TRACEPARENT and value is not None:
            text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
            return text if trace_id(text) else ""
    return ""


def trace_id(parent: str) -> str:
    """The 32 hex digits that name the trace in a ``traceparent``; "" if it is malformed."""
    parts = parent.split("-")
    if len(parts) != 4 or len(parts[1]) != _TRACE_ID_LENGTH:  # noqa: PLR2004 - version, trace, span, flags
        return ""
    return parts[1] if all(digit in "0123456789abcdef" for digit in parts[1]) else ""
