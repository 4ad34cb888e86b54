"""``gitopsctl``."""

from __future__ import annotations

from importlib import import_module

import typer
from typer.core import TyperGroup
from typer.main import get_group

from services.common.startup import run

GROUPS = {
    "demo": "services.cli.demo.command",
    "dev": "services.cli.dev.commands",
    "toolchain": "services.cli.dev.toolchain_commands",
    "topics": "services.cli.topics",
    "schemas": "services.cli.schemas",
    "database": "services.cli.database",
    "engines": "services.cli.engines",
    "keys": "services.cli.keys",
    "connector": "services.cli.connector",
    "crds": "services.cli.crds",
    "rbac": "services.cli.rbac",
    "dlq": "services.cli.dlq",
    "generate": "services.cli.generate",
}
"""Module of each group of commands; each has a typer application named ``app``."""


class LazyGroup(TyperGroup):
    """Imports a group of commands when it is asked for: together they take a second, one of them a tenth."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Names of all groups."""
        return list(GROUPS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperGroup | None:  # type: ignore[override]
        """The group ``cmd_name``, imported."""
        if cmd_name not in GROUPS:
            return None
        group = get_group(import_module(GROUPS[cmd_name]).app)
        group.name = cmd_name
        return group


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)


@app.callback()
def gitopsctl() -> None:
    """Operate and develop the GitOps Service."""


def main() -> None:
    """Entry point: errors meant for people end in one line and an exit code, whatever command raised them."""
    run("gitopsctl", app)


if __name__ == "__main__":
    main()
