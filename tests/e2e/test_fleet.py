"""The fleet grows while the product runs: by an instance, and by an engine cluster with agents of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from services.cli.fleet import engine_clusters
from services.cli.installation.rbac import KINDS, placed
from services.common.kubernetes import KubeClient
from services.common.package_data import RBAC
from tests.component.agent.conftest import until
from tests.component.agent.worker import AGENT, Worker
from tests.e2e.operators import (
    add_ready_instance,
    listed,
    of_clusters,
    of_instances,
    sole_instance,
    typed,
    until_drained,
    until_seen,
)
from tests.e2e.tenant import Tenant, condition, create_namespace, path

AGENTS = ("agent-1", "agent-2")
SIMULATOR = "devstack.argocd_simulator"
HERE, ELSEWHERE = "default", "elsewhere"
WORKSPACE = "local"


@asynccontextmanager
async def added(stack: HostedStack, cluster: str, name: str) -> AsyncIterator[None]:
    """An instance of ``cluster`` that alone takes new tenants meanwhile, and none afterwards."""
    ordered = await asyncio.to_thread(of_clusters, stack, "add", cluster)
    assert ordered.exit_code == 0, ordered.output
    await add_ready_instance(stack, name, "--cluster", cluster)
    try:
        with sole_instance(stack, name):
            yield
    finally:
        assert of_instances(stack, "drain", name).exit_code == 0


@pytest.fixture
async def namespace(stack: HostedStack, kube: KubeClient, tmp_path: Path) -> AsyncIterator[str]:
    """An engine namespace where agents have their rights, and the simulator is Argo CD."""
    name = f"gitops-service-argocd-{uuid.uuid4().hex[:6]}"
    await create_namespace(kube, name)
    for manifest in placed(RBAC, [name]):
        if manifest["metadata"].get("namespace") == name:
            await kube.apply_object(KINDS[manifest["kind"]], manifest, field_manager="tests")
    given = {"ENGINE_NAMESPACES": name, "KUBECONFIG": stack.environment["KUBECONFIG"]}
    simulator = Worker(given, tmp_path / "simulator.log", SIMULATOR)
    yield name
    simulator.kill()


@pytest.fixture
def elsewhere(stack: HostedStack) -> dict[str, str]:
    """What an agent of another engine cluster is given that other agents are not: the cluster is added."""
    password = uuid.uuid4().hex
    environment = stack.environment | {"KAFKA_PASSWORD_AGENT_ELSEWHERE": password}
    added = CliRunner(env=environment).invoke(engine_clusters.app, ["add", ELSEWHERE])
    assert added.exit_code == 0, added.output
    return {"ENGINE_CLUSTER": ELSEWHERE, "KAFKA_USERNAME": f"agent-{ELSEWHERE}", "KAFKA_PASSWORD": password}


@pytest.fixture
def start_agent(stack: HostedStack, tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Worker]]:
    """Starts an agent; what it is given takes the place of what the stack's are."""
    with ExitStack() as started:

        def start(own: dict[str, str]) -> Worker:
            given = stack.environment_of("agent") | {"HEALTH_INTERVAL_SECONDS": "2"} | own
            agent = Worker(given, tmp_path / "agent.log", AGENT)
            started.callback(agent.kill)
            until(lambda: agent.is_ready)
            return agent

        yield start


def refused(stack: HostedStack) -> list[str]:
    """The rows that agents of the stack have refused."""
    lines = [line for agent in AGENTS for line in stack.state.log(agent).read_text().splitlines()]
    return [line for line in lines if "row refused" in line]


async def test_instance_when_it_is_added_while_agents_run_then_tenants_are_served_there_and_no_process_is_restarted(
    stack: HostedStack, tenant: Tenant, namespace: str
) -> None:
    before = await asyncio.to_thread(stack.pids)
    async with added(stack, HERE, namespace):
        created = await tenant.create()
        application = await tenant.application_of(created)
    assert application["metadata"]["namespace"] == namespace
    await tenant.until_status("it is synced", sync__status="Synced")
    assert await asyncio.to_thread(stack.pids) == before
    await tenant.leave()  # while its engine runs


async def test_cluster_when_its_agents_join_then_its_tenants_are_served_by_them_alone(
    stack: HostedStack,
    tenant: Tenant,
    namespace: str,
    elsewhere: dict[str, str],
    start_agent: Callable[[dict[str, str]], Worker],
) -> None:
    """No agent of another cluster can read its rows, let alone refuse them."""
    before = len(await asyncio.to_thread(refused, stack))
    agent = await asyncio.to_thread(start_agent, elsewhere)
    async with added(stack, ELSEWHERE, namespace):
        created = await tenant.create()
        application = await tenant.application_of(created)
    assert application["metadata"]["namespace"] == namespace
    await tenant.until_status("it is synced", sync__status="Synced")
    assert agent.instances == [namespace]

    assert condition(tenant.status(), "ErrorOccurred").get("status") != "True"
    assert len(await asyncio.to_thread(refused, stack)) == before
    await tenant.leave()  # while its engine and its agent run
    await until_drained(stack, namespace)


