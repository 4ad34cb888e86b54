"""Makes a namespace of the workspace's own cluster for each claim that waits, and a target that leads there.

The contract is docs/operations/provisioners.md. It is level-based: what the topic and the API server say is compared
with what shall be, names follow from the claim's uid, and what is there already is left alone. So a provisioner that
was killed at any point goes on where it was, two of them make one target, and what has failed is tried again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from examples.provisioner.topic import ClaimKey, Topic
from services.common.errors import Permanent, Retry, Wait
from services.common.kubernetes import (
    NAMESPACE,
    SECRET,
    AlreadyExists,
    ApiResource,
    KubeClient,
    Manifest,
    NamespaceTerminating,
    NotFound,
)
from services.common.messages import PendingClaim

log = structlog.get_logger(__name__)

GROUP, VERSION = "appstudio.redhat.com", "v1alpha1"
CLAIM = ApiResource(GROUP, VERSION, "DeploymentTargetClaim", "deploymenttargetclaims")
TARGET = ApiResource(GROUP, VERSION, "DeploymentTarget", "deploymenttargets")
PROVISIONED_BY = "provisioner.appstudio.redhat.com/provisioned-by"
CLAIM_UID = "provisioner.appstudio.redhat.com/claim-uid"
"""Annotation of a target: no claim but this one gets it, whatever its name."""

NAME = "example.com/namespaces"
"""What classes name as their provisioner that want this one."""
MADE_HERE = {"example.com/provisioner": "namespaces"}
"""Label of the namespaces that it makes."""
MADE_FOR = "example.com/claim"
"""Annotation of such a namespace: its claim. Tenants can write their targets, but not this."""
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Provisioner:
    """Serves one workspace cluster."""

    kube: KubeClient
    workspace: str
    api_url: str
    kubeconfig: str
    """What opens the cluster. A real one makes an account for each namespace, which can do nothing elsewhere."""
    every_seconds: float = 10.0
    """How often all of it is looked at again: what has failed, and namespaces whose target is gone."""
    rows: dict[ClaimKey, PendingClaim] = field(default_factory=dict)
    """Of the topic, of this cluster."""

    async def run(self, topic: Topic) -> None:
        """For ever."""
        self._take_in(topic.read_all())
        looked_at = float("-inf")
        while True:
            changed = self._take_in(topic.read_news())
            if time.monotonic() - looked_at >= self.every_seconds:
                changed, looked_at = await self._all_of_it(), time.monotonic()
            for key in sorted(changed):
                await self._try(key)
            await asyncio.sleep(LOOK_SECONDS)

    async def serve_claim(self, key: ClaimKey) -> None:
        """Make what is wanted for a claim, or take back what is not wanted any more."""
        row = self.rows.get(key)
        is_there = await self._find(CLAIM, key.namespace, key.name, uid=key.uid) is not None
        if row is not None and (row.state, row.provisioner) == ("wanted", NAME) and is_there:
            await self._make_target(key, row)
        elif _is_there(await self._find(NAMESPACE, None, space_of(key))):
            await self._take_back(key, has_target=row is None and is_there)

    async def _make_target(self, key: ClaimKey, row: PendingClaim) -> None:
        """A namespace, a Secret that opens it, and the target, in this order: with the last one the claim is bound."""
        meta = {"name": space_of(key), "labels": MADE_HERE, "annotations": {MADE_FOR: json.dumps(key)}}
        space = await self._make(NAMESPACE, meta)
        if not _is_there(space):
            raise NamespaceTerminating(f"{space_of(key)} is still being taken back")
        login = {"type": "Opaque", "data": {"kubeconfig": base64.b64encode(self.kubeconfig.encode()).decode()}}
        await self._make(SECRET, {"name": login_of(key), "namespace": key.namespace}, login)
        annotations = {PROVISIONED_BY: NAME, CLAIM_UID: key.uid}
        meta = {"name": target_of(key), "namespace": key.namespace, "annotations": annotations}
        credentials = {
            "defaultNamespace": space_of(key),
            "apiURL": self.api_url,
            "clusterCredentialsSecret": login_of(key),
            "allowInsecureSkipTLSVerify": False,
        }
        spec = {"deploymentTargetClassName": row.class_name, "claimRef": key.name, "kubernetesCredentials": credentials}
        await self._make(TARGET, meta, {"spec": spec})

    async def _take_back(self, key: ClaimKey, *, has_target: bool) -> None:
        """A target goes that its claim never had, and the namespace once the target is gone.

        ``has_target``: the claim is there and does not wait: the target is its own, whatever its status says yet.
        """
        target = await self._find(TARGET, key.namespace, target_of(key))
        if target is None:
            for kind, namespace, name in ((SECRET, key.namespace, login_of(key)), (NAMESPACE, None, space_of(key))):
                with suppress(NotFound):
                    await self.kube.delete_object(kind, namespace, name)
        elif not has_target and target["spec"].get("claimRef") == key.name and _phase(target) != "Bound":
            meta = target["metadata"]
            version = int(meta["resourceVersion"])
            await self.kube.delete_object(TARGET, key.namespace, meta["name"], uid=meta["uid"], version=version)

    def _take_in(self, news: Mapping[ClaimKey, PendingClaim | None]) -> set[ClaimKey]:
        """Returns what is news for this cluster."""
        ours = {key: row for key, row in news.items() if key.workspace == self.workspace}
        for key, row in ours.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row
        return {*ours}

    async def _all_of_it(self) -> set[ClaimKey]:
        """The claims that wait for it, and those for which there is a namespace."""
        pages = self.kube.list_pages(NAMESPACE, selector=",".join("=".join(each) for each in MADE_HERE.items()))
        spaces = [each async for page in pages for each in page.items]
        served = {ClaimKey(*json.loads(each["metadata"]["annotations"][MADE_FOR])) for each in spaces}
        return served | {key for key, row in self.rows.items() if row.provisioner == NAME}

    async def _try(self, key: ClaimKey) -> None:
        """What is wrong with one claim holds up no other."""
        try:
            await self.serve_claim(key)
        except (Permanent, Retry, Wait) as error:
            log.warning("will be tried again", namespace=key.namespace, claim=key.name, error=str(error))

    async def _find(self, kind: ApiResource, namespace: str | None, name: str, uid: str = "") -> Manifest | None:
        with suppress(NotFound):
            found = await self.kube.get_object(kind, namespace, name)
            return found if uid in {"", found["metadata"]["uid"]} else None
        return None

    async def _make(self, kind: ApiResource, meta: Manifest, content: Mapping[str, object] | None = None) -> Manifest:
        """The object, which may be there already."""
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        with suppress(AlreadyExists):
            return await self.kube.create_object(kind, typed | dict(content or {}), field_manager=NAME)
        return await self.kube.get_object(kind, meta.get("namespace"), meta["name"])


def _is_there(space: Manifest | None) -> bool:
    return space is not None and not space["metadata"].get("deletionTimestamp")


def _phase(target: Manifest) -> str:
    return str((target.get("status") or {}).get("phase", ""))


def space_of(key: ClaimKey) -> str:
    """Name of the namespace that is made for a claim: of a uid alone, which no tenant can choose."""
    return f"target-{_digest(key)}"


def target_of(key: ClaimKey) -> str:
    """Name of its target."""
    return f"{key.name}-{_digest(key)}"


def login_of(key: ClaimKey) -> str:
    """Name of the Secret that opens it."""
    return f"{target_of(key)}-login"


def _digest(key: ClaimKey) -> str:
    return hashlib.sha256(f"{key.workspace}/{key.uid}".encode()).hexdigest()[:16]
