"""Limits of texts from users and engines, in characters, and what is removed from them."""

from __future__ import annotations

import re

MAX_URL = 2048
MAX_PATH = 1024
MAX_REVISION = 256
MAX_LABEL = 63
"""A DNS-1123 label, such as a namespace's name."""
MAX_NAME = 253
"""A DNS-1123 subdomain, such as an object's name."""
MAX_NAMESPACES = 250
"""Entries in an environment's list of namespaces."""
MAX_SYNC_OPTIONS = 10
MAX_COMPONENTS = 250
"""Components of an application in a snapshot or binding."""
MAX_VARIABLES = 250
"""Environment variables of one component."""
MAX_VALUE = 4096
"""Value of an environment variable."""
MAX_IMAGE = 1024
"""A container image with registry, repository and digest."""
MAX_DISPLAY_NAME = 253
MAX_DISPLAY_TEXT = 1024
"""Text that users write for people."""

MAX_CONDITION_MESSAGE = 32768
"""The limit in the CRDs."""

MAX_SYNC_MESSAGE = 8192
"""An engine's message about a sync."""

MAX_CHECK_REASON = 128
MAX_CHECK_MESSAGE = 4096
"""An agent's message about checked credentials."""

MAX_REFUSAL = 1024
"""A message about a spec or manifest."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ANSWER = re.compile(
    r"(authentication required|authorization failed|repository not found|status code: \d{3}):.*", re.DOTALL
)
"""Errors of go-git, with the server's response after the colon."""
_DROPPED = str.maketrans("", "", "\"'`&;%" + "".join(map(chr, range(0x20))) + "\x7f")


def readable(text: str) -> str:
    """``text`` without control characters, which terminals interpret; line feeds and tabs stay."""
    return _CONTROL.sub("", text)


def engine_words(text: str) -> str:
    """Readable text without git servers' responses, which go-git appends to its errors."""
    return _ANSWER.sub(r"\1", readable(text))


def cleaned(text: str | None) -> str:
    """``text`` without control characters and without those that this API has always removed from users' input."""
    return (text or "").translate(_DROPPED)