async def test_cluster_when_its_agent_is_killed_then_tenants_of_the_other_notice_nothing_and_its_own_wait_for_it(
    stack: HostedStack,
    tenant: Tenant,
    other_tenant: Tenant,
    namespace: str,
    elsewhere: dict[str, str],
    start_agent: Callable[[dict[str, str]], Worker],
) -> None:
    agent = await asyncio.to_thread(start_agent, elsewhere)
    async with added(stack, ELSEWHERE, namespace):
        created = await tenant.create()
        await tenant.application_of(created)
    agent.kill()
    await tenant.patch("web", path("since"))
    here = await other_tenant.application_of(await other_tenant.create())
    assert here["metadata"]["namespace"] != namespace
    await other_tenant.until_status("it is synced", sync__status="Synced")
    assert (await tenant.application_of(created))["spec"]["source"]["path"] != "since"

    await asyncio.to_thread(start_agent, elsewhere)
    await tenant.until_path(created, "since")
    await tenant.leave()  # while its engine and its agent run
    await until_drained(stack, namespace)


async def test_instance_when_its_namespace_is_mistyped_then_no_tenant_is_placed_on_it_and_operators_are_told_why(
    stack: HostedStack, tenant: Tenant
) -> None:
    mistyped = f"gitops-service-argocd-{uuid.uuid4().hex[:6]}"
    told = await typed(stack, "add", mistyped)
    assert told.startswith(f"{mistyped}: accepted, it takes tenants once its agent tells that it works: ")
    try:
        (shown,) = await until_seen(lambda: listed(stack, "show", mistyped), lambda rows: rows[0]["health"] == "Down")
        assert (shown["state"], shown["reason"]) == ("provisioning", "Closed")
        waited = await asyncio.to_thread(of_instances, stack, "wait", mistyped, "--timeout", "1")
        assert f"it is provisioning: in namespace {mistyped} it is Down, Closed: its namespace is not there" in str(
            waited.exception
        )
        application = await tenant.application_of(await tenant.create())
        assert application["metadata"]["namespace"] != mistyped
    finally:
        await typed(stack, "retire", mistyped)


@pytest.fixture
async def canary(stack: HostedStack, namespace: str) -> AsyncIterator[str]:
    """An instance of ring canary; tenants of the stack's workspace are placed on none else meanwhile."""
    await add_ready_instance(stack, namespace, "--ring", "canary")
    assigned = of_instances(stack, "assign", WORKSPACE, "--ring", "canary")
    assert assigned.exit_code == 0, assigned.output
    yield namespace
    assert of_instances(stack, "unassign", WORKSPACE).exit_code == 0
    assert of_instances(stack, "drain", namespace).exit_code == 0


async def test_tenant_when_its_workspace_is_assigned_to_a_ring_and_it_is_pinned_then_it_is_placed_there_and_stays(
    stack: HostedStack, tenant: Tenant, canary: str
) -> None:
    created = await tenant.create()
    assert (await tenant.application_of(created))["metadata"]["namespace"] == canary
    await tenant.until_status("it is synced", sync__status="Synced")

    def ordered(*arguments: str) -> str:
        return of_instances(stack, *arguments).output.strip()

    name, other = f"{WORKSPACE}/{tenant.namespace}", ENGINE_NAMESPACES[0]
    assert await asyncio.to_thread(ordered, "pin", tenant.namespace) == f"{name}: accepted"
    pinned = f"{name}: refused, tenant {name} is pinned to engine instance {canary}: 'gitopsctl engines unpin' it first"
    move = ("move", tenant.namespace, "--to", other)
    assert await asyncio.to_thread(ordered, *move) == pinned
    assert await asyncio.to_thread(ordered, "unpin", tenant.namespace) == f"{name}: accepted"
    outside = f"{name}: refused, ring of engine instance {other} is 'general', not 'canary'"
    assert await asyncio.to_thread(ordered, *move) == outside
    nowhere = f"{WORKSPACE}: refused, there is no region 'mars'"  # others are named, if another test has made one
    assert (await asyncio.to_thread(ordered, "assign", WORKSPACE, "--region", "mars")).startswith(nowhere)
    await tenant.leave()  # while its engine runs
