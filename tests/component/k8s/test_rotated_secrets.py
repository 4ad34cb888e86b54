"""Sealing keys in Secrets of a real API server, rotated by the account of the CronJob, with its rights alone."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

import pytest
from joserfc.jwk import ECKey

from services.cli.installation.rbac import KINDS
from services.cli.sealing.key_rotation import FILE, PRIVATE, PUBLIC, Schedule, rotate_secrets
from services.common.errors import NoPermission
from services.common.kubernetes import SECRET, KubeClient
from services.common.sealing import generate_key, jwk_set, parse_keys
from tests.component.k8s.manifests import Rendered
from tests.component.rights import kubeconfig_with, token_of, until_granted

NAME = "key-rotation"
AT_ONCE = Schedule(older_than=timedelta(0), settled=timedelta(0))


@pytest.fixture
async def account(kube: KubeClient, namespace: str, rendered: Rendered, kubeconfig: Path, tmp_path: Path) -> Path:
    """Credentials of the account, with what the manifests grant it, in a namespace of the test's own."""
    ours = [item for item in rendered.example if item["metadata"]["name"].endswith(NAME) and item["kind"] in KINDS]
    for item in ours:
        placed = item | {"metadata": item["metadata"] | {"namespace": namespace}}
        if "subjects" in item:
            placed |= {"subjects": [subject | {"namespace": namespace} for subject in item["subjects"]]}
        await kube.apply_object(KINDS[item["kind"]], placed, field_manager="tests")
    (role,) = [item for item in ours if item["kind"] == "Role"]
    rules = [{key: rule[key] for key in ("apiGroups", "resources", "verbs")} for rule in role["rules"]]
    await until_granted(kube, f"system:serviceaccount:{namespace}:{NAME}", rules, namespace, name=PUBLIC)
    return kubeconfig_with(await token_of(kube, namespace, NAME), kubeconfig, tmp_path)


async def keys_of(kube: KubeClient, namespace: str, name: str) -> list[str]:
    """Ids of the keys in a Secret."""
    data = (await kube.get_object(SECRET, namespace, name))["data"]
    return [*parse_keys(base64.b64decode(data[FILE]), private=name == PRIVATE)]


async def make(kube: KubeClient, namespace: str, name: str, text: bytes) -> None:
    """A Secret with one key."""
    metadata = {"name": name, "namespace": namespace}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {FILE: text.decode()}}
    await kube.create_object(SECRET, manifest, field_manager="tests")


async def test_keys_when_they_are_old_then_agents_get_the_new_one_before_watchers(
    kube: KubeClient, namespace: str, account: Path
) -> None:
    young = generate_key()
    first = ECKey.import_key(young.as_dict(private=True) | {"iat": young.as_dict()["iat"] - 60})
    for name in (PRIVATE, PUBLIC):
        await make(kube, namespace, name, jwk_set({"first": first}, private=name == PRIVATE))
    now = young.as_dict()["iat"] + 1
    await rotate_secrets(account, namespace, now, AT_ONCE)
    opening = await keys_of(kube, namespace, PRIVATE)
    assert len(opening) == 2
    assert await keys_of(kube, namespace, PUBLIC) == [first.kid]
    await rotate_secrets(account, namespace, now + 3600, AT_ONCE)
    assert await keys_of(kube, namespace, PUBLIC) == [opening[1], first.kid]


async def test_account_when_it_reads_another_secret_then_it_may_not(namespace: str, account: Path) -> None:
    with pytest.raises(NoPermission, match="default"):
        await rotate_secrets(account, "default", 0, AT_ONCE)
