"""The toolchain's controller of SpaceRequests: makes a namespace for each, and a Secret that opens it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from devstack.appstudio.serving import serve_each
from services.common.kubernetes import (
    NAMESPACE,
    SECRET,
    AlreadyExists,
    ApiResource,
    KubeClient,
    Manifest,
    NotFound,
)
from services.kinds.space_request.model import SPACE_REQUEST

FIELD_MANAGER = "toolchain-host-operator"
FINALIZER = "finalizer.toolchain.dev.openshift.com"
TIME = "2026-01-01T00:00:00Z"
PROVISIONED = {"type": "Ready", "status": "True", "reason": "Provisioned", "lastTransitionTime": TIME}
PROVISIONING = {"type": "Ready", "status": "False", "reason": "Provisioning", "lastTransitionTime": TIME}
STUCK = {"type": "Ready", "status": "False", "reason": "UnableToTerminate", "lastTransitionTime": TIME}


@dataclass
class SpaceRequestController:
    """Serves the SpaceRequests of one namespace."""

    kube: KubeClient
    namespace: str
    api_url: str
    """Of the cluster that namespaces are made in."""
    kubeconfig: str
    """What opens it."""
    elsewhere: KubeClient | None = None
    """Speaks to it; None: it is the one that ``kube`` speaks to."""
    hangs: bool = False
    """Nothing is ever ready."""
    refuses_to_terminate: bool = False
    """What was made stays, and it says so."""

    async def run(self) -> None:
        """For ever."""
        await serve_each(self.kube, SPACE_REQUEST, self.namespace, self._serve)

    async def _serve(self, request: Manifest) -> None:
        meta = request["metadata"]
        if meta.get("deletionTimestamp"):
            await self._terminate(request)
        elif FINALIZER not in meta.get("finalizers", ()):
            await self._patch(request, {"metadata": {"finalizers": [*meta.get("finalizers", ()), FINALIZER]}})
        elif self.hangs:
            await self._say(request, {"conditions": [PROVISIONING]})
        else:
            await self._provision(request)

    async def _provision(self, request: Manifest) -> None:
        name = request["metadata"]["name"]
        made, secret = made_for(self.namespace, name), f"{name}-kubeconfig"
        await self._make(self._spaces, NAMESPACE, None, made)
        data = {"kubeconfig": base64.b64encode(self.kubeconfig.encode()).decode()}
        await self._make(self.kube, SECRET, self.namespace, secret, type="Opaque", data=data)
        access = [{"name": made, "secretRef": secret}]
        status = {"conditions": [PROVISIONED], "namespaceAccess": access, "targetClusterURL": self.api_url}
        await self._say(request, status)

    async def _terminate(self, request: Manifest) -> None:
        if self.refuses_to_terminate:
            await self._say(request, {"conditions": [STUCK]})
            return
        name, finalizers = request["metadata"]["name"], request["metadata"].get("finalizers", ())
        for kube, resource, namespace, made in (
            (self._spaces, NAMESPACE, None, made_for(self.namespace, name)),
            (self.kube, SECRET, self.namespace, f"{name}-kubeconfig"),
        ):
            with suppress(NotFound):
                await kube.delete_object(resource, namespace, made)
        await self._patch(request, {"metadata": {"finalizers": [each for each in finalizers if each != FINALIZER]}})

    @property
    def _spaces(self) -> KubeClient:
        return self.elsewhere or self.kube

    @staticmethod
    async def _make(
        kube: KubeClient, resource: ApiResource, namespace: str | None, name: str, **content: object
    ) -> None:
        meta = {"name": name} | ({"namespace": namespace} if namespace else {})
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta} | content
        with suppress(AlreadyExists):
            await kube.create_object(resource, manifest, field_manager=FIELD_MANAGER)

    async def _say(self, request: Manifest, status: Mapping[str, object]) -> None:
        shown = request.get("status") or {}
        if any(shown.get(name) != part for name, part in status.items()):
            await self._patch(request, {"status": {**status}}, "status")

    async def _patch(self, request: Manifest, patch: Manifest, subresource: str | None = None) -> None:
        meta = request["metadata"]
        bound = patch | {"metadata": (patch.get("metadata") or {}) | {"resourceVersion": meta["resourceVersion"]}}
        await self.kube.patch_object(
            SPACE_REQUEST, self.namespace, meta["name"], bound, field_manager=FIELD_MANAGER, subresource=subresource
        )


def made_for(namespace: str, request: str) -> str:
    """Name of the namespace that is made for a request."""
    return f"{namespace}-{request}"[:63].rstrip("-")
