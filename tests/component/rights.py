"""Service accounts with rights that were just given.

An API server's authorizer learns of rights by a watch, so some time after the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import yaml

from services.common.kubernetes import ApiResource, KubeClient, Manifest

SERVICE_ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
DEADLINE_SECONDS = 60


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


async def token_of(kube: KubeClient, namespace: str, account: str) -> str:
    """A token of a service account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await kube._call("POST", SERVICE_ACCOUNT.path(namespace, account, "token"), body=request)
    return str(answer["status"]["token"])


def kubeconfig_with(token: str, kubeconfig: Path, folder: Path) -> Path:
    """A copy of ``kubeconfig`` in ``folder`` with these credentials alone."""
    config = yaml.safe_load(kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
