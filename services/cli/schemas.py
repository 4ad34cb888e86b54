"""``gitopsctl schemas``: registers ``schemas/avro/``."""

from __future__ import annotations

from functools import partial

import typer

from services.common.avro import COMPILED_SUBJECTS, SUBJECTS, SchemaRegistry
from services.common.startup import await_dependency

app = typer.Typer(help="Avro schemas of the messages.", no_args_is_help=True)

URL = typer.Option(..., envvar="SCHEMA_REGISTRY_URL", help="Base of a Confluent-compatible registry API.")
TIMEOUT = typer.Option(30.0, help="Seconds to wait for the registry.")


@app.command()
def apply(url: str = URL, timeout: float = TIMEOUT) -> None:
    """Register every schema under BACKWARD compatibility; one that could not read old messages is refused."""
    registry = SchemaRegistry(url)
    for subject, file in (SUBJECTS | COMPILED_SUBJECTS).items():
        schema_id = await_dependency(registry.name, partial(registry.register_schema, subject), timeout_seconds=timeout)
        typer.echo(f"{subject}: schema {schema_id} from {file}")
