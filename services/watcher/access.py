"""May we do at this API server what we are for? Asked once at start, so that a missing right is not found out later."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, InvalidConfiguration, NoPermission, Retry, StartupError, Unavailable
from services.common.kube import LEASE, KubeClient, NotFound, Refused, Resource, Unauthenticated
from services.common.kube.access import is_allowed
from services.common.startup import one_line
from services.watcher.kinds import BY_NAME, Kind

log = structlog.get_logger(__name__)

FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Need:
    """A right that this service cannot work without."""

    verb: str
    subresource: str = ""


READING = (Need("get"), Need("list"), Need("watch"))
WRITING = (Need("patch"), Need("patch", "status"))
LEADING = (Need("get"), Need("create"), Need("patch"))


def needs(kind: Kind) -> tuple[Need, ...]:
    """What is done with resources of ``kind``; Secrets are only ever read."""
    return (*READING, *WRITING) if kind.name in BY_NAME else READING


async def require(kube: KubeClient, kind: Kind, timeout_seconds: float) -> None:
    """Return when ``kind`` can be listed and every right is there; an API server that is away is waited for.

    Raises NoPermission naming the right and the remedy, InvalidConfiguration if the CRD is missing, Unavailable.
    """
    deadline, delays = time.monotonic() + timeout_seconds, Backoff(limit=1)
    plural = kind.resource.plural
    while True:
        try:
            await _check(kube, kind)
        except Unauthenticated as error:
            raise NoPermission(f"cannot list {plural}: KUBECONFIG's credentials are refused: {error}") from error
        except Refused as error:
            raise refusal(kind, error) from error
        except (Retry, NotFound) as error:
            delay = delays.next()
            if time.monotonic() + delay > deadline:
                raise _gave_up(kind, error, timeout_seconds) from error
            log.info("awaiting the API server", resource=plural, error=one_line(error))
            await asyncio.sleep(delay)
        else:
            return


async def require_lease(kube: KubeClient, namespace: str) -> None:
    """Return when a lease in ``namespace`` can be held. Raises NoPermission."""
    for need in LEADING:
        if not await _is_granted(kube, LEASE, need, namespace):
            raise NoPermission(
                f"may not {need.verb} leases in namespace {namespace}; grant the watcher's user a Role there for "
                f"apiGroup {LEASE.group}: get, create, patch on leases, or set LEADER_ELECTION=false"
            )


def refusal(kind: Kind, error: Refused) -> StartupError:
    """What a refused list or watch of ``kind`` means for us; the API server's own words name verb and resource."""
    plural = kind.resource.plural
    if error.status == FORBIDDEN:
        return NoPermission(f"may not list and watch {plural}: {one_line(error)}; {_remedy(kind)}")
    return InvalidConfiguration(f"the API server refuses to list {plural}: {one_line(error)}")


async def _check(kube: KubeClient, kind: Kind) -> None:
    for part in kind.parts:
        async with aclosing(kube.pages(kind.resource, fields=part, limit=1)) as pages:
            await anext(pages)
    for need in needs(kind):
        if not await _is_granted(kube, kind.resource, need):
            what = "/".join(filter(None, (kind.resource.plural, need.subresource)))
            raise NoPermission(f"may not {need.verb} {what} {_group(kind)} in all namespaces; {_remedy(kind)}")


async def _is_granted(kube: KubeClient, resource: Resource, need: Need, namespace: str = "") -> bool:
    try:
        return await is_allowed(kube, need.verb, resource, namespace=namespace, subresource=need.subresource)
    except Refused:
        return True  # whoever may not even ask finds out by trying


def _group(kind: Kind) -> str:
    return f"of group {kind.resource.group or 'core'}"


def _remedy(kind: Kind) -> str:
    plural = kind.resource.plural
    rights = f"{', '.join(need.verb for need in needs(kind) if not need.subresource)} on {plural}"
    status = f" and patch on {plural}/status" if kind.name in BY_NAME else ""
    return f'grant the watcher\'s user a ClusterRole for apiGroup "{kind.resource.group}": {rights}{status}'


def _gave_up(kind: Kind, error: GitOpsError, seconds: float) -> StartupError:
    if isinstance(error, NotFound):
        return InvalidConfiguration(f"the API server does not serve {kind.resource.plural}; run 'gitopsctl crds apply'")
    return Unavailable(f"the API server did not answer within {seconds:g} s: {one_line(error)}")
