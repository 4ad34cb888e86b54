"""The package's door: composes and disposes rows, a bounded number at once, tenants in turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from services.agent.clock import Clock
from services.agent.credentials.cluster import ClusterSecrets
from services.agent.credentials.composition import Composition, CredentialSettings
from services.agent.credentials.git_https import HttpsRepositories
from services.agent.credentials.git_ssh import SshRepositories
from services.agent.credentials.names import Names
from services.agent.credentials.outbound import Outbound
from services.agent.credentials.recipe import CLUSTER_SECRET, REPOSITORY_SECRET
from services.agent.credentials.repository import RepositorySecrets
from services.agent.credentials.turns import Turns
from services.agent.credentials.verdict import CheckFailed
from services.common.addresses import AddressPolicy
from services.common.errors import Permanent
from services.common.kube import Manifest
from services.common.messages import EngineResource
from services.common.sealing import OpeningKeys


class Composers:
    """One for all engine instances of an agent: its bounds are the process's.

    A call may take a minute of somebody else's slowness. Never await one in a slot that other tenants' work needs.
    """

    def __init__(self, keys: OpeningKeys, policy: AddressPolicy, settings: CredentialSettings, clock: Clock) -> None:
        """Opens nothing before the first call."""
        names = Names(policy, settings.connect_seconds)
        outbound = Outbound(names, settings.connect_seconds, settings.request_seconds)
        self._clusters = ClusterSecrets(keys, outbound, settings, clock)
        self._repositories = RepositorySecrets(
            keys,
            HttpsRepositories(outbound, settings.git_authorities),
            SshRepositories(names, settings.known_hosts, settings.connect_seconds, settings.request_seconds),
            policy,
        )
        self._turns = Turns(settings.checks, settings.checks_per_tenant)

    async def compose(self, row: EngineResource, live: Manifest | None) -> Composition:
        """Compose the Argo CD Secret of ``row`` (kind ClusterSecret or RepositorySecret).

        ``live`` is the Secret as it is now, None if there is none: it may hold a token that is still good.
        Raises Permanent if the row is not one that the planner compiles, Retry for trouble of our own. What a tenant's
        server does or does not do is never an error: it is in the Composition.
        """
        async with self._turn(row):
            try:
                if row.kind == CLUSTER_SECRET:
                    return await self._clusters.compose(row, live)
                if row.kind == REPOSITORY_SECRET:
                    return await self._repositories.compose(row)
            except CheckFailed as error:
                return Composition(None, error.reason, error.message)
        raise Permanent(f"kind {row.kind} is not one that is composed")

    async def dispose(self, row: EngineResource, live: Manifest | None, *, giving_up: bool = False) -> None:
        """Remove what was created for the row on clusters; to be called before its Argo CD Secret goes.

        ``live`` is that Secret, None if there is none: it may tell of an account that the row knows nothing of.
        Returns when nothing is left, when a cluster refuses for good, and in any case with ``giving_up``.
        Raises TargetSilent (a Retry of this row alone) if a cluster does not answer, Permanent as ``compose``.
        """
        if row.kind == CLUSTER_SECRET:
            async with self._turn(row):
                await self._clusters.dispose(row, live, giving_up)

    @asynccontextmanager
    async def _turn(self, row: EngineResource) -> AsyncGenerator[None]:
        async with self._turns.of(f"{row.workspace}/{row.tenant_namespace}"):
            yield
