"""A tenant that is too large for one real Argo CD: two have a part of it each, and let each other be."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator

import psycopg
import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.git.site import PRIVATE, USERNAME, GitSite
from devstack.harness.hosted import HostedStack
from tests.argocd.deployed import HEALTHY, SETTLED, Deployed
from tests.argocd.sources import Source, Sources, config_map
from tests.argocd.test_moves import DEPLOYED_SECONDS, mover, watched
from tests.e2e.api import Api, Cluster
from tests.e2e.moving import Mover
from tests.e2e.operators import states, typed, until_seen
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant, create_namespace

__all__ = ["mover"]

OWN, OTHER = ENGINE_NAMESPACES
"""Ids of instances, too."""
ROOM = 4
"""Applications. A tenant takes up seven tenths of that: three."""
RESIZE = """
UPDATE engine_instances AS now SET capacity = %s
  FROM engine_instances AS former
 WHERE now.id = former.id AND now.id = %s
RETURNING former.capacity
"""


def resize(stack: HostedStack, capacity: int) -> int:
    """Of the tenant's instance, which no order changes; returns what it was."""
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        row = owner.execute(RESIZE, (capacity, OWN)).fetchone()
    assert row is not None
    return int(row[0])


async def until_accepting(stack: HostedStack) -> None:
    """Until tenants are placed on that instance again, which was full."""
    await until_seen(lambda: states(stack), lambda found: found[OWN] == "accepting")


@pytest.fixture
async def little_room(stack: HostedStack, tenant: Tenant) -> AsyncIterator[None]:
    """On the instance that the tenant will be on, whom the planner has not heard of yet."""
    await typed(stack, "pin", tenant.namespace, "--to", OWN)
    before = resize(stack, ROOM)
    try:
        yield
    finally:
        resize(stack, before)
        await typed(stack, "unpin", tenant.namespace)
        await until_accepting(stack)


@pytest.fixture
async def places(api: Api, cluster: Cluster, far: Deployed, little_room: None) -> dict[str, str]:
    """Namespaces in the other cluster, by the environment."""
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    found = {name: f"{name}-{uuid.uuid4().hex[:8]}" for name in ("dev", "prod")}
    for name, namespace in found.items():
        await create_namespace(far.kube, namespace)
        await api.environment(name, apiURL=cluster.url, createNewServiceAccount=True)
        await api.until_connection("Succeeded", name)
    return found


@pytest.fixture
async def private(api: Api, source: Sources, site: GitSite) -> Source:
    """A repository that needs a login, which the tenant has."""
    repository = source(visibility=PRIVATE)
    await api.secret("login", "repository-credential", username=USERNAME, password=site.password)
    await api.credential(repository=repository.https)
    return repository


async def test_tenant_when_split_then_each_argocd_deploys_its_environments_and_a_part_comes_back_unnoticed(  # noqa: PLR0917 - fixtures
    stack: HostedStack,
    tenant: Tenant,
    source: Sources,
    far: Deployed,
    mover: Mover,
    places: dict[str, str],
    private: Source,
) -> None:
    sources = [source(config_map("first", f"map-{number}")) for number in range(3)]
    dev, prod = ({"environment": name, "namespace": namespace} for name, namespace in places.items())
    created = [await tenant.create(f"web-{n}", source=each.spec(), destination=dev) for n, each in enumerate(sources)]
    for number, each in enumerate(created):
        await tenant.until_status("deployed", f"web-{number}", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
        assert mover.places(each) == {OWN}
    late = await tenant.create("late", source=private.spec(), destination=prod)
    await tenant.until_status("deployed", "late", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
    part = f"{tenant.namespace}@{OTHER}"
    shown = json.loads(await typed(stack, "placement", tenant.namespace, "-o", "json"))
    assert mover.places(late) == {OTHER}
    assert [(each["name"], each["environments"]) for each in shown] == [(tenant.namespace, ["dev"]), (part, ["prod"])]

    async with watched(far.kube, places["dev"]) as history_dev, watched(far.kube, places["prod"]) as history_prod:
        private.commit(config_map("second"))
        sources[0].commit(config_map("second", "map-0"))
        await far.until(places["prod"], "second")
        await far.until(places["dev"], "second", "map-0")
        for name, of in (("late", private), ("web-0", sources[0])):
            await tenant.until_status("goes on", name, sync__revision=of.repository.head(), **SETTLED)
        async with seen_by_user(tenant, "late") as seen, seen_by_user(tenant, "web-0") as seen_of_other:
            await typed(stack, "move", part, "--to", OWN)
            await mover.until_done()
            assert (await seen.changes(), await seen_of_other.changes()) == ([], [])
        assert mover.places(late) == {OWN}
        private.commit(config_map("third"))
        await far.until(places["prod"], "third")
        in_dev = ([("ConfigMap", "map-0")], [])
        assert await history_dev.changes() == in_dev
        assert await history_prod.changes() == ([("ConfigMap", "settings")] * 2, [])
        await tenant.delete("late")
        await far.until(places["prod"], None)
        assert await history_dev.changes() == in_dev
