"""Settings and results of credential checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path

from services.common.errors import Retry
from services.common.kubernetes import Manifest


class RepositoryAccess(Enum):
    """Who can read a repository, as found when its login was checked."""

    ANYBODY = auto()
    """Without a login, too."""
    LOGIN = auto()
    """To the login, and to nobody without one."""
    UNCLEAR = auto()
    """To the login; whether without one could not be told."""
    NOBODY = auto()
    """Not to this login."""


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


@dataclass(frozen=True, slots=True)
class CredentialSettings:
    """The part of the agent's settings that concerns credentials."""

    known_hosts: Path | None
    """OpenSSH known_hosts file of the git servers that may be reached by ssh; read anew for each check."""
    git_authorities: Path | None
    """PEM file of certificate authorities that git servers may have besides the system's."""
    token_lifetime: timedelta
    """Of the tokens of service accounts we create; renewed at half of it."""
    checks: int
    """At once, overall."""
    checks_per_tenant: int
    connect_seconds: float = 5.0
    request_seconds: float = 10.0


class ClusterUnavailable(Retry):
    """A tenant's cluster does not answer, or not as it should. Of concern to one row: it must not park an instance."""
