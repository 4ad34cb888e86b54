"""The step that installs Argo CD on the node, as operators do, and waits until every pod of it is ready."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from devstack.node.commands import run

WORKLOADS = ("deployment/argocd-redis", "deployment/argocd-repo-server", "statefulset/argocd-application-controller")
READY_SECONDS = 240


def main() -> None:
    """Install from the folder that the command line names into the namespaces that it names next."""
    kubectl, folder, *namespaces = sys.argv[1:]
    passwords = [redis_password(namespace, os.environ["REDIS_PASSWORD"]) for namespace in namespaces]
    listed = {"apiVersion": "v1", "kind": "List", "items": passwords}
    run(kubectl, "apply", "--server-side", "-f", "-", given=json.dumps(listed))
    run(kubectl, "apply", "--server-side", "--force-conflicts", "-k", folder)
    for namespace in namespaces:
        for workload in WORKLOADS:
            run(kubectl, "-n", namespace, "rollout", "status", workload, f"--timeout={READY_SECONDS}s")


def redis_password(namespace: str, password: str) -> dict[str, Any]:
    """The Secret that Argo CD's pods take it from."""
    metadata = {"name": "argocd-redis", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"auth": password}}


if __name__ == "__main__":
    main()
