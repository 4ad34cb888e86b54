"""Rights that were just given: an API server's authorizer learns of them by a watch, so some time after the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import product

from services.common.kubernetes import KubeClient, Manifest

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
DEADLINE_SECONDS = 30


async def until_granted(
    kube: KubeClient, user: str, rules: Iterable[Manifest], namespace: str = "", *, name: str = ""
) -> None:
    """Wait until ``user`` may do everything that ``rules`` allow, everywhere or in one namespace, with one name."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        for rule in rules:
            for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                place = {"namespace": namespace, "name": name}
                while not await _may(kube, user, {"group": group, "verb": verb} | place, resource):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)


async def _may(kube: KubeClient, user: str, attributes: Manifest, resource: str) -> bool:
    plural, _, subresource = resource.partition("/")
    attributes = attributes | {"resource": plural, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    return bool((await kube._call("POST", REVIEWS, body=review))["status"]["allowed"])
