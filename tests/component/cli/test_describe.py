"""``gitopsctl describe application`` at a real API server: what it shows, what it takes, and how it says no."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.cli.describe import describe
from services.common.errors import InvalidConfiguration
from services.common.kubernetes import ApiResource, KubeClient
from services.kinds.application.kind import APPLICATION
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.snapshot_environment_binding.model import BINDING
from tests.component.rights import SERVICE_ACCOUNT, kubeconfig_with, token_of, until_granted
from tests.unit.cli.describe.resources import SHOP

MANAGER = "tests"
ROLE = ApiResource("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = ApiResource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
RULES = [
    {"apiGroups": [APPLICATION.group], "resources": [APPLICATION.plural], "verbs": ["get"]},
    {
        "apiGroups": [APPLICATION.group],
        "resources": [each.plural for each in (ENVIRONMENT, BINDING, PROMOTION_RUN, DEPLOYMENT_TARGET_CLAIM)],
        "verbs": ["list"],
    },
]
"""The rights that the page for users names."""


@pytest.fixture
async def shop(kube: KubeClient, namespace: str) -> str:
    """The namespace of an application in the middle of a promotion."""
    await create(kube, namespace, APPLICATION, {"metadata": {"name": "shop"}, "spec": {"displayName": "Shop"}})
    lists = {
        ENVIRONMENT: SHOP.environments,
        BINDING: SHOP.bindings,
        PROMOTION_RUN: SHOP.runs,
        DEPLOYMENT_TARGET_CLAIM: SHOP.claims,
    }
    for resource, manifests in lists.items():
        for manifest in manifests:
            await create(kube, namespace, resource, manifest)
    return namespace


async def create(kube: KubeClient, namespace: str, resource: ApiResource, manifest: Any) -> None:
    name = manifest["metadata"]["name"]
    new = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
    }
    content = {key: manifest[key] for key in ("spec", "rules", "roleRef", "subjects") if key in manifest}
    await kube.create_object(resource, new | content, field_manager=MANAGER)
    if "status" in manifest:
        patch = {"status": dated(manifest["status"])}
        await kube.patch_object(resource, namespace, name, patch, field_manager=MANAGER, subresource="status")


def dated(status: Any) -> Any:
    """Conditions as the API server takes them."""
    return {
        member: [each | {"lastTransitionTime": "2026-11-25T12:00:00Z"} for each in part]
        if member.lower().endswith("conditions")
        else part
        for member, part in status.items()
    }


async def described(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "services.cli", "describe", "application", *arguments]
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
    return await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True, check=False
    )


async def test_application_when_a_user_has_the_documented_rights_then_they_see_it_and_otherwise_what_to_ask_for(
    kube: KubeClient, kubeconfig: Path, shop: str, tmp_path: Path
) -> None:
    await create(kube, shop, SERVICE_ACCOUNT, {"metadata": {"name": "reader"}})
    theirs = kubeconfig_with(await token_of(kube, shop, "reader"), kubeconfig, tmp_path)
    refused = await described(theirs, "shop", "-n", shop)
    assert (refused.returncode, refused.stdout) == (77, "")
    assert refused.stderr.startswith("gitopsctl: error: you may not get applications.appstudio.redhat.com in namespace")

    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": "reader"}
    reader = {"kind": "ServiceAccount", "name": "reader", "namespace": shop}
    await create(kube, shop, ROLE, {"metadata": {"name": "reader"}, "rules": RULES})
    await create(kube, shop, ROLE_BINDING, {"metadata": {"name": "reader"}, "roleRef": role, "subjects": [reader]})
    await until_granted(kube, f"system:serviceaccount:{shop}:reader", RULES, shop)
    shown = await described(theirs, "shop", "-n", shop)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0] == f"Application shop in namespace {shop}"
    assert [line.split()[1] for line in lines if line.startswith("├── ")] == [
        "development",
        "load-test",
        "staging",
        "production",
    ]
    assert "    ├── shop-2-to-production: snapshot shop-2 to production: Active" in lines
    assert "    └── shop-3: snapshot shop-3 from development on: Waiting behind shop-2-to-production" in lines

    # Not even that the namespace is missing may they know.
    hidden = await described(theirs, "shop", "-n", "nowhere")
    assert hidden.returncode == 77


async def test_application_when_it_or_its_namespace_does_not_exist_then_one_line_says_so(
    kubeconfig: Path, namespace: str
) -> None:
    for where, told in ((namespace, "there is no Application 'shop'"), ("nowhere", "there is no namespace 'nowhere'")):
        outcome = await described(kubeconfig, "shop", "--namespace", where)
        assert (outcome.returncode, outcome.stdout) == (2, "")
        (line,) = outcome.stderr.splitlines()
        assert line.startswith(f"gitopsctl: error: {told}")


@pytest.mark.parametrize("group", [PROMOTION_RUN.group, "nowhere.example.com"])
async def test_kind_when_the_api_server_does_not_know_it_then_that_is_told_apart_from_a_missing_object(
    kubeconfig: Path, shop: str, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    monkeypatch.setattr(describe, "PROMOTION_RUN", ApiResource(group, "v1alpha1", "Nothing", "nothings"))
    with pytest.raises(InvalidConfiguration, match=f"does not serve nothings.{group}: .*crds apply"):
        await describe.read_listed(kubeconfig, shop, "shop")
