"""Makes a namespace of the workspace's own cluster for each claim that waits, and a target that leads there.

The contract is docs/operations/provisioners.md. It is level-based: whatever is seen of a claim or a target is compared
with what shall be, names follow from the claim's, and what is there already is left alone. So a provisioner that was
killed at any point goes on where it was, and two of them make one target.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass

from services.common.kubernetes import (
    NAMESPACE,
    SECRET,
    AlreadyExists,
    ApiResource,
    Changed,
    Conflict,
    KubeClient,
    Manifest,
    NotFound,
    Seen,
    reflect,
)

GROUP, VERSION = "appstudio.redhat.com", "v1alpha1"
CLAIM = ApiResource(GROUP, VERSION, "DeploymentTargetClaim", "deploymenttargetclaims")
TARGET = ApiResource(GROUP, VERSION, "DeploymentTarget", "deploymenttargets")
CLASS = ApiResource(GROUP, VERSION, "DeploymentTargetClass", "deploymenttargetclasses")
WANTED = "provisioner.appstudio.redhat.com/dt-provisioner"
"""Annotation of a claim that waits: its class."""
PROVISIONED_BY = "provisioner.appstudio.redhat.com/provisioned-by"

NAME = "example.com/namespaces"
"""What classes name as their provisioner that want this one."""
FINALIZER = "example.com/namespace"
"""Of a target: the namespace has to go first."""


@dataclass(frozen=True)
class Provisioner:
    """Serves one workspace cluster."""

    kube: KubeClient
    api_url: str
    kubeconfig: str
    """What opens the cluster. A real one makes an account for each namespace, which can do nothing elsewhere."""

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as following:
            following.create_task(self._follow(CLAIM, self._serve_claim))
            following.create_task(self._follow(TARGET, self._serve_target))

    async def _follow(self, kind: ApiResource, serve: Callable[[Manifest], Awaitable[None]]) -> None:
        async with aclosing(reflect(self.kube, kind)) as events:
            async for event in events:
                if isinstance(event, Seen | Changed):
                    with suppress(Conflict, NotFound):  # its next state is seen, too
                        await serve(event.object)

    async def _serve_claim(self, claim: Manifest) -> None:
        """1. One that waits, and whose class names us, gets a namespace, a Secret and a target, in this order."""
        class_name = (claim["metadata"].get("annotations") or {}).get(WANTED, "")
        is_waiting = (claim.get("status") or {}).get("phase") == "Pending" and not claim["metadata"].get(
            "deletionTimestamp"
        )
        if not is_waiting or not class_name or await self._provisioner_of(class_name) != NAME:
            return
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        await self._make(NAMESPACE, {"name": space_of(namespace, name)})
        login = {"type": "Opaque", "data": {"kubeconfig": base64.b64encode(self.kubeconfig.encode()).decode()}}
        await self._make(SECRET, {"name": login_of(name), "namespace": namespace}, login)
        meta = {
            "name": f"{name}-dt",
            "namespace": namespace,
            "annotations": {PROVISIONED_BY: NAME},
            "finalizers": [FINALIZER],
        }
        await self._make(TARGET, meta, {"spec": self._target(claim, class_name)})

    async def _serve_target(self, target: Manifest) -> None:
        """2. One of ours that is being deleted goes once what was made for it has gone."""
        meta = target["metadata"]
        finalizers = meta.get("finalizers") or []
        if FINALIZER not in finalizers or not meta.get("deletionTimestamp"):
            return
        credentials = target["spec"]["kubernetesCredentials"]
        for kind, namespace, name in (
            (NAMESPACE, None, credentials["defaultNamespace"]),
            (SECRET, meta["namespace"], credentials["clusterCredentialsSecret"]),
        ):
            with suppress(NotFound):
                await self.kube.delete_object(kind, namespace, name)
        left = [each for each in finalizers if each != FINALIZER]
        patch = {"metadata": {"finalizers": left, "resourceVersion": meta["resourceVersion"]}}
        await self.kube.patch_object(TARGET, meta["namespace"], meta["name"], patch, field_manager=NAME)

    async def _provisioner_of(self, class_name: str) -> str:
        found = await self.kube.get_object(CLASS, None, class_name)
        return str(found["spec"]["provisioner"])

    def _target(self, claim: Manifest, class_name: str) -> Manifest:
        """``claimRef`` keeps it for this claim."""
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        credentials = {
            "defaultNamespace": space_of(namespace, name),
            "apiURL": self.api_url,
            "clusterCredentialsSecret": login_of(name),
            "allowInsecureSkipTLSVerify": False,
        }
        return {"deploymentTargetClassName": class_name, "claimRef": name, "kubernetesCredentials": credentials}

    async def _make(self, kind: ApiResource, meta: Manifest, content: Mapping[str, object] | None = None) -> None:
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        with suppress(AlreadyExists):
            await self.kube.create_object(kind, typed | dict(content or {}), field_manager=NAME)


def space_of(namespace: str, claim: str) -> str:
    """Name of the namespace that is made for a claim."""
    return f"{namespace}-{claim}"[:63].rstrip("-")


def login_of(claim: str) -> str:
    """Name of the Secret that opens it."""
    return f"{claim}-login"
