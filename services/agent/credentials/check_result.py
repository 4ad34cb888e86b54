"""The interface of credential checks: their results, and their failures in the words of the condition catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Protocol

from services.agent.credentials.network.resolver import ConnectionProblem
from services.common.errors import Retry
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource
from services.kinds.managed_environment import catalogue as environment
from services.kinds.repository_credential import catalogue as credential
from services.kinds.shared.catalogue import Entry


class RepositoryAccess(Enum):
    """Who can read a repository, as found by the check of its login."""

    ANYBODY = auto()
    """The repository opens without a login."""
    LOGIN = auto()
    """The repository opens with the login only."""
    UNCLEAR = auto()
    """The repository opens with the login; whether it opens without one is unknown."""
    NOBODY = auto()
    """The repository does not open with this login."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of the check of one row: the Secret to apply, and what to report to the planner."""

    secret: Manifest | None = field(repr=False)
    """A v1 Secret with base64 ``data``; None if the check failed: the existing Secret stays."""
    reason: str
    message: str
    renew_at: datetime | None = None
    """When to compose the Secret again because its own credentials age; None: never."""
    access: RepositoryAccess | None = None
    """Access to the repository; None if nothing was found out."""


class Checker(Protocol):
    """Checks credentials and repositories, for callers that need not know how: see :class:`CredentialChecker`.

    A call may take a minute if a tenant's server is slow. Never await one in a worker that serves other tenants.
    """

    async def compose_secret(self, row: EngineResource, live: Manifest | None) -> CheckResult:
        """Compose the Argo CD Secret of ``row`` (kind ClusterSecret or RepositorySecret).

        ``live`` is the current Secret, None if there is none; its token may still be valid. Raises Permanent if the
        planner does not compile such rows, Retry for trouble of our own. Whatever a tenant's server does is no error,
        but part of the CheckResult.
        """

    def may_have_account(self, row: EngineResource, annotations: Mapping[str, str]) -> bool:
        """Whether the row may have an account on a cluster, by its manifest and its Secret's ``annotations``.

        Raises Permanent.
        """

    async def remove_account(self, row: EngineResource, live: Manifest | None) -> None:
        """Remove what was created for the row on clusters. To be called before its Argo CD Secret is deleted.

        ``live`` is that Secret, None if there is none; it may name an account that the row does not. Returns when
        nothing is left, or when a cluster refuses for good. Raises ClusterUnavailable (a Retry of this row alone) if a
        cluster does not answer, and Permanent as ``compose_secret``.
        """

    async def refusal_of_repository(self, url: str, tenant: str) -> str:
        """Why Argo CD must not read ``url``, as a text to follow the field's name; empty if it may.

        To be asked before an Application is applied; ``tenant`` is workspace/namespace. Takes seconds if a name server
        does, and longer if the tenant has many such URLs. Never raises.
        """

    async def is_public_repository(self, url: str, tenant: str) -> bool:
        """Whether a repository is known to open without a login, asked on behalf of ``tenant``. Never raises."""


class ClusterUnavailable(Retry):
    """A tenant's cluster does not answer, or answers badly.

    This concerns one row, and must not pause an instance.
    """


MESSAGE_LIMIT = 1024
SHOWN_LIMIT = 100

SUCCEEDED = environment.CONNECTED.reason
UP_TO_DATE = credential.VALID[0].reason
INVALID_CREDENTIALS = credential.INVALID[0].reason
INVALID_URL = credential.URL_NOT_FOUND[0].reason
USE_REFUSED = credential.USE_REFUSED[0].reason


class CheckFailed(Exception):
    """A check failed. ``reason`` and ``message`` go to the tenant: they contain no secret and no server's answer."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}"[:MESSAGE_LIMIT])
        self.reason, self.message = reason, message[:MESSAGE_LIMIT]


class CheckInconclusive(CheckFailed):
    """The server was not reached or gave no clear answer: nothing is known about the credentials."""


def failed(entry: Entry, detail: str = "") -> CheckFailed:
    """The failure that ``entry`` describes."""
    return CheckFailed(entry.reason, entry.text(detail=detail))


def repository_unreached(problem: ConnectionProblem) -> CheckInconclusive:
    """No repository was reached to try the credentials on. An outage says nothing about the URL."""
    return CheckInconclusive(
        INVALID_CREDENTIALS if problem is ConnectionProblem.SILENCE else INVALID_URL, problem.value
    )


def shown(name: str) -> str:
    """A name that a tenant chose, made safe for one line of a message."""
    short = name if len(name) <= SHOWN_LIMIT else f"{name[:SHOWN_LIMIT]}..."
    return "".join(letter if letter.isprintable() else "?" for letter in short)
