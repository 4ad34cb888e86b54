"""How commands send messages: what is said to be sent has arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Retry, Unavailable
from services.common.kafka import COMMANDS, Publisher, tenant_key
from services.common.kafka.publisher import PARTITION_BY_KEY
from services.common.messages import Command
from services.common.settings import KafkaSettings
from services.common.telemetry import TRACEPARENT, new_traceparent

CLIENT = "gitopsctl"


def publishing(settings: KafkaSettings, work: Callable[[Publisher], None]) -> None:
    """Do ``work`` with a publisher, and wait until all is delivered. Raises Unavailable."""
    publisher = Publisher(settings, CLIENT)
    try:
        work(publisher)
    except Retry as error:
        raise Unavailable(f"not everything was sent: {error}; run it again") from error
    finally:
        publisher.close()


class Addressed(NamedTuple):
    """A command, and where it goes."""

    command: Command
    key: bytes | None
    partition: int = PARTITION_BY_KEY


def send_commands(settings: KafkaSettings, commands: Iterable[Command]) -> None:
    """Send ``commands`` of tenants as a watcher does; return when all are acknowledged. Raises Unavailable."""
    send_addressed(settings, (Addressed(each, tenant_key(each.workspace, each.namespace)) for each in commands))


def send_addressed(settings: KafkaSettings, messages: Iterable[Addressed]) -> None:
    """Send commands, each to its place; return when all are acknowledged. Raises Unavailable."""

    def send(publisher: Publisher) -> None:
        codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
        outcomes = [
            publisher.send_message(
                COMMANDS, key, codec.encode_message(command), {TRACEPARENT: new_traceparent()}, partition
            )
            for command, key, partition in messages
        ]
        for outcome in outcomes:
            outcome.result()

    publishing(settings, send)
