"""Checks whether a token opens a tenant's cluster, by one cheap request that every deployment needs."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from services.agent.credentials.check_result import failed
from services.agent.credentials.clusters.cluster_client import ClusterClient, ClusterRefused
from services.agent.credentials.network.https import Connection
from services.agent.credentials.recipe import ClusterRecipe
from services.common.kubernetes import NAMESPACE
from services.kinds.managed_environment import catalogue as environment

RETRY_DELAYS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Delays between attempts with a new right or token: a cluster's authorizer learns of them by a watch."""


async def require_token_works(target: ClusterClient, recipe: ClusterRecipe) -> None:
    """Raises CheckFailed if the client's token is not accepted or not allowed enough for ``recipe``, Unreachable."""
    refusal = await _refusal(target, recipe)
    if refusal is None:
        return
    if refusal.status == HTTPStatus.FORBIDDEN:
        raise failed(environment.CREDENTIALS_FORBIDDEN)
    raise failed(environment.CREDENTIALS_REFUSED)


async def token_works(connection: Connection, token: str, recipe: ClusterRecipe) -> bool:
    """Whether the token may do what its rights say, or may in a moment. Raises ClusterRefused, Unreachable."""
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
            await target.get(NAMESPACE, "", recipe.namespaces[0])
        else:
            await target.list(NAMESPACE, "limit=1")
    except ClusterRefused as error:
        return error
    return None
