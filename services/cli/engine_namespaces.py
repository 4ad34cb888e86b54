"""The option that names an installation's first engine instances and their namespaces."""

from __future__ import annotations

import typer

from services.common.errors import InvalidConfiguration
from services.common.settings import parse_engine_namespaces

NAMESPACES = typer.Option(
    ..., envvar="ENGINE_NAMESPACES", help="id=namespace, comma separated; a bare namespace is its own id."
)


def engine_namespaces(text: str) -> dict[str, str]:
    """Namespace by engine instance id. Raises InvalidConfiguration."""
    try:
        return parse_engine_namespaces(text)
    except ValueError as error:
        raise InvalidConfiguration(f"ENGINE_NAMESPACES: {error}") from error
