"""Composes cluster Secrets: opens the kubeconfig, reaches the cluster with it, and writes what Argo CD reads."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
import structlog

from services.agent.clock import Clock
from services.agent.credentials.composition import Composition, CredentialSettings, TargetSilent
from services.agent.credentials.farewell import FAREWELL_SECONDS, attempted, leave, withdraw
from services.agent.credentials.held import Held, held_account, token_notes
from services.agent.credentials.kubeconfig import Access
from services.agent.credentials.kubeconfigs import Kubeconfigs
from services.agent.credentials.names import Trouble, Unreached
from services.agent.credentials.outbound import Connection, Outbound
from services.agent.credentials.probe import validate, works
from services.agent.credentials.reach import ApiServer, connected
from services.agent.credentials.recipe import ClusterRecipe, cluster_recipe, secret_metadata
from services.agent.credentials.secret import secret
from services.agent.credentials.service_account import Account, Token, TooOld, places_of
from services.agent.credentials.target import FORBIDDEN, UNAUTHORIZED, Target, TargetRefused
from services.agent.credentials.verdict import SUCCEEDED, CheckFailed, failed
from services.common.api.catalogue import environment
from services.common.kube import Manifest
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

INSTALL_SECONDS = 60.0
"""For all requests of one installation or removal together."""
LEFTOVER_DELAY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ClusterSecrets:
    """Composes and disposes rows of kind ClusterSecret."""

    kubeconfigs: Kubeconfigs
    outbound: Outbound
    settings: CredentialSettings
    clock: Clock

    async def compose(self, row: EngineResource, live: Manifest | None) -> Composition:
        """The row's Secret. Raises Permanent (not the planner's row) and CheckFailed."""
        recipe = cluster_recipe(row)
        access = await self._access(recipe)
        here, elsewhere = self._held(live, recipe)
        renew_at: datetime | None
        try:
            async with self._connected(recipe, access) as connection:
                if recipe.creates_account:
                    token = await self._account_token(recipe, access, connection, here)
                    if elsewhere is not None:
                        await leave(self.outbound, recipe.uid, elsewhere)
                        # Two URLs may lead to one cluster: what has just been removed there is made again.
                        token = await self._account_token(recipe, access, connection, None)
                    text, notes, renew_at = token.text, token_notes(recipe, token), token.renew_at
                else:
                    await validate(Target(connection, access.token), recipe)
                    if elsewhere is not None:
                        await leave(self.outbound, recipe.uid, elsewhere)
                    notes, renew_at = await self._farewell(recipe, access, connection, here)
                    text = access.token
        except Unreached as error:
            trouble = error.trouble
        else:
            metadata = secret_metadata(row, "cluster")
            metadata["annotations"] |= notes
            return Composition(secret(metadata, _data(row, recipe, access, text)), SUCCEEDED, "", renew_at)
        raise _unreached(trouble)

    async def dispose(self, row: EngineResource, live: Manifest | None) -> None:
        """Remove accounts and rights that the row had made, now or before. Raises TargetSilent.

        By the kubeconfig's identity, which removes everything; where that is of no use, by the account's own.
        """
        recipe = cluster_recipe(row)
        here, elsewhere = self._held(live, recipe)
        left = []
        if recipe.creates_account or here is not None:
            removed = await attempted(self._remove(recipe), INSTALL_SECONDS)
            if removed is not None and not removed.may_pass and here is not None:
                removed = await attempted(withdraw(self.outbound, recipe.uid, here), FAREWELL_SECONDS)
            left.append(removed)
        if elsewhere is not None:
            left.append(await attempted(withdraw(self.outbound, recipe.uid, elsewhere), FAREWELL_SECONDS))
        for leftover in filter(None, left):
            if leftover.may_pass:
                raise TargetSilent(f"the service account of {row.name} is not removed yet: {leftover.why}")
            log.warning("service account left behind", name=row.name, uid=recipe.uid, reason=leftover.why)

    async def _remove(self, recipe: ClusterRecipe) -> None:
        access = await self._access(recipe)
        async with self._connected(recipe, access) as connection:
            await Account(Target(connection, access.token), recipe.uid).remove(_places(recipe))

    def _held(self, live: Manifest | None, recipe: ClusterRecipe) -> tuple[Held | None, Held | None]:
        """What is told of an account on the recipe's server, and of one on another."""
        held = held_account(live, recipe.uid, self.clock.now())
        return (held, None) if held is None or held.server == recipe.server else (None, held)

    async def _access(self, recipe: ClusterRecipe) -> Access:
        return (await self.kubeconfigs.of(recipe.secret)).access(recipe.api_url)

    def _connected(self, recipe: ClusterRecipe, access: Access) -> AbstractAsyncContextManager[Connection]:
        return connected(self.outbound, ApiServer(recipe.api_url, access.authority, recipe.insecure))

    async def _account_token(
        self, recipe: ClusterRecipe, access: Access, connection: Connection, held: Held | None
    ) -> Token:
        """Install the account and return a token of it that works. Raises CheckFailed, Unreached."""
        account = Account(Target(connection, access.token), recipe.uid)
        why = "it was created, but its token is not accepted, or not allowed what its roles say"
        try:
            async with asyncio.timeout(INSTALL_SECONDS):
                was_there = await account.install(recipe)
                fresh = held.token if held is not None and was_there else None
                if fresh is not None and await works(connection, fresh.text, recipe):
                    return fresh
                token = await account.token(self.settings.token_lifetime, self.clock.now())
                if await works(connection, token.text, recipe):
                    return token
        except TargetRefused as error:
            why = _missing(error)
        except TooOld:
            why = (
                "the cluster does not tell its resources (Kubernetes 1.26 or newer is needed); "
                "set clusterResources, or name the namespaces"
            )
        except TimeoutError:
            why = Trouble.SILENCE.value
        name = recipe.secret.context.name
        raise failed(environment.NO_SERVICE_ACCOUNT, f"unable to install service account from secret '{name}': {why}")

    async def _farewell(
        self, recipe: ClusterRecipe, access: Access, connection: Connection, held: Held | None
    ) -> tuple[dict[str, str], datetime | None]:
        """What remains to be noted of an account of former times; removed once Argo CD uses the kubeconfig's token."""
        if held is None:
            return {}, None
        if held.text != access.token:
            return held.notes, self.clock.now() + LEFTOVER_DELAY
        removal = Account(Target(connection, access.token), recipe.uid).remove(_places(recipe))
        left = await attempted(removal, INSTALL_SECONDS)
        if left is None:
            return {}, None
        log.warning("service account not removed yet", uid=recipe.uid, reason=left.why)
        return held.notes, None


