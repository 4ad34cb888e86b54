"""Rights at an API server: reviewed at the start, and tolerated to be missing for a while later.

The start names each right that the process lacks. Later a 403 is tolerated for a while, because an API server that has
just started may not have loaded its RBAC rules.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

from services.common.backoff import Backoff
from services.common.clock import Clock, SystemClock
from services.common.errors import (
    GitOpsError,
    InvalidConfiguration,
    NoPermission,
    Retry,
    StartupError,
    Unavailable,
    Wait,
)
from services.common.kubernetes.api_errors import FORBIDDEN, NotFound, Rejected, Unauthenticated
from services.common.kubernetes.builtin_kinds import ApiResource
from services.common.kubernetes.client import KubeClient
from services.common.ownership import FIELD_MANAGER
from services.common.startup import one_line

log = structlog.get_logger(__name__)

ACCESS_REVIEW = ApiResource("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews")
GRACE_SECONDS = 30.0
GRACES = 10
"""By which factor the whole patience may exceed one period, if it begins again and again."""
START_GRACE_SECONDS = 15.0
"""Shorter than while working, because somebody waits for the process to start."""


@dataclass(slots=True)
class ForbiddenGrace:
    """Patience with requests of one kind: begins with the first forbidden one, and ends with a permitted one.

    It begins anew when a request fails for another reason, because an API server knows no rights right after each
    start. It is limited in all: of several API servers one may be away for long.
    """

    seconds: float = GRACE_SECONDS
    clock: Clock = field(default_factory=SystemClock)
    _since: float | None = None
    _first: float | None = None
    """Time of the first forbidden request since one was permitted."""

    def tolerate_rejection(self, error: Rejected) -> None:
        """Return if ``error`` may pass by itself, so that the caller tries again. Raises it otherwise."""
        now = self.clock.time()
        self._since = self._since if self._since is not None else now
        self._first = self._first if self._first is not None else now
        is_over = now - self._since >= self.seconds or now - self._first >= GRACES * self.seconds
        if not error.is_forbidden or is_over:
            raise error

    def begin_anew(self) -> None:
        """Begin anew: a request was not answered, or failed otherwise."""
        self._since = None

    def reset(self) -> None:
        """End: a request was permitted."""
        self._since = self._first = None


@dataclass(frozen=True, slots=True)
class Access:
    """What a service does with objects of one kind, in one namespace or, if that is empty, in all."""

    resource: ApiResource
    verbs: tuple[str, ...]
    """Verbs; those of a subresource as ``patch/status``."""
    remedy: str
    """Which right to grant, and to whom."""
    not_served: str
    """What to do if the API server does not serve the kind."""
    namespace: str = ""
    listed: tuple[str, ...] = ("",)
    """Field selectors of lists, which are tried; none if nothing is listed."""
    metadata_only: bool = False
    may_be_missing: bool = False
    """Whether the API server need not serve the kind."""

    @property
    def rights(self) -> list[tuple[str, str]]:
        """Verb and subresource of each right."""
        return [(verb, subresource) for verb, _, subresource in (each.partition("/") for each in self.verbs)]

    @property
    def name(self) -> str:
        """The kind's name in ``kubectl``."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural

    @property
    def where(self) -> str:
        """Where the right is needed, as a text."""
        return f"in namespace {self.namespace}" if self.namespace else "in all namespaces"


async def require_access(client: KubeClient, access: Access, timeout_seconds: float) -> None:
    """Return when all rights exist. Waits for an API server that is away.

    Raises NoPermission naming the right and the remedy, InvalidConfiguration if the kind is not served, Unavailable.
    """
    deadline, delays = time.monotonic() + timeout_seconds, Backoff(limit=1)
    grace = ForbiddenGrace(min(START_GRACE_SECONDS, timeout_seconds))
    while True:
        reason: GitOpsError
        try:
            return await _check(client, access)
        except Rejected as error:
            _bear(error, grace, access)
            reason = error
        except (Retry, Wait) as error:
            if time.monotonic() >= deadline:
                raise _gave_up(access, error, timeout_seconds) from error
            grace.reset()
            reason = error
        log.info("awaiting the API server", resource=access.resource.plural, error=one_line(reason))
        await asyncio.sleep(delays.next_delay())


def startup_error(access: Access, error: Rejected) -> StartupError:
    """The error for an operator, with the verb and the resource."""
    if error.is_forbidden:
        return NoPermission(f"{one_line(error)}; {access.remedy}")
    return InvalidConfiguration(f"the API server refuses requests for {access.name}: {one_line(error)}")


async def _check(client: KubeClient, access: Access) -> None:
    """Raises Rejected with 403 if a right is missing."""
    for selector in access.listed:
        await _try_list(client, access, selector)
    for verb, subresource in access.rights:
        if not await _is_allowed(client, access, verb, subresource):
            what = f"{access.name}/{subresource}" if subresource else access.name
            raise Rejected(f"may not {verb} {what} {access.where}", FORBIDDEN)


async def _try_list(client: KubeClient, access: Access, selector: str) -> None:
    pages = client.list_pages(
        access.resource, access.namespace or None, fields=selector, limit=1, metadata_only=access.metadata_only
    )
    async with aclosing(pages):
        try:
            await anext(pages)
        except NotFound:
            if not access.may_be_missing:
                raise
        except Unauthenticated as error:
            raise Rejected(f"may not list {access.name}: our credentials are refused: {error}", FORBIDDEN) from error
        except Rejected as error:
            raise Rejected(f"may not list {access.name} {access.where}: {error}", error.status) from error


async def _is_allowed(client: KubeClient, access: Access, verb: str, subresource: str) -> bool:
    attributes = {
        "group": access.resource.group,
        "resource": access.resource.plural,
        "subresource": subresource,
        "namespace": access.namespace,
        "verb": verb,
    }
    review = {
        "apiVersion": ACCESS_REVIEW.api_version,
        "kind": ACCESS_REVIEW.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await client.create_object(ACCESS_REVIEW, review, field_manager=FIELD_MANAGER)
    except Rejected as error:
        raise Rejected(
            f"may not create {ACCESS_REVIEW.plural}.{ACCESS_REVIEW.group}, so it cannot be told what else is missing; "
            f"bind our account to the ClusterRole system:basic-user: {error}",
            error.status,
        ) from error
    return bool(answer.get("status", {}).get("allowed"))


def _bear(error: Rejected, grace: ForbiddenGrace, access: Access) -> None:
    """Raises NoPermission if the patience with a refusal has ended."""
    try:
        grace.tolerate_rejection(error)
    except Rejected:
        raise startup_error(access, error) from error


def _gave_up(access: Access, error: GitOpsError, seconds: float) -> StartupError:
    if isinstance(error, NotFound):
        return InvalidConfiguration(f"the API server does not serve {access.name}; {access.not_served}")
    return Unavailable(f"the Kubernetes API server did not answer within {seconds:g} s: {one_line(error)}")
