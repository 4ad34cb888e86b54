"""The step that installs our services on the node: their Secrets, then the overlay, then until every pod is ready."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devstack.node.commands import run

NAMESPACE = "gitops-service"
DEPLOYMENTS = ("watcher", "planner", "agent", "connector-keeper")
READY_SECONDS = 240


def main() -> None:
    """Install from the folder that the command line names, with what the environment tells of the stack."""
    kubectl, folder = sys.argv[1], Path(sys.argv[2])
    run(kubectl, "apply", "--server-side", "-f", str(folder / "k8s" / "base" / "namespace.yaml"))
    run(kubectl, "apply", "--server-side", "-f", "-", given=json.dumps(secrets(os.environ)))
    run(kubectl, "apply", "--server-side", "-k", str(folder / "overlay"))
    for name in DEPLOYMENTS:
        run(kubectl, "-n", NAMESPACE, "rollout", "status", f"deployment/{name}", f"--timeout={READY_SECONDS}s")


def secrets(environment: Mapping[str, str]) -> dict[str, Any]:
    """What k8s/README.md lists; what belongs to TLS where the stack has it."""
    contents = {
        "kafka-watcher": {"password": environment["POD_KAFKA_PASSWORD_WATCHER"]},
        "kafka-planner": {"password": environment["POD_KAFKA_PASSWORD_PLANNER"]},
        "kafka-agent": {"password": environment["POD_KAFKA_PASSWORD_AGENT"]},
        "database-planner": {"url": environment["POD_DATABASE_URL_PLANNER"]},
        "database-owner": {"url": environment["POD_DATABASE_URL_OWNER"]},
        "sealing-keys-private": {"keys.json": Path(environment["SEALING_PRIVATE_KEYS"]).read_text()},
        "sealing-keys-public": {"keys.json": Path(environment["SEALING_PUBLIC_KEYS"]).read_text()},
    }
    contents |= _of_tls(environment) if "KAFKA_CA" in environment else {}
    return {"apiVersion": "v1", "kind": "List", "items": [_secret(name, data) for name, data in contents.items()]}


def _of_tls(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Brokers, registry and database have one authority; Connect has its own."""
    authority = {"ca.crt": Path(environment["KAFKA_CA"]).read_text()}
    keeper = {"tls.crt": "CONNECT_CERTIFICATE", "tls.key": "CONNECT_KEY", "ca.crt": "CONNECT_CA"}
    return {
        **dict.fromkeys(("kafka-ca", "registry-ca", "database-ca"), authority),
        **{
            f"registry-{service}": {"token": environment[f"POD_REGISTRY_TOKEN_{service.upper()}"]}
            for service in ("watcher", "planner", "agent")
        },
        "connector-keeper": {key: Path(environment[name]).read_text() for key, name in keeper.items()},
    }


def _secret(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(data)}


if __name__ == "__main__":
    main()
