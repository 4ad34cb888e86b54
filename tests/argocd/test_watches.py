"""How many watches an environment costs the API server of its cluster: the figure of docs/operations/fleet-size.md."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid

import pytest

from bench.fleet.engine_clusters import open_watches
from devstack.harness.mirror import Mirror
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import Sources
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import Tenant, create_namespace

SETTLED_SECONDS = 3.0
LEFT_SECONDS = 10.0
"""Within which Argo CD gives up a cluster whose Secret is gone."""
DEADLINE_SECONDS = 240.0


async def settled(far: Deployed, seconds: float = SETTLED_SECONDS) -> int:
    """Watches of the other cluster once their number has stayed as it is for so long."""
    deadline, since, before = time.monotonic() + DEADLINE_SECONDS, time.monotonic(), -1
    while time.monotonic() - since < seconds:
        assert time.monotonic() < deadline
        (now,) = await open_watches([far.kube])
        if now != before:
            since, before = time.monotonic(), now
        await asyncio.sleep(0.2)
    return before


async def until_left(engine_secrets: Mirror, cluster: Cluster) -> None:
    """Until environments of tests before are gone: agents remove the Secret of a cluster after a grace period."""
    await engine_secrets.until(
        "no environment is left",
        lambda objects: not any(decoded(each).get("server", "").startswith(cluster.url) for each in objects.values()),
    )


async def test_environment_when_it_has_several_namespaces_then_argocd_watches_each_kind_once_in_each_of_them(
    *,
    tenant: Tenant,
    api: Api,
    source: Sources,
    cluster: Cluster,
    far: Deployed,
    engine_secrets: Mirror,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [f"there-{uuid.uuid4().hex[:8]}" for _ in range(3)]
    for name in names:
        await create_namespace(far.kube, name)
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await until_left(engine_secrets, cluster)
    found = [await settled(far, LEFT_SECONDS)]
    for count in (1, 3):
        environment = f"with-{count}"
        await api.environment(environment, apiURL=cluster.url, namespaces=names[:count])
        await tenant.create(
            environment, source=source().spec(), destination={"environment": environment, "namespace": names[count - 1]}
        )
        await tenant.until_status("deployed", environment, **HEALTHY)
        found.append(await settled(far))
    of_one, of_three = found[1] - found[0], found[2] - found[1]
    with capsys.disabled():
        sys.stdout.write(f"\nwatches of an environment with one namespace: {of_one}, with three: {of_three}\n")
    assert of_one > 0
    assert of_three == 3 * of_one
    for environment in ("with-1", "with-3"):
        await tenant.delete(environment)
        await api.delete(MANAGED_ENVIRONMENT, environment)
