"""``gitopsctl dlq``: what consumers could not understand."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from confluent_kafka import Consumer, KafkaException, TopicPartition
from rich.console import Console
from rich.table import Table

from services.common.errors import Unavailable
from services.common.kafka import DEAD_LETTERS, client_properties, kafka_at
from services.common.messages import AvroCodec, DeadLetter, SchemaRegistry, value_subject
from services.common.settings import KafkaSettings, load

app = typer.Typer(help="Dead letters.", no_args_is_help=True)

REQUEST_SECONDS = 10.0


@app.command(name="list")
def list_letters() -> None:
    """Show every dead letter that is still kept, oldest first."""
    settings = load(KafkaSettings)
    codec = AvroCodec(SchemaRegistry(settings.schema_registry_url), DeadLetter, value_subject(DEAD_LETTERS))
    table = Table(
        "failed at", "service", "message", "key", "error", title=f"Dead letters of {settings.kafka_bootstrap_servers}"
    )
    for value in _values(settings):
        letter = codec.decode(value)
        table.add_row(
            letter.failed_at.isoformat(timespec="seconds"),
            letter.service,
            f"{letter.topic}[{letter.partition}]@{letter.offset}",
            (letter.key or b"").decode(errors="replace"),
            letter.error,
        )
    Console().print(table)


def _values(settings: KafkaSettings) -> Iterator[bytes | None]:
    """Every message of the topic up to its present end."""
    consumer = Consumer(client_properties(settings) | {"group.id": "gitopsctl", "enable.auto.commit": False})
    try:
        topic = consumer.list_topics(DEAD_LETTERS, timeout=REQUEST_SECONDS).topics[DEAD_LETTERS]
        for partition in topic.partitions:
            yield from _partition(consumer, TopicPartition(DEAD_LETTERS, partition))
    except KafkaException as error:
        raise Unavailable(f"{kafka_at(settings)}: {error.args[0]}") from error
    finally:
        consumer.close()


def _partition(consumer: Consumer, partition: TopicPartition) -> Iterator[bytes | None]:
    first, end = consumer.get_watermark_offsets(partition, timeout=REQUEST_SECONDS)
    partition.offset = first
    consumer.assign([partition])
    position = first
    while position < end:
        message = consumer.poll(REQUEST_SECONDS)
        if message is None:
            raise Unavailable(f"{DEAD_LETTERS}[{partition.partition}] ended at {position}, expected {end}")
        position = (message.offset() or 0) + 1
        yield message.value()