def _places(recipe: ClusterRecipe) -> frozenset[str]:
    return places_of(recipe.namespaces, cluster_resources=recipe.cluster_resources)


def _data(row: EngineResource, recipe: ClusterRecipe, access: Access, token: str) -> dict[str, str]:
    """As Argo CD reads it. ``project`` makes it a cluster that only the tenant's own project may use."""
    tls: dict[str, object] = {"insecure": recipe.insecure}
    if access.authority is not None and not recipe.insecure:
        tls["caData"] = base64.b64encode(access.authority.encode()).decode()
    data = {
        "name": row.name,
        "server": recipe.server,
        "config": orjson.dumps({"bearerToken": token, "tlsClientConfig": tls}).decode(),
        "project": recipe.project,
    }
    if recipe.namespaces:
        data["namespaces"] = ",".join(recipe.namespaces)
    if recipe.cluster_resources:
        data["clusterResources"] = "true"
    return data


def _missing(error: TargetRefused) -> str:
    if error.status == FORBIDDEN:
        return f"the kubeconfig's identity may not {error.asked}, or does not itself have the rights it would give"
    if error.status == UNAUTHORIZED:
        return "the kubeconfig's token is not accepted"
    return str(error)


def _unreached(trouble: Trouble) -> CheckFailed:
    if trouble is Trouble.ANSWER:
        return failed(environment.CREDENTIALS_REFUSED)
    if trouble is Trouble.AUTHORITY:
        return failed(environment.UNKNOWN_AUTHORITY)
    return failed(environment.NO_CLIENT, trouble.value)
