"""Entry point of the package: checks credentials and repositories, a bounded number at once, tenants in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from services.agent.credentials.check_result import CheckFailed, CheckInconclusive, CheckResult, RepositoryAccess
from services.agent.credentials.clusters.cluster_secrets import ClusterSecrets
from services.agent.credentials.clusters.kubeconfig_cache import KubeconfigCache
from services.agent.credentials.clusters.stored_account import ACCOUNT_OF
from services.agent.credentials.network.https import HttpsConnector
from services.agent.credentials.network.resolver import HostResolver
from services.agent.credentials.recipe import cluster_recipe
from services.agent.credentials.repositories.git_https import HttpsRepositories
from services.agent.credentials.repositories.git_ssh import SshRepositories
from services.agent.credentials.repositories.host_check import RepositoryHostCheck
from services.agent.credentials.repositories.repository_secrets import RepositorySecrets
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
    """Of the tokens of service accounts we create."""
    checks: int
    """At once, overall."""
    checks_per_tenant: int
    connect_seconds: float = 5.0
    request_seconds: float = 10.0


class CredentialChecker:
    """One for all engine instances of an agent: its bounds are the process's.

    A call may take a minute if a tenant's server is slow. Never await one in a worker that serves other tenants.
    """

    def __init__(self, keys: OpeningKeys, policy: AddressPolicy, settings: CredentialSettings, clock: Clock) -> None:
        """Opens nothing before the first call."""
        names = HostResolver(policy, settings.connect_seconds)
        https = HttpsConnector(names, settings.connect_seconds, settings.request_seconds)
        self._clusters = ClusterSecrets(KubeconfigCache(keys), https, settings.token_lifetime, clock)
        self._repositories = RepositorySecrets(
            keys,
            HttpsRepositories(https, settings.git_authorities),
            SshRepositories(names, settings.known_hosts, settings.connect_seconds, settings.request_seconds),
            policy,
        )
        self._slots = FairSemaphore(settings.checks, settings.checks_per_tenant)
        # With threads and slots of its own: an Application does not wait for a check, nor a check for Applications.
        self._hosts = RepositoryHostCheck(
            HostResolver(policy, settings.connect_seconds),
            policy,
            FairSemaphore(settings.checks, settings.checks_per_tenant),
            clock,
        )

    async def compose_secret(self, row: EngineResource, live: Manifest | None) -> CheckResult:
        """Compose the Argo CD Secret of ``row`` (kind ClusterSecret or RepositorySecret).

        ``live`` is the Secret as it is now, None if there is none: it may hold a token that is still good.
        Raises Permanent if the row is not one that the planner compiles, Retry for trouble of our own. What a tenant's
        server does or does not do is never an error: it is in the CheckResult.
        """
        async with self._slots.slot_of(row.tenant):
            try:
                if row.kind == RowKind.CLUSTER_SECRET:
                    return await self._clusters.compose_secret(row, live)
                if row.kind == RowKind.REPOSITORY_SECRET:
                    return await self._repositories.compose_secret(row)
            except CheckFailed as error:
                is_told = row.kind == RowKind.REPOSITORY_SECRET and not isinstance(error, CheckInconclusive)
                return CheckResult(
                    None, error.reason, error.message, access=RepositoryAccess.NOBODY if is_told else None
                )
        raise Permanent(f"kind {row.kind} is not one that is composed")

    def may_have_account(self, row: EngineResource, annotations: Mapping[str, str]) -> bool:
        """Whether anything was made on a cluster for the row, as far as it and its Secret's ``annotations`` tell.

        Raises Permanent as ``compose_secret``.
        """
        is_cluster = row.kind == RowKind.CLUSTER_SECRET
        return is_cluster and (ACCOUNT_OF in annotations or cluster_recipe(row).creates_account)

    async def remove_account(self, row: EngineResource, live: Manifest | None) -> None:
        """Remove what was created for the row on clusters; to be called before its Argo CD Secret goes.

        ``live`` is that Secret, None if there is none: it may tell of an account that the row knows nothing of.
        Returns when nothing is left, or when a cluster refuses for good.
        Raises ClusterUnavailable (a Retry of this row alone) if a cluster does not answer, and Permanent as
        ``compose_secret``.
        """
        if row.kind == RowKind.CLUSTER_SECRET:
            async with self._slots.slot_of(row.tenant):
                await self._clusters.remove_account(row, live)

    async def refusal_of_repository(self, url: str, tenant: str) -> str:
        """Why Argo CD must not be told to read ``url``, to follow the field's name; empty if it may be.

        To be asked before an Application is applied; ``tenant`` is workspace/namespace. Takes seconds where a name
        server does, and longer where the tenant has many such. Never raises.
        """
        return await self._hosts.refusal(url, tenant)

    async def is_public_repository(self, url: str, tenant: str) -> bool:
        """Whether a repository is known to open without a login; ``tenant`` is who asks. Never raises."""
        async with self._slots.slot_of(tenant):
            try:
                return await self._repositories.is_public_repository(url)
            except Retry as error:
                log.warning("no repository can be asked", error=str(error))
                return False
