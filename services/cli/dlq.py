"""``gitopsctl dlq``: what consumers could not understand."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.console import Console
from rich.table import Table

from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Retry, Unavailable
from services.common.kafka import DEAD_LETTERS, PartitionReader, TopicPartition, count_partitions, kafka_at
from services.common.messages import DeadLetter
from services.common.settings import KafkaSettings, load

app = typer.Typer(help="Dead letters.", no_args_is_help=True)


@app.command(name="list")
def list_letters() -> None:
    """Show every dead letter that is still kept, oldest first."""
    settings = load(KafkaSettings)
    codec = AvroCodec(SchemaRegistry(settings), DeadLetter, value_subject(DEAD_LETTERS))
    table = Table(
        "failed at", "service", "message", "key", "error", title=f"Dead letters of {settings.kafka_bootstrap_servers}"
    )
    for value in _values(settings):
        letter = codec.decode_message(value)
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
    try:
        count = count_partitions(settings, [DEAD_LETTERS])[DEAD_LETTERS]
        with PartitionReader(settings, "gitopsctl") as reader:
            ends = reader.end_offsets(TopicPartition(DEAD_LETTERS, number) for number in range(count))
            yield from (message.value for message in reader.read_messages(ends))
    except Retry as error:
        raise Unavailable(f"{kafka_at(settings)}: {error}") from error
