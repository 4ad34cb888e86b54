"""Accounts of the cluster that environments are of, each with a token: credentials may change, and go on to work."""

from __future__ import annotations

import base64

from chaos.api import ACCOUNT
from chaos.execution.api_calls import ApiCalls
from chaos.plan.random_operations import GOOD_TOKENS
from services.common.kubernetes import SECRET, ApiResource, Manifest

BINDING = ApiResource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
NAMESPACE_OF_ACCOUNTS = "default"


async def make_tokens(calls: ApiCalls) -> tuple[str, ...]:
    """Their tokens, in order."""
    return tuple([await _token(calls, f"chaos-{number}") for number in range(GOOD_TOKENS)])


async def _token(calls: ApiCalls, name: str) -> str:
    for resource, manifest in ((ACCOUNT, _account(name)), (BINDING, _binding(name)), (SECRET, _secret(name))):
        await calls.create(resource, manifest)
    # A controller fills it.
    filled = await calls.until(SECRET, NAMESPACE_OF_ACCOUNTS, name, lambda secret: "token" in secret.get("data", {}))
    return base64.b64decode(filled["data"]["token"]).decode()


def _account(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name)}


def _binding(name: str) -> Manifest:
    return {
        "apiVersion": BINDING.api_version,
        "kind": BINDING.kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": BINDING.group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE_OF_ACCOUNTS}],
    }


def _secret(name: str) -> Manifest:
    metadata = _metadata(name) | {"annotations": {"kubernetes.io/service-account.name": name}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/service-account-token"}


def _metadata(name: str) -> Manifest:
    return {"name": name, "namespace": NAMESPACE_OF_ACCOUNTS}
