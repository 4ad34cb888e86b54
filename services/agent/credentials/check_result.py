"""The interface of credential checks, their results, and how one fails: in words of the catalogue of conditions."""

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
    """Who can read a repository, as found when its login was checked."""

    ANYBODY = auto()
    """It opens without a login, too."""
    LOGIN = auto()
    """It opens to the login, and not without one."""
    UNCLEAR = auto()
    """It opens to the login; whether it does without one is not known."""
    NOBODY = auto()
    """It does not open to this login."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of the check of one row: the Secret to apply and what to report to the planner."""

    secret: Manifest | None = field(repr=False)
    """v1 Secret with base64 ``data``; None if the check failed: what is there stays."""
    reason: str
    message: str
    renew_at: datetime | None = None
    """When to compose again because its own credentials age; None if they never do."""
    access: RepositoryAccess | None = None
    """Of a repository; None if nothing was found out."""


class Checker(Protocol):
    """Checks credentials and repositories, for whom it does not matter how: see :class:`CredentialChecker`.

    A call may take a minute if a tenant's server is slow. Never await one in a worker that serves other tenants.
    """

    async def compose_secret(self, row: EngineResource, live: Manifest | None) -> CheckResult:
        """Compose the Argo CD Secret of ``row`` (kind ClusterSecret or RepositorySecret).

        ``live`` is the Secret as it is now, None if there is none: it may hold a token that is still good.
        Raises Permanent if the row is not one that the planner compiles, Retry for trouble of our own. What a tenant's
        server does or does not do is never an error: it is in the CheckResult.
        """

    def may_have_account(self, row: EngineResource, annotations: Mapping[str, str]) -> bool:
        """Whether anything was made on a cluster for the row, as far as it and its Secret's ``annotations`` tell.

        Raises Permanent as ``compose_secret``.
        """

    async def remove_account(self, row: EngineResource, live: Manifest | None) -> None:
        """Remove what was created for the row on clusters; to be called before its Argo CD Secret goes.

        ``live`` is that Secret, None if there is none: it may tell of an account that the row knows nothing of.
        Returns when nothing is left, or when a cluster refuses for good.
        Raises ClusterUnavailable (a Retry of this row alone) if a cluster does not answer, and Permanent as
        ``compose_secret``.
        """

    async def refusal_of_repository(self, url: str, tenant: str) -> str:
        """Why Argo CD must not be told to read ``url``, to follow the field's name; empty if it may be.

        To be asked before an Application is applied; ``tenant`` is workspace/namespace. Takes seconds where a name
        server does, and longer where the tenant has many such. Never raises.
        """

    async def is_public_repository(self, url: str, tenant: str) -> bool:
        """Whether a repository is known to open without a login; ``tenant`` is who asks. Never raises."""


class ClusterUnavailable(Retry):
    """A tenant's cluster does not answer, or not as it should. Of concern to one row: it must not pause an instance."""


MESSAGE_LIMIT = 1024
SHOWN_LIMIT = 100

SUCCEEDED = environment.CONNECTED.reason
UP_TO_DATE = credential.VALID[0].reason
INVALID_CREDENTIALS = credential.INVALID[0].reason
INVALID_URL = credential.URL_NOT_FOUND[0].reason
USE_REFUSED = credential.USE_REFUSED[0].reason


class CheckFailed(Exception):
    """A check failed. ``reason`` and ``message`` are for the tenant: no secret, no server's answer."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}"[:MESSAGE_LIMIT])
        self.reason, self.message = reason, message[:MESSAGE_LIMIT]


class CheckInconclusive(CheckFailed):
    """The server was not reached or gave no clear answer: nothing is known about the credentials."""


def failed(entry: Entry, detail: str = "") -> CheckFailed:
    """The failure that ``entry`` describes."""
    return CheckFailed(entry.reason, entry.text(detail=detail))


def repository_unreached(problem: ConnectionProblem) -> CheckInconclusive:
    """No repository was found to try credentials on. An outage says nothing of the URL, so it does not deny it."""
    return CheckInconclusive(
        INVALID_CREDENTIALS if problem is ConnectionProblem.SILENCE else INVALID_URL, problem.value
    )


def shown(name: str) -> str:
    """A name that a tenant chose, fit for one line of a message."""
    short = name if len(name) <= SHOWN_LIMIT else f"{name[:SHOWN_LIMIT]}..."
    return "".join(letter if letter.isprintable() else "?" for letter in short)
