"""The onlooker of the demo and the benchmark, on a real broker."""

from __future__ import annotations

import queue
import uuid
from datetime import UTC, datetime

from devstack.harness.journey import Journeys, Passage, Stage
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.kafka import COMMANDS, Publisher, tenant_key
from services.common.messages import Command, ResourceChanged

DEADLINE_SECONDS = 90


def test_change_when_its_command_is_sent_then_the_onlooker_tells_when_it_was_watched(
    kafka_bootstrap: str, registry_url: str
) -> None:
    passages: queue.Queue[Passage] = queue.Queue()
    journeys = Journeys(kafka_bootstrap, registry_url, passages.put)
    journeys.start()
    publisher = Publisher(kafka_bootstrap, "tests")
    try:
        uid, seen_at = uuid.uuid4().hex, datetime.now(UTC).replace(microsecond=0)
        event = ResourceChanged("v1", "GitOpsDeployment", "web", uid, "1", 1, 1, False, (), "", "{}")
        codec = AvroCodec(SchemaRegistry(registry_url), Command, value_subject(COMMANDS))
        command = codec.encode_message(Command("local", "local", "team-a", seen_at, event))
        publisher.send_message(COMMANDS, tenant_key("local", "team-a"), command).result(DEADLINE_SECONDS)
        while (passage := passages.get(timeout=DEADLINE_SECONDS)).uid != uid:
            pass
        assert passage == Passage(uid, Stage.WATCHED, seen_at)
    finally:
        journeys.stop()
        publisher.close()
