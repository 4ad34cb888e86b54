"""What the present Argo CD Secret says about a service account of ours: its annotations are the memory of rotation."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from services.agent.credentials.recipe import ClusterRecipe
from services.agent.credentials.service_account import Token
from services.common.kube import Manifest

ACCOUNT_OF = "managed-gitops.redhat.com/service-account-of"
EXPIRES_AT = "managed-gitops.redhat.com/token-expires-at"
RENEW_AT = "managed-gitops.redhat.com/token-renew-at"


@dataclass(frozen=True, slots=True)
class Held:
    """A Secret whose token is, or was, one of an account we made."""

    text: str = field(repr=False)
    """Its bearer token."""
    token: Token | None
    """The same, if it need not be renewed yet."""
    notes: dict[str, str]
    """The annotations that say so."""


def token_notes(recipe: ClusterRecipe, token: Token) -> dict[str, str]:
    """Annotations for a Secret that holds ``token``."""
    return {
        ACCOUNT_OF: recipe.uid,
        EXPIRES_AT: token.expires_at.isoformat(),
        RENEW_AT: token.renew_at.isoformat(),
    }


def held_token(live: Manifest | None, recipe: ClusterRecipe, now: datetime) -> Held | None:
    """What ``live`` holds of the account of ``recipe``, None if nothing, or of another cluster."""
    notes = ((live or {}).get("metadata") or {}).get("annotations") or {}
    notes = {name: str(notes[name]) for name in (ACCOUNT_OF, EXPIRES_AT, RENEW_AT) if name in notes}
    data = (live or {}).get("data") or {}
    config = _json(_decoded(data.get("config")))
    text = config.get("bearerToken") if isinstance(config, dict) else None
    ours = notes.get(ACCOUNT_OF) == recipe.uid and _decoded(data.get("server")) == recipe.server.encode()
    if not ours or not isinstance(text, str):
        return None
    expires_at, renew_at = _time(notes.get(EXPIRES_AT)), _time(notes.get(RENEW_AT))
    fresh = expires_at is not None and renew_at is not None and now < renew_at
    return Held(text, Token(text, expires_at, renew_at) if fresh and expires_at and renew_at else None, notes)


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def _json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None
