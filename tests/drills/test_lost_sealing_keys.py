"""The sealing keys are lost: users' Secrets are sealed anew, and what Argo CD has of them stays meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import time
from functools import partial
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.operator import AGENTS, Operator
from services.common.errors import GitOpsError
from services.common.kubernetes import Manifest
from services.common.sealing import SealingKeys
from tests.drills.test_lost_database import identity
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import Tenant, find, path

REMOTE = {"environment": "prod", "namespace": "web"}
MEANWHILE, SINCE = path("meanwhile"), path("since")
SEALED_SECONDS = 90
STATUS = "gitopsctl keys status"


def files(stack: HostedStack) -> dict[str, Path]:
    """Where agents and watchers have their keys."""
    return {half: Path(stack.environment[f"SEALING_{half}_KEYS"]) for half in ("PRIVATE", "PUBLIC")}


async def until_sealed_anew(operator: Operator, lost: str) -> None:
    """Wait until nothing is sealed under the lost key."""
    deadline = time.monotonic() + SEALED_SECONDS
    while lost in await asyncio.to_thread(operator.run, STATUS):
        assert time.monotonic() < deadline


class Credentials:
    """Of a cluster, as a user has given them, and as Argo CD has them."""

    def __init__(self, tenant: Tenant, api: Api, secrets: Mirror) -> None:
        self._tenant, self._api, self._secrets = tenant, api, secrets

    async def begin(self, cluster: Cluster) -> Manifest:
        """They work; returns what is deployed with them."""
        await self._api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
        await self._api.environment(apiURL=cluster.url)
        await self._api.until_connection("Succeeded")
        created = await self._tenant.create(destination=REMOTE)
        await self._tenant.until_status("Synced", sync__status="Synced")
        self._name = (await self._tenant.application_of(created))["spec"]["destination"]["name"]
        self._before = self._argo_cds()
        return created

    async def until_unreadable(self) -> None:
        """Wait until the user is told who has to mend it. Argo CD keeps what it has."""
        told = await self._api.until_connection("UnableToParseKubeconfigData")
        assert "could not be opened" in told["message"]
        assert "your operators have to mend that" in told["message"]
        assert self._argo_cds() == self._before

    async def require_unchanged(self) -> None:
        """They work, and Argo CD has the same."""
        await self._api.until_connection("Succeeded")
        assert self._argo_cds() == self._before

    async def change(self, cluster: Cluster) -> None:
        """What the user changes is sealed, opened, tried and in force."""
        await self._api.change_secret("kubeconfig", kubeconfig=cluster.kubeconfig(token="wrong"))
        await self._api.until_connection("UnableToValidateClusterCredentials")
        await self._api.change_secret("kubeconfig", kubeconfig=cluster.kubeconfig())
        await self._api.until_connection("Succeeded")

    def _argo_cds(self) -> tuple[str, dict[str, str]]:
        found = find(self._secrets.objects, self._name)
        assert found is not None
        return found["metadata"]["uid"], decoded(found)


@pytest.mark.long
async def test_sealing_keys_when_lost_then_new_ones_seal_everything_anew_and_argo_cd_keeps_what_it_has(
    stack: HostedStack, operator: Operator, tenant: Tenant, api: Api, cluster: Cluster, engine_secrets: Mirror
) -> None:
    credentials = Credentials(tenant, api, engine_secrets)
    created = await credentials.begin(cluster)
    before, theirs = identity(tenant, created), files(stack)
    lost = SealingKeys.load(theirs["PUBLIC"]).active_ids[""]
    assert lost in await asyncio.to_thread(operator.run, STATUS, SEALING_PUBLIC_KEYS=str(theirs["PUBLIC"]))
    await asyncio.to_thread(operator.stop(*AGENTS))
    theirs["PRIVATE"].unlink()
    with pytest.raises(GitOpsError, match="exit code 2"):
        await asyncio.to_thread(operator.start(AGENTS[0]))
    await tenant.patch("web", MEANWHILE)
    loop = asyncio.get_running_loop()

    def bring(half: str) -> None:
        shutil.copy(operator.new_keys[half], theirs[half])

    def look_between() -> None:
        asyncio.run_coroutine_threadsafe(credentials.until_unreadable(), loop).result(60)
        asyncio.run_coroutine_threadsafe(tenant.until_path(created, "meanwhile"), loop).result(60)

    by_hand = {
        1: [partial(bring, "PRIVATE"), operator.start(*AGENTS), look_between],
        2: [partial(bring, "PUBLIC")],
    }
    await asyncio.to_thread(operator.follow_runbook, "lost-sealing-keys.md", by_hand)

    await until_sealed_anew(operator, lost)
    assert SealingKeys.load(theirs["PUBLIC"]).active_ids[""] in await asyncio.to_thread(operator.run, STATUS)
    await credentials.require_unchanged()
    await credentials.change(cluster)
    await tenant.patch("web", SINCE)
    await tenant.until_path(created, "since")
    assert identity(tenant, created)[:2] == before[:2]
    assert cluster.token not in "".join(stack.state.log(name).read_text() for name in (*AGENTS, "planner", "watcher"))
