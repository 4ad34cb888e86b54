"""What a resource may use its Secret for, in commands and rows. It is sealed, so nobody between can forge it.

The watcher makes a binding when it sends the resource, and again when the Secret changes; see
``services/common/sealing/``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson

from services.common.json_values import canonical, dict_of, text_of
from services.common.text_cache import TEXTS

MAX_BINDING = 8192
"""Longest text in characters. Watchers make shorter ones."""


@dataclass(frozen=True, slots=True)
class SecretBinding:
    """A binding, and what the planner may know of it."""

    uid: str
    """The Secret's uid."""
    version: str
    """The Secret's resourceVersion: a binding is valid for one version."""
    use: str
    """Digest of the permitted use."""
    key_id: str
    sealed: str

    @property
    def subject(self) -> tuple[str, str, str]:
        """What it is about. The sealed text is different each time."""
        return (self.uid, self.version, self.use)

    @property
    def text(self) -> str:
        """Its text in commands and rows."""
        return canonical(asdict(self))


@TEXTS.remember
def binding_of(text: str) -> SecretBinding | None:
    """The binding in ``text``, which comes from outside; None if it is invalid."""
    try:
        members = dict_of(orjson.loads(text)) if text else {}
    except orjson.JSONDecodeError:
        return None
    binding = SecretBinding(**{name: text_of(members.get(name)) for name in SecretBinding.__dataclass_fields__})
    return binding if binding.uid and binding.sealed else None


def standing_text(known: str, seen: str) -> str:
    """The text to store: the known one if both say the same under the same key; empty if there is none."""
    now = None if len(seen) > MAX_BINDING or "\0" in seen else binding_of(seen)
    if now is None:
        return ""
    before = binding_of(known)
    if before is None:
        return seen
    return known if (before.subject, before.key_id) == (now.subject, now.key_id) else seen
