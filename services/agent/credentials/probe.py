"""Whether a token opens a tenant's cluster: one cheap request that every deployment needs to be allowed."""

from __future__ import annotations

import asyncio

from services.agent.credentials.outbound import Connection
from services.agent.credentials.recipe import ClusterRecipe
from services.agent.credentials.target import FORBIDDEN, UNAUTHORIZED, Target, TargetRefused
from services.agent.credentials.verdict import failed
from services.common.api.catalogue import environment
from services.common.kube import NAMESPACE

SETTLE_DELAYS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Before a new right or token is tried once more: a cluster's authorizer learns of them by a watch."""


async def validate(target: Target, recipe: ClusterRecipe) -> None:
    """Raises CheckFailed if the target's token is of no use for ``recipe``, Unreached."""
    refusal = await _refusal(target, recipe)
    if refusal is None:
        return
    if refusal.status == FORBIDDEN:
        raise failed(environment.CREDENTIALS_FORBIDDEN)
    raise failed(environment.CREDENTIALS_REFUSED)


async def works(connection: Connection, token: str, recipe: ClusterRecipe) -> bool:
    """Whether the account's token may do what its rights say, or may in a moment. Raises TargetRefused, Unreached."""
    for delay in (*SETTLE_DELAYS, None):
        refusal = await _refusal(Target(connection, token), recipe)
        if refusal is None:
            return True
        if refusal.status not in {UNAUTHORIZED, FORBIDDEN}:
            raise refusal
        if delay is not None:
            await asyncio.sleep(delay)
    return False


async def _refusal(target: Target, recipe: ClusterRecipe) -> TargetRefused | None:
    try:
        if recipe.namespaces:
            await target.get(NAMESPACE, "", recipe.namespaces[0])
        else:
            await target.list(NAMESPACE, "limit=1")
    except TargetRefused as error:
        return error
    return None
