"""What an agent does to composed Secrets of a real API server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from services.common.kubernetes import SECRET, KubeClient, NotFound
from services.common.messages import Applied, Checked, Removed
from services.common.sealing import SealingKeys, SecretContext, generate_key, write_keys
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import (
    TENANT,
    EngineLog,
    Observations,
    cluster_secret,
    row,
    sealed_cluster_secret,
)
from tests.component.agent.worker import COMPOSING_AGENT, Worker

NAME = "managed-env-1"
SOMEBODY = "kubectl-edit"


@pytest.fixture
def agent(start_agent: StartAgent, namespace: str) -> Worker:
    return start_agent({INSTANCE: namespace}, module=COMPOSING_AGENT)


def secret_row(namespace: str, uid: str = "s3cr3t-value", desired: str = "present") -> dict[str, Any]:
    return row(INSTANCE, cluster_secret(NAME, namespace, uid), desired, kind="ClusterSecret")


async def content(kube: KubeClient, namespace: str) -> dict[str, str]:
    found = await kube.get_object(SECRET, namespace, NAME)
    return {name: base64.b64decode(value).decode() for name, value in found.get("data", {}).items()}


async def test_secret_when_its_row_comes_then_it_is_composed_and_reported(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    desired = secret_row(namespace)
    engine_log.write(desired)
    until(lambda: observations.has(NAME, Applied(desired["digest"])))
    assert observations.has(NAME, Checked(desired["digest"], "Succeeded", ""))
    assert await content(kube, namespace) == {"config": "s3cr3t-value"}
    labels = (await kube.get_object(SECRET, namespace, NAME))["metadata"]["labels"]
    assert labels["argocd.argoproj.io/secret-type"] == "cluster"


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"config": "ZXZpbA=="}},
        {"data": {"config": None, "shard": "MQ=="}},
        {"metadata": {"labels": {"argocd.argoproj.io/secret-type": None}}},
        {"immutable": True},
    ],
    ids=["value", "keys", "label", "immutable"],
)
async def test_secret_when_somebody_edits_it_then_it_is_repaired(
    agent: Worker,
    kube: KubeClient,
    namespace: str,
    engine_log: EngineLog,
    observations: Observations,
    change: dict[str, Any],
) -> None:
    desired = secret_row(namespace)
    engine_log.write(desired)
    until(lambda: observations.has(NAME, Applied(desired["digest"])))
    await kube.patch_object(SECRET, namespace, NAME, change, field_manager=SOMEBODY)
    until(lambda: observations.has(NAME, Applied(desired["digest"], drift_repaired=True)), within=10)
    assert await content(kube, namespace) == {"config": "s3cr3t-value"}
    found = await kube.get_object(SECRET, namespace, NAME)
    assert found["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "cluster"
    assert "immutable" not in found
    assert "s3cr3t-value" not in agent.log.read_text()


async def test_secret_when_it_is_sealed_under_an_unknown_key_then_that_is_reported_and_nothing_is_made(
    start_agent: StartAgent,
    kube: KubeClient,
    namespace: str,
    engine_log: EngineLog,
    observations: Observations,
    tmp_path: Path,
) -> None:
    path, key = tmp_path / "public.json", generate_key()
    write_keys(path, {str(key.kid): key}, private=False)
    context = SecretContext(*TENANT, "credentials", "managed-gitops.redhat.com/managed-environment")
    sealed = SealingKeys.load(path).seal_secret({"kubeconfig": "eA=="}, context)
    start_agent({INSTANCE: namespace})
    desired = row(INSTANCE, sealed_cluster_secret(NAME, namespace, sealed), kind="ClusterSecret")
    engine_log.write(desired)
    until(lambda: observations.of(NAME))
    [event] = observations.of(NAME)
    assert (type(event), event.digest, event.reason) == (Checked, desired["digest"], "UnableToParseKubeconfigData")
    assert "could not be opened" in event.message
    with pytest.raises(NotFound):
        await content(kube, namespace)


async def test_secret_when_a_newer_row_fails_its_check_then_the_former_stays_until_the_row_goes(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    good, bad = secret_row(namespace), secret_row(namespace, "bad")
    engine_log.write(good, bad)
    until(lambda: observations.has(NAME, Checked(bad["digest"], "UnableToLocateContext", "no such context")))
    engine_log.write(secret_row(namespace, "bad", "absent"))
    until(lambda: observations.has(NAME, Removed(forced=False)))
    with pytest.raises(NotFound):
        await content(kube, namespace)
