"""Kafka as the services use it: topics, an acknowledged producer, dead letters."""

from services.common.kafka.acls import Rights, load_acls
from services.common.kafka.connection import Brokers, client_properties, kafka_at
from services.common.kafka.dead_letters import DeadLetters
from services.common.kafka.login import check_login
from services.common.kafka.publisher import Publisher
from services.common.kafka.topics import (
    COMMANDS,
    DEAD_LETTERS,
    ENGINE,
    OBSERVATIONS,
    WORKSPACE,
    Topic,
    load_topics,
    tenant_key,
)

__all__ = [
    "COMMANDS",
    "DEAD_LETTERS",
    "ENGINE",
    "OBSERVATIONS",
    "WORKSPACE",
    "Brokers",
    "DeadLetters",
    "Publisher",
    "Rights",
    "Topic",
    "check_login",
    "client_properties",
    "kafka_at",
    "load_acls",
    "load_topics",
    "tenant_key",
]
