"""What a watcher that was taken over may make of child objects, with the rights and the policy that are generated.

The installation's kinds need not have children for that: here GitOpsDeployments own environments and copied Secrets.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.generate.manifests import WATCHER
from devstack.generate.markdown import with_block
from services.cli.installation.rbac import KINDS
from services.common.errors import Wait
from services.common.kubernetes import SECRET, ApiResource, KubeClient, Manifest, Rejected, connect
from services.common.messages import ChildKind, UnownedKind
from services.common.package_data import RBAC
from services.kinds.application.kind import APPLICATION
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.rows import FINALIZER
from services.kinds.environment.rules import SECRET_LABEL
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.kind import Kind
from services.kinds.space_request.model import CLAIM_LABEL, SPACE_REQUEST, TARGET_LABEL
from services.watcher.rows.object_applier import ObjectApplier
from services.watcher.unowned_kinds import UNOWNED_RESOURCES
from tests.component.rights import SERVICE_ACCOUNT, kubeconfig_with, token_of, until_granted
from tests.component.watcher.rig import DEADLINE_SECONDS, Rig, Tenant
from tests.component.watcher.test_objects_applied import COPY_TYPE, child, copied
from tests.component.watcher.test_unowned_objects import (
    CLAIM_SPEC,
    TARGET_SPEC,
    THEIRS,
    bound,
    change,
    create,
    create_claim,
    release,
)

CHILDREN = (ChildKind.MANAGED_ENVIRONMENT, ChildKind.SECRET_COPY)
ENVIRONMENT_SPEC = {
    "apiURL": "https://api.example.com:6443",
    "credentialsSecret": "login",
    "allowInsecureSkipTLSVerify": False,
}
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def manifests(account: str, namespace: str) -> Iterator[Manifest]:
    """Role and policy of the watcher, as they are generated for kinds with children, for an account of a test's own."""
    first, *others = (replace(kind, children=(), unowned=()) for kind in REGISTRY.kinds)
    known = {kind.resource for kind in REGISTRY.kinds}
    changed = [UNOWNED_RESOURCES[each].resource for each in UnownedKind]
    others += [Kind(resource=each, default_quota=1) for each in changed if each not in known]
    registry = Registry((replace(first, children=CHILDREN, unowned=tuple(UnownedKind)), *others))
    text = (RBAC / "watcher.yaml").read_text()
    for name, rules in WATCHER.items():
        text = with_block(text, name, rules(registry))
    text = text.replace("system:serviceaccount:gitops-service:watcher", f"system:serviceaccount:{namespace}:{account}")
    text = text.replace("gitops-service-watcher", account)
    for manifest in yaml.safe_load_all(text):
        if manifest["kind"] in CLUSTER_WIDE:
            for subject in manifest.get("subjects", ()):
                subject |= {"name": account, "namespace": namespace}
            yield manifest


@dataclass(frozen=True)
class Confined:
    """A watcher with its own account, and the tenant that it serves."""

    kube: KubeClient
    tenant: Tenant
    owner: Manifest


@pytest.fixture
async def confined(
    kube: KubeClient, tenant: Tenant, namespace: str, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Confined]:
    account = f"watcher-{uuid.uuid4().hex[:8]}"
    metadata = {"name": account, "namespace": namespace}
    typed = {"apiVersion": SERVICE_ACCOUNT.api_version, "kind": SERVICE_ACCOUNT.kind}
    await kube.create_object(SERVICE_ACCOUNT, typed | {"metadata": metadata}, field_manager="tests")
    made = [*manifests(account, namespace)]
    for manifest in made:
        await kube.create_object(KINDS[manifest["kind"]], manifest, field_manager="tests")
    (role,) = [each for each in made if each["kind"] == "ClusterRole"]
    await until_granted(kube, f"system:serviceaccount:{namespace}:{account}", role["rules"])
    owner = await tenant.create("prod")
    async with await connect(kubeconfig_with(await token_of(kube, namespace, account), kubeconfig, tmp_path)) as own:
        confined = Confined(own, tenant, owner)
        async with asyncio.timeout(DEADLINE_SECONDS):  # an API server learns of a policy some time after it is applied
            while "ValidatingAdmissionPolicy" not in await refusal(confined, MANAGED_ENVIRONMENT, {"name": unique()}):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield confined
    for manifest in reversed(made):
        await kube.delete_object(KINDS[manifest["kind"]], None, manifest["metadata"]["name"])


def unique() -> str:
    """A name that nothing has."""
    return f"try-{uuid.uuid4().hex[:8]}"


