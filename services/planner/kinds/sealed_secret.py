"""The Secret that an environment or a repository credential names: sealed, so only its type and presence are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from services.planner.rows import Resource


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """What an agent needs to open it."""

    name: str
    version: str
    """Its resourceVersion."""
    sealed: str


@dataclass(frozen=True, slots=True)
class Unsealable:
    """Why there is no content to compile."""

    why: Literal["unnamed", "missing", "awaited", "other type", "omitted", "over quota"]
    detail: str = ""
    """The other type, or why the content was left out."""


def content_of(resource: Resource, secret: Resource | None, wanted_type: str) -> SealedSecret | Unsealable:
    """The content of the Secret that ``resource`` names; ``secret`` is the row of that name, if there is one.

    A Secret of another type is never watched: that it exists at all is only known from what the watcher found when it
    saw ``resource``. One of the right type that is not here yet is on its way.
    """
    if not resource.refers_to:
        return Unsealable("unnamed")
    if secret is None or not secret.present:
        return _absent(resource.secret_type, wanted_type)
    if secret.over_quota:
        return Unsealable("over quota")
    return Unsealable("omitted", secret.omitted) if secret.omitted else _opened(secret, wanted_type)


def is_taken_back(resource: Resource, secret: Resource | None) -> bool:
    """The Secret that it names is not there, nor on its way."""
    return (secret is None or not secret.present) and bool(resource.refers_to) and not resource.secret_type


def without_secret(resource: Resource) -> Resource:
    """``resource`` after the Secret that it names has gone; otherwise it would be waited for."""
    return replace(resource, secret_type="") if resource.secret_type else resource


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
