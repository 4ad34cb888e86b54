"""The words of engines, fit to be shown to users."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ANSWER = re.compile(
    r"(authentication required|authorization failed|repository not found|status code: \d{3}):.*", re.DOTALL
)
"""Of go-git: after the colon it appends the body of the answer, whoever gave that and whatever it is."""


def readable(text: str) -> str:
    """Without control characters, which command a terminal; lines and tabs stay."""
    return _CONTROL.sub("", text)


def engine_words(text: str) -> str:
    """Readable, and without the answers of git servers: only what was made of them."""
    return _ANSWER.sub(r"\1", readable(text))
