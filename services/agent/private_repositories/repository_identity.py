"""Which URLs are one repository, for Argo CD's checkouts and for git servers. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from services.common.urls.repository_url import normalised, parts_of

SIZE = 16
"""Bytes of each half of an identity."""
SUFFIX = ".git"


@dataclass(frozen=True, slots=True)
class Identity:
    """A repository as hashes, because it is stored for longer than any tenant names it."""

    repository: bytes
    """Hash of the form by which Argo CD shares its checkouts."""
    spelling: bytes
    """Hash with upper and lower case, which many servers distinguish: another spelling may be a public repository."""


def identity_of(url: str) -> Identity:
    """The identity of an acceptable URL."""
    parts = parts_of(url)
    path = parts.rest if parts is not None else url
    bare = path[: -len(SUFFIX)] if path.lower().endswith(SUFFIX) else path
    return Identity(repository_of(url), digest_of(bare))


def repository_of(url: str) -> bytes:
    """The first half of the identity. Accepts the normalised form, too, which AppProjects list."""
    return digest_of(normalised(url))


def digest_of(text: str, size: int = SIZE) -> bytes:
    """A hash that never changes, because it is stored."""
    return hashlib.blake2b(text.encode(), digest_size=size).digest()
