"""Our pods speak to brokers, registry, database and Connect encrypted, by the Secrets that k8s/README.md names.

That servers let nobody in otherwise: tests/stack/test_transport.py. That what goes through them arrives: every test
here that deploys something.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.harness.hosted import HostedStack
from tests.component.k8s.readme import carry_out, commands, secrets_of_the_table
from tests.node.kubectl import OURS, Kubectl, endings, restarts, until
from tests.node.load import our_pods
from tests.stack.encrypted import connections

OF_BACKUPS = {"database-backup", "backup-store"}


def test_pods_when_nothing_travels_in_clear_then_they_run_by_the_manifests_as_they_are(kubectl: Kubectl) -> None:
    pods = [*our_pods(kubectl), *kubectl.pods_of("connector-keeper")]
    assert {restarts(pod) for pod in pods} == {0}
    brought = {secret["metadata"]["name"] for secret in kubectl.get("secrets", f"--namespace={OURS}")["items"]}
    assert secrets_of_the_table().keys() - OF_BACKUPS <= brought
    (config,) = {
        source["configMapRef"]["name"]
        for pod in our_pods(kubectl)
        for source in pod["spec"]["containers"][0]["envFrom"]
        if source["configMapRef"]["name"].startswith("services-")
    }
    settings = kubectl.get("configmap", f"--namespace={OURS}", config)["data"]
    assert settings["KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
    assert settings["SCHEMA_REGISTRY_URL"].startswith("https://")


def test_database_when_pods_are_connected_then_each_connection_is_encrypted(stack: HostedStack) -> None:
    assert connections(stack) == {"postgres": True, "gitops_planner": True, "gitops_replication": True}


def test_migration_when_it_runs_as_a_pod_then_it_trusts_the_authority_of_its_secret(
    stack: HostedStack, kubectl: Kubectl
) -> None:
    folder = stack.state.root / "node"
    environment = stack.environment | {"O": str(folder / "overlay")}
    for command in (command for command in commands("Installing") if "migration" in command or "wait" in command):
        carry_out(command, folder, environment, kubectl.program)
    said = kubectl.run("logs", f"--namespace={OURS}", "job/database-upgrade")
    assert said.startswith("database: ")


@pytest.fixture
def _another_authority(kubectl: Kubectl) -> Iterator[None]:
    """The database's is, as far as new pods know, the one that signs for Connect."""
    right = kubectl.get("secret", f"--namespace={OURS}", "database-ca")["data"]
    wrong = {"ca.crt": kubectl.get("secret", f"--namespace={OURS}", "connector-keeper")["data"]["ca.crt"]}
    replace_data(kubectl, "database-ca", wrong)
    yield
    replace_data(kubectl, "database-ca", right)
    kubectl.run("rollout", "undo", f"--namespace={OURS}", "deployment/planner")


@pytest.mark.usefixtures("_another_authority")
async def test_pod_when_the_databases_authority_is_another_then_it_says_so_and_the_old_pods_stay(
    kubectl: Kubectl,
) -> None:
    before = {pod["metadata"]["uid"] for pod in kubectl.pods_of("planner")}
    kubectl.run("rollout", "restart", f"--namespace={OURS}", "deployment/planner")
    await until("the new pod has ended", lambda: said_at_its_end(kubectl, before) != "")
    assert "certificate verify failed" in said_at_its_end(kubectl, before)
    assert before <= {pod["metadata"]["uid"] for pod in kubectl.pods_of("planner")}


def replace_data(kubectl: Kubectl, name: str, data: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": OURS}
    kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def said_at_its_end(kubectl: Kubectl, before: set[str]) -> str:
    """By a planner that was not there before; nothing if none has ended."""
    new = [pod for pod in kubectl.pods_of("planner") if pod["metadata"]["uid"] not in before]
    return next((str(ending.get("message")) for pod in new for ending in endings(pod)), "")
