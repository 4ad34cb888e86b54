"""Bearer tokens of service accounts on tenants' clusters: when a token is renewed, and whether it works.

Only :func:`issued_token` decides when a token is renewed. The time is an annotation of Argo CD's Secret
(:mod:`stored_account`), so that any later owner of the instance renews the token; ``secret_checks`` checks the row
again by then.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus

from services.agent.credentials.check_result import failed
from services.agent.credentials.clusters.cluster_client import ClusterClient, ClusterRefused
from services.agent.credentials.network.https import Connection
from services.agent.credentials.network.resolver import ConnectionProblem, Unreachable
from services.agent.credentials.secret_recipe import ClusterRecipe
from services.common.kubernetes import NAMESPACE, Manifest
from services.kinds.managed_environment import catalogue as environment

RENEWAL_SHARE = 0.5
"""A token is renewed after this share of its lifetime."""
MIN_RENEWAL = timedelta(minutes=5)
MAX_TOKEN_LENGTH = 16 * 1024


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token of the account."""

    text: str = field(repr=False)
    expires_at: datetime
    renew_at: datetime


def issued_token(status: Manifest, asked: timedelta, now: datetime) -> Token:
    """The token in a TokenRequest's status; ``asked`` is the requested lifetime. Raises Unreachable if there is none.

    The cluster may grant less than requested. It may neither make us ask all the time, nor never again.
    """
    text, expires = status.get("token"), None
    with contextlib.suppress(ValueError):
        expires = datetime.fromisoformat(str(status.get("expirationTimestamp")))
    acceptable = isinstance(text, str) and text.isascii() and text.isprintable() and 0 < len(text) <= MAX_TOKEN_LENGTH
    if not acceptable or expires is None or expires.tzinfo is None:
        raise Unreachable(ConnectionProblem.ANSWER)
    lifetime = min(expires - now, asked)
    return Token(str(text), expires, now + max(MIN_RENEWAL, lifetime * RENEWAL_SHARE))


RETRY_DELAYS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Delays between attempts with a new right or token: the cluster's authorizer learns of them by a watch."""


async def require_token_works(target: ClusterClient, recipe: ClusterRecipe) -> None:
    """Raises CheckFailed if the client's token is refused or has too few rights for ``recipe``, Unreachable."""
    refusal = await _refusal(target, recipe)
    if refusal is None:
        return
    if refusal.status == HTTPStatus.FORBIDDEN:
        raise failed(environment.CREDENTIALS_FORBIDDEN)
    raise failed(environment.CREDENTIALS_REFUSED)


async def token_works(connection: Connection, token: str, recipe: ClusterRecipe) -> bool:
    """Whether the token has its rights. False if it may have them in a moment. Raises ClusterRefused, Unreachable."""
    for delay in (*RETRY_DELAYS, None):
        refusal = await _refusal(ClusterClient(connection, token), recipe)
        if refusal is None:
            return True
        if refusal.status not in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise refusal
        if delay is not None:
            await asyncio.sleep(delay)
    return False


async def _refusal(target: ClusterClient, recipe: ClusterRecipe) -> ClusterRefused | None:
    try:
        if recipe.namespaces:
            await target.get_object(NAMESPACE, "", recipe.namespaces[0])
        else:
            await target.list_objects(NAMESPACE, "limit=1")
    except ClusterRefused as error:
        return error
    return None
