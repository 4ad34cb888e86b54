"""May we do at this API server what we are for? Asked once at start, so that a missing right is not found out later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
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
FORBIDDEN_SECONDS = 15.0
"""A missing right is believed when it was missing for so long: an API server that has just started knows none yet."""


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
    await _insist(lambda: _check(kube, kind), kind.resource, timeout_seconds)


async def require_lease(kube: KubeClient, namespace: str, timeout_seconds: float) -> None:
    """Return when a lease in ``namespace`` can be held. Raises NoPermission, Unavailable."""
    await _insist(lambda: _check_lease(kube, namespace), LEASE, timeout_seconds)


async def _insist(check: Callable[[], Awaitable[None]], resource: Resource, timeout_seconds: float) -> None:
    """Return when ``check`` passes; believe that a right is missing only when it has been for a while."""
    deadline, delays = time.monotonic() + timeout_seconds, Backoff(limit=1)
    forbidden_since: float | None = None
    while True:
        try:
            await check()
        except NoPermission as error:
            now = time.monotonic()
            forbidden_since = forbidden_since or now
            if now >= min(forbidden_since + FORBIDDEN_SECONDS, deadline):
                raise
            reason: GitOpsError = error
        except (Retry, NotFound) as error:
            if time.monotonic() >= deadline:
                raise _gave_up(resource, error, timeout_seconds) from error
            forbidden_since, reason = None, error
        else:
            return
        log.info("awaiting the API server", resource=resource.plural, error=one_line(reason))
        await asyncio.sleep(delays.next())


def refusal(kind: Kind, error: Refused) -> StartupError:
    """What a refused list or watch of ``kind`` means for us; the API server's own words name verb and resource."""
    plural = kind.resource.plural
    if error.status == FORBIDDEN:
        return NoPermission(f"may not list and watch {plural}: {one_line(error)}; {_remedy(kind)}")
    return InvalidConfiguration(f"the API server refuses to list {plural}: {one_line(error)}")


async def _check(kube: KubeClient, kind: Kind) -> None:
    try:
        for part in kind.parts:
            selection = kube.pages(kind.resource, fields=part, limit=1, metadata_only=kind.metadata_only)
            async with aclosing(selection) as pages:
                await anext(pages)
    except Unauthenticated as error:
        plural = kind.resource.plural
        raise NoPermission(f"cannot list {plural}: KUBECONFIG's credentials are refused: {error}") from error
    except Refused as error:
        raise refusal(kind, error) from error
    for need in needs(kind):
        if not await _is_granted(kube, kind.resource, need):
            what = "/".join(filter(None, (kind.resource.plural, need.subresource)))
            raise NoPermission(f"may not {need.verb} {what} {_group(kind)} in all namespaces; {_remedy(kind)}")


async def _check_lease(kube: KubeClient, namespace: str) -> None:
    for need in LEADING:
        if not await _is_granted(kube, LEASE, need, namespace):
            raise NoPermission(
                f"may not {need.verb} leases in namespace {namespace}; grant the watcher's user a Role there for "
                f"apiGroup {LEASE.group}: get, create, patch on leases, or set LEADER_ELECTION=false"
            )


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


def _gave_up(resource: Resource, error: GitOpsError, seconds: float) -> StartupError:
    if isinstance(error, NotFound):
        return InvalidConfiguration(f"the API server does not serve {resource.plural}; run 'gitopsctl crds apply'")
    return Unavailable(f"the API server did not answer within {seconds:g} s: {one_line(error)}")
