"""``gitopsctl schemas``: registers ``schemas/avro/``, and makes the tokens that the registry lets in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from services.cli.registry_tokens import RegistryRole, issue_token
from services.common.avro import COMPILED_SUBJECTS, SUBJECTS, SchemaRegistry
from services.common.settings import SchemaRegistrySettings, load
from services.common.startup import await_dependency

app = typer.Typer(help="Avro schemas of the messages.", no_args_is_help=True)

TIMEOUT = typer.Option(30.0, help="Seconds to wait for the registry.")


@app.command()
def apply(timeout: float = TIMEOUT) -> None:
    """Register every schema under BACKWARD compatibility; one that could not read old messages is refused.

    Where the registry is: SCHEMA_REGISTRY_URL, SCHEMA_REGISTRY_CA, SCHEMA_REGISTRY_TOKEN (a writer's).
    """
    registry = SchemaRegistry(load(SchemaRegistrySettings))
    for subject, file in (SUBJECTS | COMPILED_SUBJECTS).items():
        schema_id = await_dependency(registry.name, partial(registry.register_schema, subject), timeout_seconds=timeout)
        typer.echo(f"{subject}: schema {schema_id} from {file}")


@app.command()
def token(
    holder: Annotated[str, typer.Argument(help="Whose token it is, e.g. watcher; the registry's audit names it.")],
    key: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Private RSA key whose public half it knows.")],
    role: Annotated[RegistryRole, typer.Option(help="What it permits.")] = RegistryRole.READER,
    days: Annotated[int, typer.Option(min=1, help="How long it is valid.")] = 365,
) -> None:
    """Print a token for SCHEMA_REGISTRY_TOKEN. Nothing is asked of the registry."""
    typer.echo(issue_token(key.read_bytes(), holder, role, datetime.now(UTC), timedelta(days=days)))
