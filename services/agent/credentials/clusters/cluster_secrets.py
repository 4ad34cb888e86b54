"""Composes Argo CD's cluster Secrets: opens the kubeconfig, checks it on the cluster, installs a service account."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus

import orjson
import structlog

from services.agent.credentials.check_result import SUCCEEDED, CheckFailed, CheckResult, ClusterUnavailable, failed
from services.agent.credentials.clusters.account_removal import REMOVAL_SECONDS, attempted, leave, withdraw
from services.agent.credentials.clusters.cluster_client import (
    ApiServer,
    ClusterClient,
    ClusterRefused,
    connect_to_api_server,
)
from services.agent.credentials.clusters.kubeconfig import ClusterAccess, KubeconfigCache
from services.agent.credentials.clusters.service_account import Account, TooOld, scopes_of
from services.agent.credentials.clusters.stored_account import StoredAccount, stored_account, token_annotations
from services.agent.credentials.clusters.tokens import Token, require_token_works, token_works
from services.agent.credentials.network.https import Connection, HttpsConnector
from services.agent.credentials.network.resolver import ConnectionProblem, Unreachable
from services.agent.credentials.secret_recipe import (
    ClusterRecipe,
    cluster_recipe,
    cluster_scope,
    composed_secret,
    secret_metadata,
)
from services.common.clock import Clock
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource
from services.kinds.managed_environment import catalogue as environment

log = structlog.get_logger(__name__)

INSTALL_SECONDS = 60.0
"""Limit for all requests of one installation or removal."""
LEFTOVER_DELAY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ClusterSecrets:
    """Composes Secrets of rows of kind ClusterSecret."""

    kubeconfigs: KubeconfigCache
    https: HttpsConnector
    token_lifetime: timedelta
    clock: Clock

    async def compose_secret(self, row: EngineResource, live: Manifest | None) -> CheckResult:
        """The row's Secret. Raises Permanent (not the planner's row) and CheckFailed."""
        recipe = cluster_recipe(row)
        access = await self._access(recipe, by_certificate=recipe.creates_account)
        here, elsewhere = self._stored(live, recipe)
        renew_at: datetime | None
        try:
            async with self._connected(recipe, access) as connection:
                if recipe.creates_account:
                    async with self._connected_as_nobody(recipe, access, connection) as plain:
                        token = await self._account_token(recipe, access, connection, plain, here)
                        if elsewhere is not None:
                            await leave(self.https, recipe.uid, elsewhere)
                            # Two URLs may lead to one cluster: what has just been removed there is made again.
                            token = await self._account_token(recipe, access, connection, plain, None)
                    text, notes, renew_at = token.text, token_annotations(recipe, token), token.renew_at
                else:
                    await require_token_works(ClusterClient(connection, access.token), recipe)
                    if elsewhere is not None:
                        await leave(self.https, recipe.uid, elsewhere)
                    notes, renew_at = await self._remove_former_account(recipe, access, connection, here)
                    text = access.token
        except Unreachable as error:
            problem = error.problem
        else:
            metadata = secret_metadata(row, "cluster")
            metadata["annotations"] |= notes
            return CheckResult(composed_secret(metadata, _data(row, recipe, access, text)), SUCCEEDED, "", renew_at)
        raise _unreached(problem)

    async def remove_account(self, row: EngineResource, live: Manifest | None) -> None:
        """Remove the accounts and rights that were created for the row, now or before. Raises ClusterUnavailable.

        Uses the kubeconfig's identity, which can remove everything; if it is unusable, the account's own token.
        """
        recipe = cluster_recipe(row)
        here, elsewhere = self._stored(live, recipe)
        left = []
        if recipe.creates_account or here is not None:
            removed = await attempted(self._remove(recipe), INSTALL_SECONDS)
            if removed is not None and not removed.may_pass and here is not None:
                removed = await attempted(withdraw(self.https, recipe.uid, here), REMOVAL_SECONDS)
            left.append(removed)
        if elsewhere is not None:
            left.append(await attempted(withdraw(self.https, recipe.uid, elsewhere), REMOVAL_SECONDS))
        for leftover in filter(None, left):
            if leftover.may_pass:
                raise ClusterUnavailable(f"the service account of {row.name} is not removed yet: {leftover.why}")
            log.warning("service account left behind", name=row.name, uid=recipe.uid, reason=leftover.why)

    async def _remove(self, recipe: ClusterRecipe) -> None:
        access = await self._access(recipe, by_certificate=True)
        async with self._connected(recipe, access) as connection:
            await Account(ClusterClient(connection, access.token), recipe.uid).remove_account(_scopes(recipe))

    def _stored(
        self, live: Manifest | None, recipe: ClusterRecipe
    ) -> tuple[StoredAccount | None, StoredAccount | None]:
        """The account that ``live`` knows on the recipe's server, and the one on another server."""
        stored = stored_account(live, recipe.uid, self.clock.now())
        return (stored, None) if stored is None or stored.server == recipe.server else (None, stored)

    async def _access(self, recipe: ClusterRecipe, *, by_certificate: bool) -> ClusterAccess:
        kubeconfig = await self.kubeconfigs.load_kubeconfig(recipe.secret)
        return kubeconfig.access(recipe.api_url, by_certificate=by_certificate)

    def _connected(self, recipe: ClusterRecipe, access: ClusterAccess) -> AbstractAsyncContextManager[Connection]:
        server = ApiServer(recipe.api_url, access.authority, recipe.insecure, access.certificate)
        return connect_to_api_server(self.https, server)

    def _connected_as_nobody(
        self, recipe: ClusterRecipe, access: ClusterAccess, connection: Connection
    ) -> AbstractAsyncContextManager[Connection]:
        """A connection without the certificate, to test tokens: an API server prefers a certificate to a token."""
        return (
            nullcontext(connection)
            if access.certificate is None
            else self._connected(recipe, replace(access, certificate=None))
        )

    async def _account_token(
        self,
        recipe: ClusterRecipe,
        access: ClusterAccess,
        connection: Connection,
        plain: Connection,
        stored: StoredAccount | None,
    ) -> Token:
        """Install the account and return a token that works on ``plain``. Raises CheckFailed, Unreachable."""
        account = Account(ClusterClient(connection, access.token), recipe.uid)
        why = "it was created, but its token is not accepted, or not allowed what its roles say"
        try:
            async with asyncio.timeout(INSTALL_SECONDS):
                was_there = await account.install_account(recipe)
                fresh = stored.token if stored is not None and was_there else None
                if fresh is not None and await token_works(plain, fresh.text, recipe):
                    return fresh
                token = await account.request_token(self.token_lifetime, self.clock.now())
                if await token_works(plain, token.text, recipe):
                    return token
        except ClusterRefused as error:
            why = _missing(error)
        except TooOld:
            why = (
                "the cluster does not tell its resources (Kubernetes 1.26 or newer is needed); "
                "set clusterResources, or name the namespaces"
            )
        except TimeoutError:
            why = ConnectionProblem.SILENCE.value
        name = recipe.secret.context.name
        raise failed(environment.NO_SERVICE_ACCOUNT, f"unable to install service account from secret '{name}': {why}")

    async def _remove_former_account(
        self, recipe: ClusterRecipe, access: ClusterAccess, connection: Connection, stored: StoredAccount | None
    ) -> tuple[dict[str, str], datetime | None]:
        """Annotations and renewal time of a former account. It is removed once Argo CD uses the kubeconfig's token."""
        if stored is None:
            return {}, None
        if stored.text != access.token:
            return stored.notes, self.clock.now() + LEFTOVER_DELAY
        removal = Account(ClusterClient(connection, access.token), recipe.uid).remove_account(_scopes(recipe))
        left = await attempted(removal, INSTALL_SECONDS)
        if left is None:
            return {}, None
        log.warning("service account not removed yet", uid=recipe.uid, reason=left.why)
        return stored.notes, None


