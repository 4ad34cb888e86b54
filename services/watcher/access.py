"""May we do at this API server what we are for? Asked once at start, so that a missing right is not found out later."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, InvalidConfiguration, NoPermission, Retry, StartupError, Unavailable
from services.common.kube import KubeClient, NotFound, Refused, Resource, Unauthenticated
from services.common.kube.access import is_allowed
from services.common.startup import one_line

log = structlog.get_logger(__name__)

FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Need:
    """A right that this service cannot work without."""

    verb: str
    subresource: str = ""


NEEDS = (Need("list"), Need("watch"), Need("get"), Need("patch"), Need("patch", "status"))


async def require(kube: KubeClient, kind: Resource, timeout_seconds: float) -> None:
    """Return when ``kind`` can be listed and every right is there; an API server that is away is waited for.

    Raises NoPermission naming the right and the remedy, InvalidConfiguration if the CRD is missing, Unavailable.
    """
    deadline, delays = time.monotonic() + timeout_seconds, Backoff(limit=1)
    while True:
        try:
            await _check(kube, kind)
        except Unauthenticated as error:
            raise NoPermission(f"cannot list {kind.plural}: KUBECONFIG's credentials are refused: {error}") from error
        except Refused as error:
            raise refusal(kind, error) from error
        except (Retry, NotFound) as error:
            delay = delays.next()
            if time.monotonic() + delay > deadline:
                raise _gave_up(kind, error, timeout_seconds) from error
            log.info("awaiting the API server", resource=kind.plural, error=one_line(error))
            await asyncio.sleep(delay)
        else:
            return


def refusal(kind: Resource, error: Refused) -> StartupError:
    """What a refused list or watch of ``kind`` means for us; the API server's own words name verb and resource."""
    if error.status == FORBIDDEN:
        return NoPermission(f"may not list and watch {kind.plural}: {one_line(error)}; {_remedy(kind)}")
    return InvalidConfiguration(f"the API server refuses to list {kind.plural}: {one_line(error)}")


async def _check(kube: KubeClient, kind: Resource) -> None:
    async with aclosing(kube.pages(kind, limit=1)) as pages:
        await anext(pages)
    for need in NEEDS:
        if not await _is_granted(kube, kind, need):
            what = "/".join(filter(None, (kind.plural, need.subresource)))
            raise NoPermission(f"may not {need.verb} {what} of group {kind.group} in all namespaces; {_remedy(kind)}")


async def _is_granted(kube: KubeClient, kind: Resource, need: Need) -> bool:
    try:
        return await is_allowed(kube, need.verb, kind, subresource=need.subresource)
    except Refused:
        return True  # whoever may not even ask finds out by trying


def _remedy(kind: Resource) -> str:
    return (
        f"grant the watcher's user a ClusterRole for apiGroup {kind.group}: get, list, watch, patch on {kind.plural} "
        f"and patch on {kind.plural}/status"
    )


def _gave_up(kind: Resource, error: GitOpsError, seconds: float) -> StartupError:
    if isinstance(error, NotFound):
        return InvalidConfiguration(f"the API server does not serve {kind.plural}; run 'gitopsctl crds apply'")
    return Unavailable(f"the API server did not answer within {seconds:g} s: {one_line(error)}")
