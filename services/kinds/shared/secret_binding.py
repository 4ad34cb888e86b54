"""What a command and a row say of the use of the Secret that a resource names: sealed, so nobody between can say it.

The watcher makes one when it sends the resource, and again when the Secret changes; see ``services/common/sealing/``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson

from services.common.json_values import canonical, dict_of, text_of
from services.common.text_cache import TEXTS

MAX_BINDING = 8192
"""Characters of its text; what a watcher makes is shorter."""


@dataclass(frozen=True, slots=True)
class SecretBinding:
    """A binding, with what the planner may know of it."""

    uid: str
    """Of the Secret."""
    version: str
    """Its resourceVersion: a binding is of one state of it."""
    use: str
    """Digest of what it may be used for."""
    key_id: str
    sealed: str

    @property
    def subject(self) -> tuple[str, str, str]:
        """What it speaks of: what is sealed twice is never the same text."""
        return (self.uid, self.version, self.use)

    @property
    def text(self) -> str:
        """As commands and rows have it."""
        return canonical(asdict(self))


@TEXTS.remember
def binding_of(text: str) -> SecretBinding | None:
    """The binding in ``text``; None if it is none. It crossed a wire."""
    try:
        members = dict_of(orjson.loads(text)) if text else {}
    except orjson.JSONDecodeError:
        return None
    binding = SecretBinding(**{name: text_of(members.get(name)) for name in SecretBinding.__dataclass_fields__})
    return binding if binding.uid and binding.sealed else None


def standing_text(known: str, seen: str) -> str:
    """The text to keep: the known one if the other says the same, under the same key; empty if there is none."""
    now = None if len(seen) > MAX_BINDING or "\0" in seen else binding_of(seen)
    if now is None:
        return ""
    before = binding_of(known)
    if before is None:
        return seen
    return known if (before.subject, before.key_id) == (now.subject, now.key_id) else seen
