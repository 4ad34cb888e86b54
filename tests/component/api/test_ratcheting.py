"""Objects stored before a rule existed: they stay usable, can be deleted, and can only become better."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from services.common.errors import GitOpsError
from services.common.kubernetes import NAMESPACE, KubeClient, Manifest, Rejected, connect
from services.common.kubernetes.builtin_kinds import CUSTOM_RESOURCE_DEFINITION, ApiResource
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.shared.definition import custom_resource_definition
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.sync_run.model import SYNC_RUN
from tests.component.api.cases import GOOD, merged

MANAGER = "tests"
FINALIZER = "example.com/hold"
LIMITS = ("x-kubernetes-validations", "maxLength", "maxItems")

OLD: dict[ApiResource, dict[str, Any]] = {
    GITOPS_DEPLOYMENT: {
        "type": "sometimes",
        "source": {
            "repoURL": "https://me:pw@git.example.com/ü".ljust(600, "a"),
            "targetRevision": "-x",
            "path": "p" * 2000,
        },
        "destination": {"namespace": "kube-system"},
        "syncPolicy": {"syncOptions": ["Replace=true"] * 11},
    },
    MANAGED_ENVIRONMENT: {"apiURL": "http://me@api.example.com/#", "namespaces": ["n" * 300]},
    REPOSITORY_CREDENTIAL: {"repository": "git@git.example.com:a/b.git".rjust(600, "g")},
    SYNC_RUN: {"revisionID": "-x"},
    ENVIRONMENT: {
        "displayName": "d" * 300,
        "unstableConfigurationFields": {
            "clusterType": "Kubernetes",
            "kubernetesCredentials": {
                "apiURL": "http://me@api.example.com/#",
                "targetNamespace": "n" * 100,
                "clusterCredentialsSecret": "s" * 300,
                "allowInsecureSkipTLSVerify": False,
            },
        },
    },
    SNAPSHOT: {"application": "a" * 100, "components": [{"name": "n" * 100, "containerImage": "i" * 2000}]},
    BINDING: {"application": "a" * 100, "environment": "e" * 100, "snapshot": "s" * 300},
    PROMOTION_RUN: {"snapshot": "s" * 300, "automatedPromotion": {"initialEnvironment": "development"}},
    DEPLOYMENT_TARGET_CLAIM: {"deploymentTargetClassName": "c" * 300, "targetName": "t" * 300},
    DEPLOYMENT_TARGET: {"kubernetesCredentials": {"apiURL": "http://me@api.example.com/#"}, "claimRef": "c" * 300},
}
"""Breaks every rule of its kind, as changes to a good spec."""

WORSE: dict[ApiResource, dict[str, Any]] = {
    GITOPS_DEPLOYMENT: {"type": "never"},
    MANAGED_ENVIRONMENT: {"apiURL": "http://other.example.com"},
    REPOSITORY_CREDENTIAL: {"repository": "http://git.example.com/c/d.git"},
    SYNC_RUN: {"revisionID": "-y"},
    ENVIRONMENT: {"displayName": "e" * 300},
    SNAPSHOT: {"application": "b" * 100},
    BINDING: {"snapshot": "t" * 300},
    PROMOTION_RUN: {"snapshot": "t" * 300},
    DEPLOYMENT_TARGET_CLAIM: {"targetName": "u" * 300},
    DEPLOYMENT_TARGET: {"kubernetesCredentials": {"apiURL": "http://other.example.com"}},
}
"""Another wrong value in place of the stored one."""

MENDED: dict[ApiResource, dict[str, Any]] = {
    GITOPS_DEPLOYMENT: {"type": "manual"},
    MANAGED_ENVIRONMENT: {"credentialsSecret": "other"},
    REPOSITORY_CREDENTIAL: {"repository": "ssh://git@git.example.com/a/b.git"},
    SYNC_RUN: {},
    ENVIRONMENT: {"displayName": "Staging"},
    SNAPSHOT: {"displayName": "Shop"},
    BINDING: {"snapshot": "one"},
    PROMOTION_RUN: {},
    DEPLOYMENT_TARGET_CLAIM: {"targetName": "production"},
    DEPLOYMENT_TARGET: {"claimRef": "staging"},
}
"""One field made right, all others left as wrong as they are."""


OBJECTS = ("reported", "deleted", "mended", "worsened")
"""One for each test."""


@dataclass(frozen=True)
class Stored:
    """Objects that break rules which came after them."""

    kube: KubeClient
    origin: ApiResource
    resource: ApiResource
    namespace: str

    async def patch(self, name: str, patch: Manifest, subresource: str | None = None) -> Manifest:
        return await self.kube.patch_object(
            self.resource, self.namespace, name, patch, field_manager=MANAGER, subresource=subresource
        )


@pytest.fixture(scope="module", params=GOOD, ids=lambda resource: resource.kind)
async def stored(kubeconfig: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stored]:
    """The kind in a group of the test's own: first without any rule, then, once the objects are there, with all."""
    origin: ApiResource = request.param
    unique = uuid.uuid4().hex[:8]
    copy = ApiResource(f"g{unique}.example.com", origin.version, origin.kind, origin.plural)
    definition = _definition(origin, copy.group)
    namespace, old = f"test-{unique}", merged(GOOD[origin], OLD[origin])
    async with await connect(kubeconfig) as kube:
        await kube.create_object(NAMESPACE, _named(NAMESPACE, namespace), field_manager=MANAGER)
        try:
            await kube.create_object(CUSTOM_RESOURCE_DEFINITION, _without_rules(definition), field_manager=MANAGER)
            for name in OBJECTS:
                await _until_served(kube, copy, _manifest(copy, namespace, name, old))
            await kube.apply_object(CUSTOM_RESOURCE_DEFINITION, definition, field_manager=MANAGER)
            await _until_refused(kube, copy, namespace, old)
            yield Stored(kube, origin, copy, namespace)
        finally:
            await kube.delete_object(CUSTOM_RESOURCE_DEFINITION, None, definition["metadata"]["name"])


