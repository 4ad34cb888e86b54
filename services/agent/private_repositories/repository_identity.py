"""Which URLs are one repository: as Argo CD's checkouts have it, and as git servers do. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from services.common.urls.repository_url import normalised, parts_of

SIZE = 16
"""Bytes of each half of an identity."""
SUFFIX = ".git"


@dataclass(frozen=True, slots=True)
class Identity:
    """A repository as it is remembered: by hashes, because it is remembered for longer than any tenant names it."""

    repository: bytes
    """Of the form by which Argo CD shares its checkouts."""
    spelling: bytes
    """Upper and lower case count here as they do to many servers: another repository may be public."""


def identity_of(url: str) -> Identity:
    """The identity of an acceptable URL."""
    parts = parts_of(url)
    path = parts.rest if parts is not None else url
    bare = path[: -len(SUFFIX)] if path.lower().endswith(SUFFIX) else path
    return Identity(repository_of(url), digest_of(bare))


def repository_of(url: str) -> bytes:
    """The first half of its identity; also of the normalised form, as AppProjects list it."""
    return digest_of(normalised(url))


def digest_of(text: str, size: int = SIZE) -> bytes:
    """A hash that stays the same for ever: it is stored."""
    return hashlib.blake2b(text.encode(), digest_size=size).digest()
