"""Texts from users and engines: their greatest lengths in characters, and what is removed from them."""

from __future__ import annotations

import re

MAX_URL = 2048
MAX_PATH = 1024
MAX_REVISION = 256
MAX_LABEL = 63
"""Of a DNS-1123 label, such as a namespace's name."""
MAX_NAME = 253
"""Of a DNS-1123 subdomain, such as an object's name."""
MAX_NAMESPACES = 250
"""Entries in an environment's list of namespaces."""
MAX_SYNC_OPTIONS = 10
MAX_COMPONENTS = 250
"""Of an application, in a snapshot or a binding."""
MAX_VARIABLES = 250
"""Environment variables of one component."""
MAX_VALUE = 4096
"""Of an environment variable."""
MAX_IMAGE = 1024
"""A container image with registry, repository and digest."""
MAX_DISPLAY_NAME = 253
MAX_DISPLAY_TEXT = 1024
"""What users write for people."""

MAX_CONDITION_MESSAGE = 32768
"""As the CRDs have it."""

MAX_SYNC_MESSAGE = 8192
"""Of an engine, about a sync."""

MAX_CHECK_REASON = 128
MAX_CHECK_MESSAGE = 4096
"""Of an agent, about credentials that it has checked."""

MAX_REFUSAL = 1024
"""About a spec or a manifest."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ANSWER = re.compile(
    r"(authentication required|authorization failed|repository not found|status code: \d{3}):.*", re.DOTALL
)
"""Errors of go-git: the body of the server's response follows the colon."""
_DROPPED = str.maketrans("", "", "\"'`&;%" + "".join(map(chr, range(0x20))) + "\x7f")


def readable(text: str) -> str:
    """``text`` without control characters, which terminals obey; line feeds and tabs stay."""
    return _CONTROL.sub("", text)


def engine_words(text: str) -> str:
    """Readable, and without the responses of git servers that go-git appends to its errors."""
    return _ANSWER.sub(r"\1", readable(text))


def cleaned(text: str | None) -> str:
    """``text`` without control characters and without those that this API has always removed from users' input."""
    return (text or "").translate(_DROPPED)
