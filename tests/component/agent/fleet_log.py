"""Plays the connector and the planner: engine instances into a topic."""

from __future__ import annotations

import dataclasses
import io
import json
from datetime import UTC, datetime

import fastavro
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from services.common.avro import frame
from services.common.messages import FleetInstance
from services.common.package_data import AVRO_SCHEMAS

VALUE = json.loads((AVRO_SCHEMAS / "compiled" / "fleet_value.avsc").read_text())


class FleetLog:
    """The topic of engine instances, written as Debezium writes it."""

    def __init__(self, bootstrap: str, registry_url: str, topic: str) -> None:
        self.topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        client = SchemaRegistryClient({"url": registry_url, "timeout": 5})
        self._schema_id = client.register_schema(f"{topic}-value", Schema(json.dumps(VALUE), "AVRO"))
        self._schema = fastavro.parse_schema(VALUE)

    def write(self, *rows: FleetInstance) -> None:
        """Append rows and wait until they are in the log."""
        now = datetime.now(UTC).isoformat()
        for each in rows:
            columns = dataclasses.asdict(each) | {"created_at": now, "ordered_at": now, "__deleted": "false"}
            buffer = io.BytesIO()
            fastavro.schemaless_writer(buffer, self._schema, columns)
            self.write_raw(each.id, frame(self._schema_id, buffer.getvalue()))
        assert self._producer.flush(20) == 0

    def write_raw(self, key: str, value: bytes) -> None:
        """Append bytes."""
        self._producer.produce(self.topic, key=key, value=value)
        self._producer.poll(0)
