"""Kafka as the services use it: topics, an acknowledged producer, dead letters."""

from services.common.kafka.dead_letters import DeadLetters
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
    "DeadLetters",
    "Publisher",
    "Topic",
    "load_topics",
    "tenant_key",
]
