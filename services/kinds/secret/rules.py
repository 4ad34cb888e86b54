"""Secrets that custom resources name. Their content is sealed: only presence, type and size are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from services.kinds.shared.rows import Resource

RESEALED = "resealed"
"""Field of a Secret's spec: true if an operator's command sealed a stored row anew."""


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A sealed Secret, as an agent can open it."""

    name: str
    version: str
    """Its resourceVersion."""
    sealed: str


@dataclass(frozen=True, slots=True)
class Unsealable:
    """Why the content of a Secret cannot be compiled."""

    why: Literal["unnamed", "missing", "awaited", "other type", "omitted", "over quota"]
    detail: str = ""
    """The other type, or why the content was left out."""


def content_of(resource: Resource, secret: Resource | None, wanted_type: str) -> SealedSecret | Unsealable:
    """The content of the Secret that ``resource`` names; ``secret`` is the row of that name, if there is one.

    Secrets of other types are not watched: the watcher looks one up when it sees ``resource``, and that is all that is
    known of it. A Secret of the right type that has no row yet is about to arrive.
    """
    if not resource.refers_to:
        return Unsealable("unnamed")
    if secret is None or not secret.present:
        return _absent(resource.secret_type, wanted_type)
    if secret.over_quota:
        return Unsealable("over quota")
    return Unsealable("omitted", secret.omitted) if secret.omitted else _opened(secret, wanted_type)


def is_taken_back(resource: Resource, secret: Resource | None) -> bool:
    """Whether the Secret that ``resource`` names does not exist."""
    return (secret is None or not secret.present) and bool(resource.refers_to) and not resource.secret_type


def without_secret(resource: Resource) -> Resource:
    """``resource`` after its Secret was deleted: it does not wait for the Secret to arrive."""
    return replace(resource, secret_type="") if resource.secret_type else resource


def is_resealed(known: Resource, seen: Resource) -> bool:
    """A list shows ``known`` again: the same version is another text each time it is sealed, with the same key."""
    same_version = known.present and known.resource_version == seen.resource_version
    is_replay = known.seen_at > seen.seen_at
    return same_version and (is_replay or _key_id(known) == _key_id(seen))


def is_from_row(spec: str) -> bool:
    """Whether an operator's command read ``spec`` from a row and sealed it anew, without having seen the Secret."""
    return _parsed(spec).get(RESEALED) is True


def is_late_reseal(known: Resource | None, spec: str, resource_version: str) -> bool:
    """Whether ``spec`` was read from a row, and the Secret has gone or changed since."""
    if not is_from_row(spec):
        return False
    return known is None or not known.present or known.resource_version != resource_version


def _key_id(secret: Resource) -> str:
    return str(_parsed(secret.spec).get("keyId", ""))


def _opened(secret: Resource, wanted_type: str) -> SealedSecret | Unsealable:
    written = _parsed(secret.spec)
    type_, sealed = written.get("type"), written.get("sealed")
    if type_ != wanted_type:
        return Unsealable("other type", str(type_ or ""))
    if not isinstance(sealed, str) or not sealed:
        return Unsealable("omitted", "its content did not arrive")
    return SealedSecret(secret.name, secret.resource_version, sealed)


def _absent(found_type: str, wanted_type: str) -> Unsealable:
    if found_type == wanted_type:
        return Unsealable("awaited")
    return Unsealable("other type", found_type) if found_type else Unsealable("missing")


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
