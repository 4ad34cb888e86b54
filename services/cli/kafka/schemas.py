"""``gitopsctl schemas``: registers ``schemas/avro/``, and makes the tokens that the registry lets in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from services.cli.kafka.registry_copy import export_registry, import_registry, subjects_of
from services.cli.kafka.registry_tokens import RegistryRole, issue_token
from services.common.avro import COMPILED_SUBJECTS, SUBJECTS, SchemaRegistry
from services.common.errors import InvalidConfiguration
from services.common.kafka import (
    COMMANDS,
    DEFAULT_ENGINE_CLUSTER,
    TopicPartition,
    count_partitions,
    engine_topic,
    kafka_at,
    observations_topic,
    read_extents,
)
from services.common.settings import KafkaSettings, SchemaRegistrySettings, load
from services.common.startup import await_dependency

app = typer.Typer(help="Avro schemas of the messages.", no_args_is_help=True)

LOGS = (COMMANDS, *(topic(DEFAULT_ENGINE_CLUSTER) for topic in (observations_topic, engine_topic)))
FILE = Annotated[Path, typer.Argument(envvar="SCHEMA_REGISTRY_COPY", help="The copy, a ZIP file.")]
TIMEOUT = typer.Option(30.0, help="Seconds to wait for the registry.")


@app.command()
def apply(timeout: float = TIMEOUT) -> None:
    """Register every schema under BACKWARD compatibility; one that could not read old messages is refused.

    Where the registry is: SCHEMA_REGISTRY_URL, SCHEMA_REGISTRY_CA, SCHEMA_REGISTRY_TOKEN (a writer's). One that is
    empty gives ids out anew, so there may be no messages yet: that needs the brokers (KAFKA_BOOTSTRAP_SERVERS, …).
    """
    registry = SchemaRegistry(load(SchemaRegistrySettings))
    if await_dependency(registry.name, registry.is_empty, timeout):
        _require_new_log(load(KafkaSettings), timeout)
    for subject, file in (SUBJECTS | COMPILED_SUBJECTS).items():
        schema_id = await_dependency(registry.name, partial(registry.register_schema, subject), timeout_seconds=timeout)
        typer.echo(f"{subject}: schema {schema_id} from {file}")


@app.command("export")
def export_(file: FILE, timeout: float = TIMEOUT) -> None:
    """Write all schemas with their ids, which every message names, to a file: what a lost registry is filled from.

    Needs an administrator's SCHEMA_REGISTRY_TOKEN.
    """
    settings = load(SchemaRegistrySettings)
    copy = await_dependency(SchemaRegistry(settings).name, lambda: export_registry(settings), timeout)
    file.write_bytes(copy)
    typer.echo(f"{file}: {_counted(copy)}")


@app.command("import")
def import_(file: FILE, timeout: float = TIMEOUT) -> None:
    """Fill an empty registry with what was exported, each schema under its id. Needs what 'export' needs."""
    settings = load(SchemaRegistrySettings)
    copy = file.read_bytes() if file.is_file() else b""
    registry, counted = SchemaRegistry(settings), _counted(copy)
    if not await_dependency(registry.name, registry.is_empty, timeout):
        raise InvalidConfiguration("the registry has schemas already, maybe under these ids: an empty one is needed")
    await_dependency(registry.name, lambda: import_registry(settings, copy), timeout)
    typer.echo(f"{file}: {counted}, imported")


def _require_new_log(brokers: KafkaSettings, timeout: float) -> None:
    """Raises InvalidConfiguration if there are messages already: each names its schema by an id."""
    if await_dependency(kafka_at(brokers), lambda: _has_messages(brokers), timeout):
        raise InvalidConfiguration(
            "the registry is empty and the log is not: messages name their schemas by ids that 'gitopsctl schemas "
            "import' brings back, and new ones would mean others; see docs/operations/lost-registry.md"
        )


def _has_messages(brokers: KafkaSettings) -> bool:
    counts = count_partitions(brokers, LOGS)
    partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    return any(extent.first < extent.end for extent in read_extents(brokers, "schemas", partitions).values())


def _counted(copy: bytes) -> str:
    found = subjects_of(copy)
    return f"{sum(found.values())} schemas of {len(found)} subjects"


@app.command()
def token(
    holder: Annotated[str, typer.Argument(help="Whose token it is, e.g. watcher; the registry's audit names it.")],
    key: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Private RSA key whose public half it knows.")],
    role: Annotated[RegistryRole, typer.Option(help="What it permits.")] = RegistryRole.READER,
    days: Annotated[int, typer.Option(min=1, help="How long it is valid.")] = 365,
) -> None:
    """Print a token for SCHEMA_REGISTRY_TOKEN. Nothing is asked of the registry."""
    typer.echo(issue_token(key.read_bytes(), holder, role, datetime.now(UTC), timedelta(days=days)))
