"""``gitopsctl dlq``: what consumers could not understand."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from confluent_kafka import Consumer, KafkaException, TopicPartition
from rich.console import Console
from rich.table import Table

from services.common.errors import Unavailable
from services.common.kafka import DEAD_LETTERS
from services.common.messages import AvroCodec, DeadLetter, SchemaRegistry

app = typer.Typer(help="Dead letters.", no_args_is_help=True)

REQUEST_SECONDS = 10.0

BOOTSTRAP = typer.Option(..., envvar="KAFKA_BOOTSTRAP_SERVERS", help="Kafka brokers, host:port, comma separated.")
REGISTRY = typer.Option(..., envvar="SCHEMA_REGISTRY_URL", help="Base of a Confluent-compatible registry API.")


@app.command(name="list")
def list_letters(bootstrap_servers: str = BOOTSTRAP, registry_url: str = REGISTRY) -> None:
    """Show every dead letter that is still kept, oldest first."""
    codec = AvroCodec(SchemaRegistry(registry_url), DeadLetter, f"{DEAD_LETTERS}-value")
    table = Table("failed at", "service", "message", "key", "error", title=f"Dead letters of {bootstrap_servers}")
    for value in _values(bootstrap_servers):
        letter = codec.decode(value)
        table.add_row(
            letter.failed_at.isoformat(timespec="seconds"),
            letter.service,
            f"{letter.topic}[{letter.partition}]@{letter.offset}",
            (letter.key or b"").decode(errors="replace"),
            letter.error,
        )
    Console().print(table)


def _values(bootstrap_servers: str) -> Iterator[bytes | None]:
    """Every message of the topic up to its present end."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "gitopsctl", "enable.auto.commit": False})
    try:
        topic = consumer.list_topics(DEAD_LETTERS, timeout=REQUEST_SECONDS).topics[DEAD_LETTERS]
        for partition in topic.partitions:
            yield from _partition(consumer, TopicPartition(DEAD_LETTERS, partition))
    except KafkaException as error:
        raise Unavailable(f"Kafka at {bootstrap_servers}: {error.args[0]}") from error
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
