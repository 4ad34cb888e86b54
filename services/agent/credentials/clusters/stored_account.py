"""Reads from an Argo CD cluster Secret which service account its token belongs to and when to renew it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from services.agent.credentials.clusters.service_account import scopes_of
from services.agent.credentials.clusters.tokens import Token
from services.agent.credentials.secret_recipe import ClusterRecipe
from services.common.json_values import dict_of
from services.common.kubernetes import Manifest

ACCOUNT_OF = "managed-gitops.redhat.com/service-account-of"
EXPIRES_AT = "managed-gitops.redhat.com/token-expires-at"
RENEW_AT = "managed-gitops.redhat.com/token-renew-at"


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """A Secret whose token belongs, or belonged, to an account that we created."""

    text: str = field(repr=False)
    """The account's bearer token."""
    token: Token | None
    """The token, if it need not be renewed yet."""
    notes: dict[str, str]
    """The annotations that describe the account."""
    server: str
    """The server as Argo CD knows it: the API URL and a query."""
    authority: str | None
    insecure: bool
    scopes: frozenset[str]
    """The scopes in which the account has rights."""

    @property
    def api_url(self) -> str:
        """The API URL of the environment."""
        return self.server.partition("?")[0]


def token_annotations(recipe: ClusterRecipe, token: Token) -> dict[str, str]:
    """Annotations for a Secret that holds ``token``."""
    return {
        ACCOUNT_OF: recipe.uid,
        EXPIRES_AT: token.expires_at.isoformat(),
        RENEW_AT: token.renew_at.isoformat(),
    }


def stored_account(live: Manifest | None, uid: str, now: datetime) -> StoredAccount | None:
    """The account of the environment ``uid`` that ``live`` describes, on any server; None if it describes none."""
    annotations = dict_of(dict_of((live or {}).get("metadata")).get("annotations"))
    notes = {name: str(annotations[name]) for name in (ACCOUNT_OF, EXPIRES_AT, RENEW_AT) if name in annotations}
    data = {name: _decoded(value).decode(errors="replace") for name, value in ((live or {}).get("data") or {}).items()}
    config = dict_of(_json(data.get("config", "")))
    text = config.get("bearerToken")
    if notes.get(ACCOUNT_OF) != uid or not isinstance(text, str) or not text.isascii() or not text.isprintable():
        return None
    tls = dict_of(config.get("tlsClientConfig"))
    expires_at, renew_at = _time(notes.get(EXPIRES_AT)), _time(notes.get(RENEW_AT))
    return StoredAccount(
        text=text,
        token=Token(text, expires_at, renew_at) if expires_at and renew_at and now < renew_at else None,
        notes=notes,
        server=data.get("server", ""),
        authority=_decoded(tls.get("caData")).decode(errors="replace") or None,
        insecure=tls.get("insecure") is True,
        scopes=_scopes(data),
    )


def _scopes(data: Mapping[str, str]) -> frozenset[str]:
    namespaces = [name for name in data.get("namespaces", "").split(",") if name]
    return scopes_of(namespaces, cluster_resources=data.get("clusterResources") == "true")


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None