async def test_stored_object_when_its_status_is_written_then_the_api_server_accepts(stored: Stored) -> None:
    condition = {"type": "ErrorOccurred", "status": "True", "reason": "ErrorOccurred", "message": "m"}
    listed = "bindingConditions" if stored.origin == BINDING else "conditions"
    written = await stored.patch("reported", {"status": {listed: [condition]}}, "status")
    assert written["status"][listed] == [condition]


async def test_stored_object_when_it_is_deleted_then_its_finalizer_can_go(stored: Stored) -> None:
    await stored.patch("deleted", {"metadata": {"finalizers": [FINALIZER]}})
    await stored.kube.delete_object(stored.resource, stored.namespace, "deleted")
    released = await stored.patch("deleted", {"metadata": {"finalizers": None}})
    assert "finalizers" not in released["metadata"]


async def test_stored_object_when_one_field_is_mended_then_the_api_server_accepts(stored: Stored) -> None:
    changes = MENDED[stored.origin]
    mended = await stored.patch("mended", {"metadata": {"labels": {"team": "a"}}, "spec": changes})
    assert changes.items() <= mended["spec"].items()


async def test_stored_object_when_a_wrong_field_becomes_wrong_otherwise_then_the_api_server_refuses(
    stored: Stored,
) -> None:
    with pytest.raises(Rejected):
        await stored.patch("worsened", {"spec": WORSE[stored.origin]})


def _definition(origin: ApiResource, group: str) -> Manifest:
    kind = next(kind for kind in REGISTRY.defined if kind.name == origin.kind)
    definition = custom_resource_definition(kind)
    definition["metadata"]["name"] = f"{origin.plural}.{group}"
    definition["spec"]["group"] = group
    return definition


def _without_rules(definition: Manifest) -> Manifest:
    bare = deepcopy(definition)
    for node in _nodes(bare):
        for limit in LIMITS:
            node.pop(limit, None)
    return bare


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from _nodes(member)
    elif isinstance(value, list):
        for member in value:
            yield from _nodes(member)


def _named(resource: ApiResource, name: str) -> Manifest:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}


def _manifest(resource: ApiResource, namespace: str, name: str, spec: Any) -> Manifest:
    return merged(_named(resource, name), {"metadata": {"namespace": namespace}, "spec": spec})


async def _until_served(kube: KubeClient, resource: ApiResource, manifest: Manifest) -> None:
    """Create the object as soon as the API server knows its kind."""
    async with asyncio.timeout(30):
        while True:
            try:
                await kube.create_object(resource, manifest, field_manager=MANAGER)
            except GitOpsError:
                await asyncio.sleep(0.05)
            else:
                return


async def _until_refused(kube: KubeClient, resource: ApiResource, namespace: str, spec: Any) -> None:
    """Wait until new objects like the old one are refused: the rules are in force."""
    async with asyncio.timeout(30):
        for number in count():
            manifest = _manifest(resource, namespace, f"probe-{number}", spec)
            try:
                await kube.create_object(resource, manifest, field_manager=MANAGER)
            except Rejected:
                return
            await asyncio.sleep(0.05)
