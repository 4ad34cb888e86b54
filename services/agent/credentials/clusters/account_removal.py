"""Removes service accounts that are no longer needed from tenants' clusters, within a time limit.

An account on the cluster that the kubeconfig names is removed with the kubeconfig's identity. If the environment was
changed to another cluster, or the kubeconfig no longer works, only the Argo CD Secret still knows the old cluster: then
the token in that Secret, usually the account's own, removes what it is allowed to remove.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass

import structlog

from services.agent.credentials.check_result import CheckFailed
from services.agent.credentials.clusters.cluster_client import (
    ApiServer,
    ClusterClient,
    ClusterRefused,
    connect_to_api_server,
)
from services.agent.credentials.clusters.service_account import Account
from services.agent.credentials.clusters.stored_account import StoredAccount
from services.agent.credentials.network.https import HttpsConnector
from services.agent.credentials.network.resolver import ConnectionProblem, Unreachable

log = structlog.get_logger(__name__)

REMOVAL_SECONDS = 20.0
"""Limit for all requests to a former cluster, because the Secret for the new cluster waits for them."""


@dataclass(frozen=True, slots=True)
class RemovalFailure:
    """Something was not removed."""

    why: str
    may_pass: bool
    """Whether another attempt may succeed."""


async def attempted(removal: Coroutine[None, None, None], seconds: float) -> RemovalFailure | None:
    """Await ``removal`` for at most ``seconds``; None if it succeeded, otherwise why it did not."""
    try:
        async with asyncio.timeout(seconds):
            await removal
    except CheckFailed as error:
        return RemovalFailure(error.reason, may_pass=False)
    except ClusterRefused as error:
        return RemovalFailure(str(error), error.may_pass)
    except Unreachable as error:
        return RemovalFailure(str(error), error.problem is not ConnectionProblem.ADDRESS)
    except TimeoutError:
        return RemovalFailure(ConnectionProblem.SILENCE.value, may_pass=True)
    return None


async def withdraw(https: HttpsConnector, uid: str, stored: StoredAccount) -> None:
    """Remove the account ``stored`` with its own token. Raises CheckFailed, ClusterRefused, Unreachable."""
    server = ApiServer(stored.api_url, stored.authority, stored.insecure)
    async with connect_to_api_server(https, server) as connection:
        refused = await Account(ClusterClient(connection, stored.text), uid).withdraw_account(stored.scopes)
    if refused:
        raise refused[0]


async def leave(https: HttpsConnector, uid: str, stored: StoredAccount) -> None:
    """Remove the account ``stored`` with its own token, in one attempt. A failure is logged, not raised."""
    left = await attempted(withdraw(https, uid, stored), REMOVAL_SECONDS)
    if left is None:
        log.info("service account removed", uid=uid, reason="the environment has another API URL")
    else:
        log.warning("service account left behind", uid=uid, reason=left.why)
