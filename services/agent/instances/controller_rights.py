"""What an application controller may make in its own cluster that no tenant's repository may hold.

Argo CD deploys there with these rights, so whoever commits to a repository has them. ``k8s/argocd/rights`` has what
they should be; what they are, the API server is asked.
"""

from __future__ import annotations

from services.common.kubernetes import ApiResource, KubeClient
from services.common.ownership import FIELD_MANAGER

REVIEW = ApiResource("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
"""Local: asked in the controller's own namespace, where what it may do in all namespaces holds, too."""
RBAC = "rbac.authorization.k8s.io"
REFUSED = (
    (RBAC, "roles"),
    (RBAC, "rolebindings"),
    ("", "resourcequotas"),
    ("", "limitranges"),
    ("networking.k8s.io", "networkpolicies"),
)
"""Group and resource."""


async def excessive_rights(cluster: KubeClient, namespace: str, account: str) -> tuple[str, ...]:
    """What ``account`` may create of that. Raises what the client does."""
    return tuple(
        [resource for group, resource in REFUSED if await _may_create(cluster, namespace, account, group, resource)]
    )


async def _may_create(cluster: KubeClient, namespace: str, account: str, group: str, resource: str) -> bool:
    accounts = "system:serviceaccounts"
    review = {
        "apiVersion": REVIEW.api_version,
        "kind": REVIEW.kind,
        "metadata": {"namespace": namespace},
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{account}",
            "groups": [accounts, f"{accounts}:{namespace}", "system:authenticated"],
            "resourceAttributes": {"verb": "create", "group": group, "resource": resource, "namespace": namespace},
        },
    }
    answer = await cluster.create_object(REVIEW, review, field_manager=FIELD_MANAGER)
    return bool(answer.get("status", {}).get("allowed"))
