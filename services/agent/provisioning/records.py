"""Keeps what instances were last brought up to, each in a ConfigMap of its namespace: it goes with that.

Not with the label of what an installation consists of, so it is no part of that: it is neither compared with the
rendered manifests nor made anew with the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from services.agent.provisioning.waves import Record
from services.common.json_values import dict_of, text_of
from services.common.kubernetes import CONFIG_MAP, KubeClient, Manifest
from services.common.messages import FleetInstance
from services.common.times import rfc3339

FIELD_MANAGER = "gitops-service-provisioner"
NAME = "gitops-service-installation"
LABEL = "managed-gitops.redhat.com/installation-of"
"""With the instance's id."""


class Records:
    """Of one engine cluster."""

    def __init__(self, cluster: KubeClient) -> None:
        self._cluster = cluster

    async def read(self, instances: Iterable[FleetInstance]) -> dict[str, Record]:
        """By id those of ``instances`` that have one. Raises what the client does."""
        places = {(each.namespace, each.id): each.id for each in instances}
        found: dict[str, Record] = {}
        async for page in self._cluster.list_pages(CONFIG_MAP, selector=LABEL):
            for manifest in page.items:
                metadata = manifest["metadata"]
                known = places.get((metadata["namespace"], metadata["labels"][LABEL]))
                record = _record_in(manifest) if metadata["name"] == NAME else None
                if known is not None and record is not None:
                    found[known] = record
        return found

    async def write(self, instance: FleetInstance, record: Record) -> None:
        """Into its namespace, which is there."""
        await self._cluster.apply_object(CONFIG_MAP, manifest_of(instance, record), field_manager=FIELD_MANAGER)


def manifest_of(instance: FleetInstance, record: Record) -> Manifest:
    """The ConfigMap."""
    data = {
        "digest": record.digest,
        "since": rfc3339(record.since) if record.since is not None else "",
        "worked": "true" if record.worked else "false",
    }
    metadata = {"name": NAME, "namespace": instance.namespace, "labels": {LABEL: instance.id}}
    return {"apiVersion": CONFIG_MAP.api_version, "kind": CONFIG_MAP.kind, "metadata": metadata, "data": data}


def _record_in(manifest: Manifest) -> Record | None:
    """None if somebody has changed it, so that nobody can read it any more."""
    data = dict_of(manifest.get("data"))
    digest, since = text_of(data.get("digest")), text_of(data.get("since"))
    try:
        at = datetime.fromisoformat(since) if since else None
    except ValueError:
        return None
    if not digest or (at is not None and at.tzinfo is None):
        return None
    return Record(digest, at, data.get("worked") == "true")
