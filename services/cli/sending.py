"""How commands send messages: what is said to be sent has arrived."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError

from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Retry, Unavailable
from services.common.kafka import COMMANDS, Publisher, check_login, kafka_at, tenant_key
from services.common.kafka.publisher import PARTITION_BY_KEY
from services.common.messages import Command
from services.common.settings import KafkaSettings
from services.common.startup import await_dependency
from services.common.telemetry import TRACEPARENT, new_traceparent

CLIENT = "gitopsctl"
ACKNOWLEDGED_WITHIN = 30.0
"""Seconds until the brokers answer, and again until they have acknowledged what is sent."""


class Unacknowledged(Unavailable):
    """Not all that was sent is acknowledged: each message may have arrived all the same, or not."""


def publishing(
    settings: KafkaSettings,
    work: Callable[[Publisher], None],
    timeout: float = ACKNOWLEDGED_WITHIN,
    advice: str = "; run it again",
) -> None:
    """Do ``work`` with a publisher once the brokers answer, and wait until all is delivered.

    ``advice``: what to do if that is not acknowledged.

    Raises:
        NoPermission: the brokers refuse our credentials; nothing was sent.
        Unavailable: they do not answer; nothing was sent.
        Unacknowledged: they did, and have not acknowledged everything after ``timeout`` seconds.
    """
    try:
        await_dependency(kafka_at(settings), lambda: check_login(settings), timeout)
    except Unavailable as error:
        raise Unavailable(f"{error}; nothing was sent") from error
    complaints = deque[KafkaError](maxlen=1)  # there is one for each attempt to connect
    publisher = Publisher(settings, CLIENT, timeout, complaints.append)
    try:
        work(publisher)
    except Retry as error:
        reason = f" ({complaints[0].str()})" if complaints else ""
        raise Unacknowledged(f"{error}{reason}{advice}") from error
    finally:
        publisher.close()


class Addressed(NamedTuple):
    """A command, and where it goes."""

    command: Command
    key: bytes | None
    partition: int = PARTITION_BY_KEY


def send_commands(settings: KafkaSettings, commands: Iterable[Command]) -> None:
    """Send ``commands`` of tenants as a watcher does; return when all are acknowledged. Raises as publishing."""
    send_addressed(settings, (Addressed(each, tenant_key(each.workspace, each.namespace)) for each in commands))


def send_addressed(settings: KafkaSettings, messages: Iterable[Addressed]) -> None:
    """Send commands, each to its place; return when all are acknowledged. Raises as publishing."""

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
