"""Records which manifests each instance last got, in a ConfigMap of its namespace, which is deleted with it.

The ConfigMap lacks the label of an installation's objects. So it is neither compared with the rendered manifests nor
created anew with the configuration.
"""

from __future__ import annotations

from datetime import UTC, datetime

from services.agent.provisioning.waves import Record
from services.common.json_values import dict_of, text_of
from services.common.kubernetes import CONFIG_MAP, KubeClient, Manifest
from services.common.messages import FleetInstance
from services.common.times import rfc3339

FIELD_MANAGER = "gitops-service-provisioner"
NAME = "gitops-service-installation"
LABEL = "managed-gitops.redhat.com/installation-of"
"""Label with the instance's id."""


class Records:
    """The records of one engine cluster."""

    def __init__(self, cluster: KubeClient) -> None:
        self._cluster = cluster

    async def read(self, instance: FleetInstance) -> Record | None:
        """The instance's record, None if it has none. Raises what the client raises.

        It is read by name, so nobody who may create ConfigMaps elsewhere in the cluster can provide one.
        """
        pages = self._cluster.list_pages(
            CONFIG_MAP, instance.namespace, selector=f"{LABEL}={instance.id}", fields=f"metadata.name={NAME}"
        )
        found = [each async for page in pages for each in page.items]
        return _record_in(found[0]) if found else None

    async def write(self, instance: FleetInstance, record: Record) -> None:
        """Write the record to the instance's namespace, which exists."""
        await self._cluster.apply_object(CONFIG_MAP, manifest_of(instance, record), field_manager=FIELD_MANAGER)


def manifest_of(instance: FleetInstance, record: Record) -> Manifest:
    """The ConfigMap of a record."""
    data = {
        "digest": record.digest,
        "since": rfc3339(record.since) if record.since is not None else "",
        "ill": record.ill,
        "proven": "true" if record.is_proven else "false",
    }
    metadata = {"name": NAME, "namespace": instance.namespace, "labels": {LABEL: instance.id}}
    return {"apiVersion": CONFIG_MAP.api_version, "kind": CONFIG_MAP.kind, "metadata": metadata, "data": data}


def _record_in(manifest: Manifest) -> Record | None:
    """The record in a ConfigMap; None if somebody has made it unreadable."""
    data = dict_of(manifest.get("data"))
    digest, since = text_of(data.get("digest")), text_of(data.get("since"))
    try:
        given = datetime.fromisoformat(since) if since else None
        at = given.astimezone(UTC) if given is not None else None
    except (ValueError, OverflowError):
        return None
    if not digest or (given is not None and given.tzinfo is None):
        return None
    return Record(digest, at, text_of(data.get("ill")), is_proven=data.get("proven") == "true")