def _scopes(recipe: ClusterRecipe) -> frozenset[str]:
    return scopes_of(recipe.namespaces, cluster_resources=recipe.cluster_resources)


def _data(row: EngineResource, recipe: ClusterRecipe, access: ClusterAccess, token: str) -> dict[str, str]:
    """The Secret's data, as Argo CD reads it."""
    tls: dict[str, object] = {"insecure": recipe.insecure}
    if access.authority is not None and not recipe.insecure:
        tls["caData"] = base64.b64encode(access.authority.encode()).decode()
    config = orjson.dumps({"bearerToken": token, "tlsClientConfig": tls}).decode()
    return {"name": row.name, "server": recipe.server, "config": config} | cluster_scope(recipe)


def _missing(error: ClusterRefused) -> str:
    if error.status == HTTPStatus.FORBIDDEN:
        return f"the kubeconfig's identity may not {error.asked}, or does not itself have the rights it would give"
    if error.status == HTTPStatus.UNAUTHORIZED:
        return "the kubeconfig's token or certificate is not accepted"
    return str(error)


def _unreached(problem: ConnectionProblem) -> CheckFailed:
    if problem is ConnectionProblem.ANSWER:
        return failed(environment.CREDENTIALS_REFUSED)
    if problem is ConnectionProblem.AUTHORITY:
        return failed(environment.UNKNOWN_AUTHORITY)
    return failed(environment.NO_CLIENT, problem.value)
