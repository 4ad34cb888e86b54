"""What an application controller may write in its own cluster, and no tenant's repository may contain.

Argo CD deploys there with the controller's rights, so anybody who commits to a repository has them.
``k8s/argocd/rights`` contains the right ones; the API server is asked for the actual ones. Rights that are bound in a
tenant's namespace only are not seen: the agent has no right to ask about these.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.common.argocd_names import GROUP
from services.common.kubernetes import ApiResource, KubeClient
from services.common.ownership import FIELD_MANAGER

REVIEW = ApiResource("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
"""Local: asked in the controller's own namespace, where rights for all namespaces apply, too."""
RBAC = "rbac.authorization.k8s.io"
WRITES, MAKES = ("create", "patch", "update", "delete"), ("create",)
REFUSED = (
    (RBAC, "roles", WRITES),
    (RBAC, "rolebindings", WRITES),
    ("", "resourcequotas", WRITES),
    ("", "limitranges", WRITES),
    ("networking.k8s.io", "networkpolicies", WRITES),
    # Of those that agents have made it writes operation and status.
    (GROUP, "applications", MAKES),
    (GROUP, "appprojects", MAKES),
)
"""Group, resource, and verbs that the controller must not have."""


async def excessive_rights(cluster: KubeClient, namespace: str, account: str) -> tuple[str, ...]:
    """Which of these rights ``account`` has. Raises what the client raises."""
    return tuple(
        [
            resource
            for group, resource, verbs in REFUSED
            if await _may_any(cluster, namespace, account, {"group": group, "resource": resource}, verbs)
        ]
    )


async def _may_any(
    cluster: KubeClient, namespace: str, account: str, attributes: dict[str, str], verbs: Iterable[str]
) -> bool:
    for verb in verbs:
        if await _may(cluster, namespace, account, attributes | {"verb": verb}):
            return True
    return False


async def _may(cluster: KubeClient, namespace: str, account: str, attributes: dict[str, str]) -> bool:
    accounts = "system:serviceaccounts"
    review = {
        "apiVersion": REVIEW.api_version,
        "kind": REVIEW.kind,
        "metadata": {"namespace": namespace},
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{account}",
            "groups": [accounts, f"{accounts}:{namespace}", "system:authenticated"],
            "resourceAttributes": {**attributes, "namespace": namespace},
        },
    }
    answer = await cluster.create_object(REVIEW, review, field_manager=FIELD_MANAGER)
    return bool(answer.get("status", {}).get("allowed"))
