"""Options that say what a command is about, the same for all commands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import typer
from pydantic import TypeAdapter

from services.common.errors import InvalidConfiguration
from services.kinds.registry import REGISTRY, Registry
from services.planner.rows.tenants import TenantName

TENANT = typer.Option(None, "--tenant", metavar="WORKSPACE/NAMESPACE", help="Only of this tenant.")
SINCE = typer.Option(
    None, "--since", metavar="TIME", help="Only from then on: 2026-05-04T12:00:00Z, or how long ago, as P1D or PT2H."
)


class ResourceFilter(NamedTuple):
    """One resource of any tenant."""

    kind: str
    name: str


def parse_tenant(text: str) -> TenantName:
    """Workspace and namespace. Raises InvalidConfiguration."""
    workspace, _, namespace = text.partition("/")
    if not workspace or not namespace or "/" in namespace:
        raise InvalidConfiguration(f"--tenant: '{text}' is not WORKSPACE/NAMESPACE")
    return (workspace, namespace)


def parse_resource(text: str, kinds: Registry = REGISTRY) -> ResourceFilter:
    """Kind and name; the kind as it is written in a manifest, or as kubectl takes it. Raises InvalidConfiguration."""
    written, _, name = text.partition("/")
    if not name or "/" in name:
        raise InvalidConfiguration(f"--resource: '{text}' is not KIND/NAME")
    return ResourceFilter(parse_kind(written, "--resource", kinds), name)


def parse_kind(text: str, option: str = "--kind", kinds: Registry = REGISTRY) -> str:
    """A kind's name, as it is written in a manifest, or as kubectl takes it. Raises InvalidConfiguration."""
    kind_by_word = {
        word.lower(): kind.name for kind in kinds.custom for word in (kind.name, kind.plural, *kind.short_names)
    }
    if text.lower() not in kind_by_word or not text:
        names = ", ".join(kind.name for kind in kinds.custom)
        raise InvalidConfiguration(f"{option}: there is no kind '{text}'; there are {names}")
    return kind_by_word[text.lower()]


def parse_since(text: str, now: datetime, option: str = "--since") -> datetime:
    """A time, or so long before ``now``. Raises InvalidConfiguration."""
    try:
        if text.upper().startswith("P"):
            return now - TypeAdapter(timedelta).validate_python(text)
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):  # ValidationError is a ValueError
        raise InvalidConfiguration(
            f"{option}: '{text}' is neither a time (2026-05-04T12:00:00Z) nor a duration (P1D, PT2H)"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
