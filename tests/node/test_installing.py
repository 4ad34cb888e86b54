"""What k8s/README.md tells an operator to type, typed: each command in order, nothing else, until pods are ready.

The cluster has nothing of ours before; topics, schemas and the database are those of the stack.
"""

from __future__ import annotations

from pathlib import Path

from devstack.harness.hosted import HostedStack
from tests.component.k8s.readme import carry_out, commands, secrets_of_the_table
from tests.e2e.tenant import Tenant
from tests.node.kubectl import OURS, Kubectl

BROUGHT = {"kafka-watcher", "kafka-planner", "kafka-agent", "database-planner", "database-owner"}
"""Of the README's table, without the keys, which have commands of their own, and what belongs to TLS."""


async def test_installation_when_every_command_is_typed_then_pods_are_ready_and_deploy(
    stack: HostedStack, kubectl: Kubectl, tenant: Tenant, tmp_path: Path
) -> None:
    brought = [
        kubectl.get("secret", f"--namespace={OURS}", name) for name in sorted(BROUGHT & secrets_of_the_table().keys())
    ]
    node = stack.state.root / "node"
    kubectl.run("delete", f"--kustomize={node / 'overlay'}", "--timeout=120s", seconds=130)
    (tmp_path / "k8s").symlink_to(node / "k8s")
    environment = stack.environment | {"O": str(node / "overlay")}
    for command in commands("Installing"):
        if "create secret generic …" in command:  # an ellipsis: what the operator brings
            kubectl.apply(*(_as_typed(secret) for secret in brought))
        else:
            carry_out(command, tmp_path, environment, kubectl.program)
    for name in ("watcher", "planner", "agent", "connector-keeper"):
        kubectl.run("rollout", "status", f"--namespace={OURS}", f"deployment/{name}", "--timeout=200s", seconds=210)
    await tenant.application_of(await tenant.create())


def _as_typed(secret: dict[str, object]) -> dict[str, object]:
    """Without what the API server adds."""
    metadata = secret["metadata"]
    assert isinstance(metadata, dict)
    own = {"name": metadata["name"], "namespace": OURS}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": own, "data": secret["data"]}
