"""Plays the connector and the planner: compiled rows into a topic, observations out of one."""

from __future__ import annotations

import hashlib
import io
import json
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import fastavro
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from services.agent.stream.owned_instances import partition_of_instance
from services.common.avro import AvroCodec, SchemaRegistry, frame
from services.common.kafka import PartitionReader
from services.common.messages import Observation
from services.common.telemetry import new_traceparent

COLUMNS = (
    "engine_instance_id", "kind", "namespace", "name", "workspace", "tenant_namespace", "lane", "desired",
    "manifest", "digest", "trace_id", "seen_at", "updated_at", "__deleted",
)  # fmt: skip
ROW_SCHEMA = {
    "type": "record",
    "name": "Value",
    "namespace": "gitops.tests.engine_resources",
    "fields": [{"name": name, "type": "string"} for name in COLUMNS] + [{"name": "wave", "type": "int"}],
}
REPO = "https://github.com/example/app"
TENANT = ("local", "team-a")


def application(name: str, namespace: str, **source: str) -> dict[str, Any]:
    """An Application as the planner compiles it."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "databaseID": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
                "app.kubernetes.io/managed-by": "gitops-service",
            },
        },
        "spec": {
            "project": "app-project-a",
            "source": {"repoURL": REPO, "path": "manifests"} | source,
            "destination": {"name": "in-cluster", "namespace": "team-a"},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True, "allowEmpty": True},
                "syncOptions": ["PrunePropagationPolicy=background"],
                "retry": {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}},
            },
        },
    }


def app_project(name: str, namespace: str) -> dict[str, Any]:
    """An AppProject as the planner compiles it."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "gitops-service"},
            "annotations": {"username": "a"},
        },
        "spec": {"sourceRepos": [REPO], "destinations": [{"name": "in-cluster", "namespace": "team-a"}]},
    }


def sync_operation(
    name: str,
    namespace: str,
    run: str,
    sequence: int = 1,
    state: str = "Running",
    revision: str = "main",
    **more: Any,
) -> dict[str, Any]:
    """A sync as the planner compiles it."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": namespace},
        "operation": {"run": run, "sequence": sequence, "revision": revision, "state": state} | more,
    }


def cluster_secret(name: str, namespace: str, uid: str) -> dict[str, Any]:
    """A cluster's Secret as the planner compiles it, as far as a fake composer looks at it."""
    labels = {"argocd.argoproj.io/secret-type": "cluster", "app.kubernetes.io/managed-by": "gitops-service"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "recipe": {"uid": uid},
    }


def repository_secret(name: str, namespace: str, repository: str = REPO) -> dict[str, Any]:
    """A repository's Secret as the planner compiles it, as far as a fake composer looks at it."""
    made = cluster_secret(name, namespace, "one")
    made["metadata"]["labels"]["argocd.argoproj.io/secret-type"] = "repository"
    made["recipe"]["repository"] = repository
    return made


def sealed_cluster_secret(name: str, namespace: str, sealed: str) -> dict[str, Any]:
    """A cluster's Secret as the planner compiles it, in full."""
    made = cluster_secret(name, namespace, "0b9cf24c-6a8d-4a55-a1c0-3f4d5f1f5c0f")
    made["recipe"] |= {
        "apiURL": "https://api.example.com:6443",
        "server": "https://api.example.com:6443?managedEnvironment=1",
        "insecure": False,
        "createServiceAccount": False,
        "namespaces": [],
        "clusterResources": False,
        "project": "app-project-a",
        "secret": {"name": "credentials", "version": "1", "sealed": sealed},
    }
    return made


WAVES = {"Application": 1, "SyncOperation": 2}


def row(
    instance: str, manifest: dict[str, Any], desired: str = "present", deleted: bool = False, kind: str = ""
) -> dict[str, Any]:
    """The row that holds ``manifest``; its kind is the manifest's unless told."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    now = datetime.now(UTC).isoformat()
    return {
        "engine_instance_id": instance,
        "kind": kind or manifest["kind"],
        "namespace": manifest["metadata"]["namespace"],
        "name": manifest["metadata"]["name"],
        "workspace": TENANT[0],
        "tenant_namespace": TENANT[1],
        "lane": "app-project-a",
        "wave": WAVES.get(kind or manifest["kind"], 0),
        "desired": desired,
        "manifest": text,
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "trace_id": new_traceparent(),
        "seen_at": now,
        "updated_at": now,
        "__deleted": "true" if deleted else "false",
    }


class EngineLog:
    """The topic of compiled rows, written as Debezium writes it."""

    def __init__(self, bootstrap: str, registry_url: str, topic: str, partitions: int) -> None:
        self.topic, self._bootstrap, self._partitions = topic, bootstrap, partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        client = SchemaRegistryClient({"url": registry_url, "timeout": 5})
        self._schema_id = client.register_schema(f"{topic}-value", Schema(json.dumps(ROW_SCHEMA), "AVRO"))
        self._schema = fastavro.parse_schema(ROW_SCHEMA)

    def group_of(self, cluster: str) -> str:
        """The consumer group of a cluster's agents, no other test's."""
        return f"group-{self.topic}-{cluster}"

    def is_committed_by(self, cluster: str) -> bool:
        """Whether a cluster's agents are done with every row, their own or not."""
        with PartitionReader(self._bootstrap, self.group_of(cluster)) as reader:
            ends = {source: end for source, end in reader.end_offsets(reader.partitions_of(self.topic)).items() if end}
            return reader.committed_offsets(ends) == ends

    def write(self, *rows: dict[str, Any]) -> None:
        """Append rows and wait until they are in the log."""
        for each in rows:
            buffer = io.BytesIO()
            fastavro.schemaless_writer(buffer, self._schema, each)
            key = "/".join(each[part] for part in ("engine_instance_id", "kind", "namespace", "name"))
            self.write_raw(key, frame(self._schema_id, buffer.getvalue()), each["trace_id"])
        assert self._producer.flush(20) == 0

    def write_raw(self, key: str, value: bytes, trace: str = "") -> None:
        """Append bytes; the part of the key before the first slash is the instance."""
        self._producer.produce(
            self.topic,
            key=key,
            value=value,
            partition=partition_of_instance(key.partition("/")[0], self._partitions),
            headers=[("traceparent", trace)],
        )
        self._producer.poll(0)


class Observations:
    """Everything that agents reported, in the order read."""

    def __init__(self, bootstrap: str, registry_url: str, topic: str) -> None:
        self.topic = topic
        self._codec = AvroCodec(SchemaRegistry(registry_url), Observation, "gitops.observations-value")
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"test-{uuid.uuid4()}", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([topic])
        self.seen: list[Observation] = []

    def read(self, seconds: float = 0.05) -> list[Observation]:
        """Take in what has arrived."""
        while (message := self._consumer.poll(seconds)) is not None:
            if message.error() is None:
                self.seen.append(self._codec.decode_message(message.value()))
        return self.seen

    def of(self, name: str) -> list[Any]:
        """The events about the object of that name."""
        return [observation.event for observation in self.read() if observation.name == name]

    def has(self, name: str, event: Any) -> bool:
        """Whether ``event`` was reported of the object of that name."""
        return event in self.of(name)

    def until(self, found: Callable[[Observation], bool], within: float = 20) -> Observation:
        """The first observation that fits."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for observation in self.read():
                if found(observation):
                    return observation
        raise AssertionError(f"not observed within {within} s; seen: {[each.event for each in self.seen]}")

    def close(self) -> None:
        self._consumer.close()
