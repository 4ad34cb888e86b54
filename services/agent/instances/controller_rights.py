"""What an application controller may write in its own cluster that no tenant's repository may hold.

Argo CD deploys there with these rights, so whoever commits to a repository has them. ``k8s/argocd/rights`` has what
they should be; what they are, the API server is asked. Rights that are bound in a tenant's namespace alone are not
seen: about these an agent may not ask.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.common.argocd_names import GROUP
from services.common.kubernetes import ApiResource, KubeClient
from services.common.ownership import FIELD_MANAGER

REVIEW = ApiResource("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
"""Local: asked in the controller's own namespace, where what it may do in all namespaces holds, too."""
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
"""Group, resource, and the verbs that it may have none of."""


async def excessive_rights(cluster: KubeClient, namespace: str, account: str) -> tuple[str, ...]:
    """What ``account`` may write of that. Raises what the client does."""
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
