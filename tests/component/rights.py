"""Rights that were just given: an API server's authorizer learns of them by a watch, so some time after the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import product

from services.common.kubernetes import KubeClient, Manifest

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
DEADLINE_SECONDS = 30


async def until_granted(kube: KubeClient, user: str, rules: Iterable[Manifest], namespace: str = "") -> None:
    """Wait until ``user`` may do everything that ``rules`` allow, everywhere or in one namespace."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        for rule in rules:
            for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                while not await _may(kube, user, group, resource, verb, namespace):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)


async def _may(kube: KubeClient, user: str, group: str, resource: str, verb: str, namespace: str) -> bool:
    plural, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": plural, "subresource": subresource, "verb": verb, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    return bool((await kube._call("POST", REVIEWS, body=review))["status"]["allowed"])
