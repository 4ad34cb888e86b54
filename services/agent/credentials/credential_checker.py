"""Checks credentials and repositories, a bounded number at a time, tenants in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from services.agent.credentials.check_result import CheckFailed, CheckInconclusive, CheckResult, RepositoryAccess
from services.agent.credentials.clusters.cluster_secrets import ClusterSecrets
from services.agent.credentials.clusters.kubeconfig import KubeconfigCache
from services.agent.credentials.clusters.stored_account import ACCOUNT_OF
from services.agent.credentials.network.https import HttpsConnector
from services.agent.credentials.network.resolver import HostResolver
from services.agent.credentials.repositories.git_https import HttpsRepositories
from services.agent.credentials.repositories.git_ssh import SshRepositories
from services.agent.credentials.repositories.host_check import RepositoryHostCheck
from services.agent.credentials.repositories.repository_secrets import RepositorySecrets
from services.agent.credentials.secret_recipe import cluster_recipe
from services.agent.objects.desired_objects import is_released
from services.common.addresses import AddressPolicy
from services.common.clock import Clock
from services.common.errors import Permanent, Retry
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource, RowKind
from services.common.queueing import FairSemaphore
from services.common.sealing import OpeningKeys

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CredentialSettings:
    """The part of the agent's settings that concerns credentials."""

    known_hosts: Path | None
    """OpenSSH known_hosts file of the git servers that may be reached by ssh; read anew for each check."""
    git_authorities: Path | None
    """PEM file of certificate authorities that git servers may have besides the system's."""
    token_lifetime: timedelta
    """Lifetime of the tokens of service accounts that we create."""
    checks: int
    """How many checks run at a time, overall."""
    checks_per_tenant: int
    connect_seconds: float = 5.0
    request_seconds: float = 10.0


class CredentialChecker:
    """The :class:`Checker` of all engine instances of an agent. Its bounds apply to the process."""

    def __init__(self, keys: OpeningKeys, addresses: AddressPolicy, settings: CredentialSettings, clock: Clock) -> None:
        """Opens nothing before the first call."""
        names = HostResolver(addresses, settings.connect_seconds)
        https = HttpsConnector(names, settings.connect_seconds, settings.request_seconds)
        self._clusters = ClusterSecrets(KubeconfigCache(keys), https, settings.token_lifetime, clock)
        self._repositories = RepositorySecrets(
            keys,
            HttpsRepositories(https, settings.git_authorities),
            SshRepositories(names, settings.known_hosts, settings.connect_seconds, settings.request_seconds),
            addresses,
        )
        self._slots = FairSemaphore(settings.checks, settings.checks_per_tenant)
        # With threads and slots of its own: an Application does not wait for a check, nor a check for Applications.
        self._hosts = RepositoryHostCheck(
            HostResolver(addresses, settings.connect_seconds),
            addresses,
            FairSemaphore(settings.checks, settings.checks_per_tenant),
            clock,
        )

    async def compose_secret(self, row: EngineResource, live: Manifest | None) -> CheckResult:
        """See :class:`Checker`."""
        async with self._slots.slot_of(row.tenant):
            try:
                if row.kind == RowKind.CLUSTER_SECRET:
                    return await self._clusters.compose_secret(row, live)
                if row.kind == RowKind.REPOSITORY_SECRET:
                    return await self._repositories.compose_secret(row)
            except CheckFailed as error:
                is_definite = row.kind == RowKind.REPOSITORY_SECRET and not isinstance(error, CheckInconclusive)
                return CheckResult(
                    None, error.reason, error.message, access=RepositoryAccess.NOBODY if is_definite else None
                )
        raise Permanent(f"kind {row.kind} is not one that is composed")

    def may_have_account(self, row: EngineResource, annotations: Mapping[str, str]) -> bool:
        """See :class:`Checker`."""
        if row.kind != RowKind.CLUSTER_SECRET or is_released(row):
            return False
        return ACCOUNT_OF in annotations or cluster_recipe(row).creates_account

    async def remove_account(self, row: EngineResource, live: Manifest | None) -> None:
        """See :class:`Checker`."""
        if row.kind == RowKind.CLUSTER_SECRET:
            async with self._slots.slot_of(row.tenant):
                await self._clusters.remove_account(row, live)

    async def refusal_of_repository(self, url: str, tenant: str) -> str:
        """See :class:`Checker`."""
        return await self._hosts.refusal_of_url(url, tenant)

    async def is_public_repository(self, url: str, tenant: str) -> bool:
        """See :class:`Checker`."""
        async with self._slots.slot_of(tenant):
            try:
                return await self._repositories.is_public_repository(url)
            except Retry as error:
                log.warning("no repository can be asked", error=str(error))
                return False
