"""What a tenant has in an engine namespace before that is lost, and what has to be there afterwards."""

from __future__ import annotations

from devstack.harness.mirror import Mirror
from services.common.kubernetes import Manifest
from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED
from tests.drills.test_lost_database import identity
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import Tenant, application_name, find, path

REMOTE = {"environment": "prod", "namespace": "web"}
SINCE, AFTERWARDS = path("since"), path("afterwards")
"""What is asked for while it is lost, and once it is back."""


class Tenancy:
    """What a tenant has in an engine namespace: two deployments, a run that has ended, a cluster's credentials."""

    def __init__(self, tenant: Tenant, api: Api, secrets: Mirror) -> None:
        self.tenant, self._api, self._secrets = tenant, api, secrets
        self.resources = dict[str, Manifest]()

    async def begin(self, cluster: Cluster) -> None:
        """All of it works."""
        await self._api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
        await self._api.environment(apiURL=cluster.url)
        self.resources["changed"] = await self.tenant.create("changed", destination=REMOTE)
        self.resources["manual"] = await self.tenant.create("manual", type="manual", destination=REMOTE)
        await self._api.sync_run("once", deployment="manual")
        self._ran = await self._api.until_phase("once", "Succeeded")
        for name in self.resources:
            await self.tenant.until_status("Synced", name, sync__status="Synced")
        self._before = self._identities()
        self._credentials = self._cluster_secret()

    @property
    def namespace(self) -> str:
        """Of its engine."""
        return self._before["manual"][0]

    async def until_told(self) -> None:
        """Wait until the user is told that nothing is done, and by whom that is mended."""
        for name in self.resources:
            told = await self.tenant.until_condition("ErrorOccurred", "True", name)
            assert told["message"] == ENGINE_NOT_ACCEPTED.text()

    async def require_restored(self) -> None:
        """Everything is there anew, in its place, as it is asked for by now; nothing has run once more."""
        for created in self.resources.values():
            await self.tenant.application_of(created)
        await self.tenant.until_path(self.resources["changed"], "since")
        for name in self.resources:
            await self.tenant.until_no_error(name)
        await self.tenant.until_status("Synced", "changed", sync__status="Synced")
        now = self._identities()
        assert {name: place for name, (place, _) in now.items()} == dict.fromkeys(now, self.namespace)
        assert not {uid for _, uid in now.values()} & {uid for _, uid in self._before.values()}
        assert self._cluster_secret() == self._credentials
        assert await self._api.until_phase("once", "Succeeded") == self._ran
        assert "operationState" not in find_live(self.tenant, self.resources["manual"]).get("status", {})

    def _identities(self) -> dict[str, tuple[str, str]]:
        return {name: identity(self.tenant, created)[:2] for name, created in self.resources.items()}

    def _cluster_secret(self) -> dict[str, str]:
        name = find_live(self.tenant, self.resources["changed"])["spec"]["destination"]["name"]
        found = find(self._secrets.objects, name)
        assert found is not None
        return decoded(found)


def find_live(tenant: Tenant, created: Manifest) -> Manifest:
    found = find(tenant.applications.objects, application_name(created))
    assert found is not None
    return found
