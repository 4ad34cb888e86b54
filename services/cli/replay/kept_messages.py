"""Since when a topic still has all that was written to it, by its retention."""

from __future__ import annotations

from datetime import datetime

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from services.cli.replay.complete_lists import CLOCKS_DIFFER_SECONDS, REQUEST_SECONDS
from services.common.errors import Retry
from services.common.kafka import Brokers, client_properties


def is_kept_since(moment: datetime, now: datetime, retention_ms: int, retention_bytes: int) -> bool:
    """Whether nothing that was written at ``moment`` or later can have been removed by now.

    A log that is cut off at its size may have lost anything. One that is not cut off at all (-1) has lost what somebody
    removed by hand.
    """
    if retention_ms < 0 or retention_bytes >= 0:
        return False
    return now.timestamp() - moment.timestamp() <= retention_ms / 1000 - CLOCKS_DIFFER_SECONDS


def has_kept(brokers: Brokers, topic: str, moment: datetime, now: datetime) -> bool:
    """The same of a topic as the brokers have it. Raises Retry if they do not answer."""
    admin = AdminClient(client_properties(brokers) | {"log_level": 0})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        settings = admin.describe_configs([resource])[resource].result(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        raise Retry(f"Kafka does not answer, asked for settings of {topic}: {error.args[0].str()}") from error
    return is_kept_since(moment, now, int(settings["retention.ms"].value), int(settings["retention.bytes"].value))