def owned(confined: Confined, child_name: str, **owner: Any) -> Manifest:
    """Metadata of a child."""
    meta = confined.owner["metadata"]
    reference = {
        "apiVersion": GITOPS_DEPLOYMENT.api_version,
        "kind": GITOPS_DEPLOYMENT.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    return {"name": child_name, "ownerReferences": [reference | owner]}


async def refusal(confined: Confined, kind: ApiResource, meta: Manifest, **content: Any) -> str:
    """Why the watcher may not make this object; "" if it may."""
    content = content or {"spec": ENVIRONMENT_SPEC}
    manifest = {"metadata": meta | {"namespace": confined.tenant.namespace}} | content
    typed = {"apiVersion": kind.api_version, "kind": kind.kind} | manifest
    try:
        await confined.kube.create_object(kind, typed, field_manager="tests")
    except Rejected as error:
        return str(error)
    return ""


async def test_watcher_when_it_applies_children_then_the_policy_lets_it(rig: Rig, confined: Confined) -> None:
    tenant, applier = confined.tenant, ObjectApplier(confined.kube, 1000)
    await tenant.create_secret("login", "Opaque", kubeconfig="k")
    environment = partial(child, rig, confined.owner, "prod-env", kind=ChildKind.MANAGED_ENVIRONMENT.value)
    secret = partial(copied, rig, confined.owner)
    for row, changed in (
        (environment(spec=ENVIRONMENT_SPEC), environment(spec=ENVIRONMENT_SPEC | {"createNewServiceAccount": True})),
        (secret(), secret(labels={SECRET_LABEL: "prod"})),
    ):
        assert await applier.apply_row(row)
        assert await applier.apply_row(changed)
        assert await applier.apply_row(replace(row, desired="absent"))


async def test_watcher_when_it_may_not_make_a_kind_then_it_waits_and_the_rights_are_named(
    rig: Rig, confined: Confined
) -> None:
    applier = ObjectApplier(confined.kube, 1000)
    with pytest.raises(Wait, match=r"grant 'create', 'patch' and 'delete' on gitopsdeployments: .*cannot create"):
        await applier.apply_row(child(rig, confined.owner))


async def test_watcher_when_what_it_makes_is_no_child_then_it_is_refused_by_name(confined: Confined) -> None:
    nobodys = await refusal(confined, MANAGED_ENVIRONMENT, {"name": "env"})
    not_controlled = await refusal(confined, MANAGED_ENVIRONMENT, owned(confined, "env", controller=False))
    of_another_kind = await refusal(
        confined, MANAGED_ENVIRONMENT, owned(confined, "env", apiVersion="v1", kind="ConfigMap")
    )
    for said in (nobodys, not_controlled, of_another_kind):
        assert "creates and deletes nothing but children" in said


TYPES = {
    COPY_TYPE: "",
    "kubernetes.io/service-account-token": "makes no Secret but of the types",
    "bootstrap.kubernetes.io/token": "makes no Secret but of the types",
    "Opaque": "makes no Secret but of the types",
}


@pytest.mark.parametrize(("type_", "expected"), TYPES.items(), ids=TYPES)
async def test_watcher_when_it_makes_a_secret_then_only_of_a_type_that_is_made_for_the_service(
    confined: Confined, type_: str, expected: str
) -> None:
    """Or it would make a token of any service account, and read it."""
    meta = owned(confined, "copy") | {"annotations": {"kubernetes.io/service-account.name": "default"}}
    said = await refusal(confined, SECRET, meta, type=type_, data={"kubeconfig": "aw=="})
    assert expected in said
    assert bool(said) == bool(expected)


async def test_watcher_when_a_secret_is_a_users_own_then_it_neither_changes_nor_deletes_it(
    confined: Confined,
) -> None:
    tenant, kube = confined.tenant, confined.kube
    await tenant.create_secret("theirs", COPY_TYPE, kubeconfig="k")
    owners = {"metadata": {"ownerReferences": owned(confined, "")["ownerReferences"]}}
    for patch in ({"data": {"kubeconfig": "aw=="}}, owners):
        with pytest.raises(Rejected, match="changes no Secret that is none"):
            await kube.patch_object(SECRET, tenant.namespace, "theirs", patch, field_manager="tests")
    with pytest.raises(Rejected, match="deletes nothing but children"):
        await kube.delete_object(SECRET, tenant.namespace, "theirs")


async def test_watcher_when_it_gives_a_child_to_another_owner_then_it_is_refused(confined: Confined) -> None:
    assert await refusal(confined, MANAGED_ENVIRONMENT, owned(confined, "env")) == ""
    patch = {"metadata": {"ownerReferences": owned(confined, "", name="other")["ownerReferences"]}}
    with pytest.raises(Rejected, match="or owners"):
        await confined.kube.patch_object(
            MANAGED_ENVIRONMENT, confined.tenant.namespace, "env", patch, field_manager="tests"
        )


# Objects that are no children


async def test_watcher_when_it_changes_what_is_listed_then_the_policy_lets_it(rig: Rig, confined: Confined) -> None:
    tenant, applier = confined.tenant, ObjectApplier(confined.kube, 1000)
    uid = (await create_claim(tenant, finalizers=[THEIRS]))["metadata"]["uid"]
    assert await applier.apply_row(bound(rig, confined.owner, uid))
    await tenant.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev")
    off = change(rig, confined.owner, UnownedKind.CLAIM, "dev", uid, finalizers={FINALIZER: False})
    assert await applier.apply_row(off)
    await release(tenant, DEPLOYMENT_TARGET_CLAIM, "dev")
    made = change(rig, confined.owner, UnownedKind.TARGET, "dev-dt", "", spec=TARGET_SPEC)
    assert await applier.apply_row(made)
    uid = (await tenant.kube.get_object(DEPLOYMENT_TARGET, tenant.namespace, "dev-dt"))["metadata"]["uid"]
    assert await applier.apply_row(change(rig, confined.owner, UnownedKind.TARGET, "dev-dt", uid, desired="absent"))


BEYOND: dict[str, tuple[Manifest, str]] = {
    "another-field": ({"spec": {"deploymentTargetClassName": "other"}}, "does not change a spec"),
    "another-annotation": ({"metadata": {"annotations": {"a": "b"}}}, "labels, annotations or owners"),
    "a-label": ({"metadata": {"labels": {"a": "b"}}}, "labels, annotations or owners"),
    "an-annotation-of-somebody-else-goes": ({"metadata": {"annotations": {"theirs": None}}}, "labels, annotations"),
    "another-finalizer": ({"metadata": {"finalizers": [THEIRS, "example.com/more"]}}, "takes off no finalizer"),
    "a-finalizer-of-somebody-else-goes": ({"metadata": {"finalizers": [FINALIZER]}}, "takes off no finalizer"),
}


async def test_watcher_when_it_changes_more_than_is_listed_then_the_policy_refuses(confined: Confined) -> None:
    tenant, kube = confined.tenant, confined.kube
    await create_claim(tenant, annotations={"theirs": "stays"}, finalizers=[THEIRS])
    for patch, text in BEYOND.values():
        with pytest.raises(Rejected, match=text):
            await kube.patch_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev", patch, field_manager="tests")
    with pytest.raises(Rejected, match="cannot delete"):
        await kube.delete_object(APPLICATION, tenant.namespace, "shop")
    with pytest.raises(Rejected, match="cannot create"):
        await create(kube, tenant, CLAIM_SPEC, name="other")
    await release(tenant, DEPLOYMENT_TARGET_CLAIM, "dev")


BEYOND_A_SPACE: dict[str, tuple[Manifest, str]] = {
    "its-tier": ({"spec": {"tierName": "large"}}, "does not change a spec"),
    "another-label": ({"metadata": {"labels": {"a": "b"}}}, "labels, annotations or owners"),
    "another-annotation": ({"metadata": {"annotations": {"a": "b"}}}, "labels, annotations or owners"),
    "a-finalizer-of-the-toolchains": ({"metadata": {"finalizers": [THEIRS]}}, "takes off no finalizer"),
}


async def test_watcher_when_it_asks_for_a_space_then_it_labels_and_deletes_it_and_changes_nothing_else(
    rig: Rig, confined: Confined
) -> None:
    applier, namespace = ObjectApplier(confined.kube, 1000), confined.tenant.namespace
    made = change(
        rig, confined.owner, UnownedKind.SPACE_REQUEST, "dev-1", "", spec={"tierName": "appstudio-env"},
        labels={CLAIM_LABEL: "dev"},
    )  # fmt: skip
    assert await applier.apply_row(made)
    uid = (await confined.tenant.kube.get_object(SPACE_REQUEST, namespace, "dev-1"))["metadata"]["uid"]
    labels = {CLAIM_LABEL: "dev", TARGET_LABEL: "dev-dt"}
    assert await applier.apply_row(change(rig, confined.owner, UnownedKind.SPACE_REQUEST, "dev-1", uid, labels=labels))
    for patch, text in BEYOND_A_SPACE.values():
        with pytest.raises(Rejected, match=text):
            await confined.kube.patch_object(SPACE_REQUEST, namespace, "dev-1", patch, field_manager="tests")
    said = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    with pytest.raises(Rejected, match="cannot patch"):
        await confined.kube.patch_object(
            SPACE_REQUEST, namespace, "dev-1", said, field_manager="tests", subresource="status"
        )
    assert await applier.apply_row(
        change(rig, confined.owner, UnownedKind.SPACE_REQUEST, "dev-1", uid, desired="absent")
    )
