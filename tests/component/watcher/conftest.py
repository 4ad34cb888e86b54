"""A watcher between topics of one test's own and the real API server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.common.kubernetes import KubeClient
from services.watcher.bootstrap import Topics
from tests.component.watcher.rig import OBJECT_SCHEMA, KeyFiles, Rig, RowWriter, Tenant, open_rig

PARTITIONS = 3


@pytest.fixture
def keys(tmp_path: Path) -> KeyFiles:
    """Keys of one test's own."""
    keys = KeyFiles(tmp_path)
    keys.renew()
    return keys


@pytest.fixture
def rig(
    kafka_bootstrap: str,
    registry_url: str,
    kubeconfig: Path,
    topic_factory: Callable[[str, int], str],
    keys: KeyFiles,
) -> Iterator[Rig]:
    topics = Topics(topic_factory("commands", PARTITIONS), topic_factory("workspace", 1), topic_factory("objects", 1))
    workspace = f"ws-{uuid.uuid4().hex[:8]}"
    rig = open_rig(kafka_bootstrap, registry_url, kubeconfig, workspace, topics, partitions=PARTITIONS, keys=keys)
    yield rig
    rig.commands.close()
    rig.rows.close()
    rig.objects.close()


@pytest.fixture
def open_objects(kafka_bootstrap: str, registry_url: str) -> Callable[[str], RowWriter]:
    """Writes child objects to a topic that a test has made by itself."""
    return lambda topic: RowWriter(kafka_bootstrap, registry_url, topic, OBJECT_SCHEMA)


@pytest.fixture
def tenant(kube: KubeClient, namespace: str) -> Tenant:
    return Tenant(kube, namespace)
