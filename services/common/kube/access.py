"""May we? Asked of the API server before the work begins, so that a missing right is not found out later."""

from __future__ import annotations

from services.common.kube.client import KubeClient
from services.common.kube.resources import Resource
from services.common.ownership import FIELD_MANAGER

ACCESS_REVIEW = Resource("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews")


async def is_allowed(
    client: KubeClient, verb: str, resource: Resource, *, namespace: str = "", subresource: str = ""
) -> bool:
    """Whether our own account has the right; without ``namespace`` in all of them.

    Raises Refused if it may not even ask, Retry if the API server does not answer.
    """
    attributes = {
        "group": resource.group,
        "resource": resource.plural,
        "subresource": subresource,
        "namespace": namespace,
        "verb": verb,
    }
    review = {
        "apiVersion": ACCESS_REVIEW.api_version,
        "kind": ACCESS_REVIEW.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(ACCESS_REVIEW, review, field_manager=FIELD_MANAGER)
    return bool(answer.get("status", {}).get("allowed"))
