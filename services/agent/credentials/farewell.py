"""Taking leave of servers where a service account was made that nobody wants any more. Bounded, and never in the way.

Where the kubeconfig still leads, its identity removes everything. A server that an environment has turned away from
is known only to the Argo CD Secret that is there: its token, in most cases the account's own, removes what it may. So
it does where the kubeconfig is of no use any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass

import structlog

from services.agent.credentials.held import Held
from services.agent.credentials.names import Trouble, Unreached
from services.agent.credentials.outbound import Outbound
from services.agent.credentials.reach import ApiServer, connected
from services.agent.credentials.service_account import Account
from services.agent.credentials.target import Target, TargetRefused
from services.agent.credentials.verdict import CheckFailed

log = structlog.get_logger(__name__)

FAREWELL_SECONDS = 20.0
"""For all requests to a server that nobody needs any more: the Secret for the new one waits for it."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something was not removed."""

    why: str
    may_pass: bool
    """Another attempt may do it."""


async def attempted(removal: Coroutine[None, None, None], seconds: float) -> Leftover | None:
    """Await ``removal``, which may do anything that servers of strangers make it do; None if nothing is left."""
    try:
        async with asyncio.timeout(seconds):
            await removal
    except CheckFailed as error:
        return Leftover(error.reason, may_pass=False)
    except TargetRefused as error:
        return Leftover(str(error), error.may_pass)
    except Unreached as error:
        return Leftover(str(error), error.trouble is not Trouble.ADDRESS)
    except TimeoutError:
        return Leftover(Trouble.SILENCE.value, may_pass=True)
    return None


async def withdraw(outbound: Outbound, uid: str, held: Held) -> None:
    """Remove what ``held`` tells of, by the token it holds. Raises CheckFailed, TargetRefused, Unreached."""
    server = ApiServer(held.api_url, held.authority, held.insecure)
    async with connected(outbound, server) as connection:
        refused = await Account(Target(connection, held.text), uid).withdraw(held.places)
    if refused:
        raise refused[0]


async def leave(outbound: Outbound, uid: str, held: Held) -> None:
    """The same, once and for all: what stays is logged."""
    left = await attempted(withdraw(outbound, uid, held), FAREWELL_SECONDS)
    if left is None:
        log.info("service account removed", uid=uid, reason="the environment has another API URL")
    else:
        log.warning("service account left behind", uid=uid, reason=left.why)
