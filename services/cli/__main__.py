"""``gitopsctl``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import structlog
import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from services.common.errors import InvalidConfiguration, Retry, Unavailable
from services.common.startup import run

DISTRIBUTION = "gitops-service"

GROUPS = {
    "topics": "services.cli.kafka.topics",
    "schemas": "services.cli.kafka.schemas",
    "database": "services.cli.installation.database",
    "engine-clusters": "services.cli.fleet.engine_clusters",
    "engines": "services.cli.fleet.engines",
    "workspaces": "services.cli.installation.workspaces",
    "tenants": "services.cli.tenants",
    "orphans": "services.cli.guards.orphans",
    "rebuild": "services.cli.rebuild.rebuild",
    "replay": "services.cli.replay.replay",
    "keys": "services.cli.sealing.keys",
    "connector": "services.cli.installation.connector",
    "crds": "services.cli.installation.crds",
    "rbac": "services.cli.installation.rbac",
    "dlq": "services.cli.dead_letters.dlq",
    "audit": "services.cli.audit",
    "resync": "services.cli.guards.resync",
    "look-again": "services.cli.replay.look_again",
    "describe": "services.cli.describe.describe",
}
"""Module of each group of commands; each has a typer application named ``app``."""

COMMANDS = {"backup": "services.cli.backups.backup", "restore": "services.cli.backups.restore"}
"""Module of each command that is in no group; its typer application, named ``app``, has that command alone."""

GROUPS_OF_CHECKOUT = "devstack.commands"
"""Package that holds ``GROUPS`` of its own, for developers; a release does not contain it."""


def groups() -> dict[str, str]:
    """Every group of commands that is installed: in a checkout also the developers'."""
    if find_spec(GROUPS_OF_CHECKOUT.partition(".")[0]) is None:
        return GROUPS
    developers: dict[str, str] = import_module(GROUPS_OF_CHECKOUT).GROUPS
    return developers | GROUPS


class LazyGroup(TyperGroup):
    """Imports commands when they are asked for: all of them take a second, of which each group needs a part."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Names of all groups, and of the commands that are in none."""
        return [*groups(), *COMMANDS]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """The group or command ``cmd_name``, imported."""
        if cmd_name in COMMANDS:
            return get_command(import_module(COMMANDS[cmd_name]).app)
        module = groups().get(cmd_name)
        if module is None:
            return None
        group = get_group(import_module(module).app)
        group.name = cmd_name
        return group


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gitopsctl {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def gitopsctl(
    _: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Operate the GitOps Service."""


def main() -> None:
    """Entry point: errors meant for people end in one line and an exit code, whatever command raised them."""
    run("gitopsctl", _run_command)


def _run_command() -> None:
    """Run the command: a Retry that it did not try again becomes Unavailable, and logs go to stderr."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    require_utf8(sys.argv)
    try:
        app()
    except Retry as error:
        raise Unavailable(str(error)) from error


def require_utf8(arguments: Sequence[str]) -> None:
    """Refuse, for all commands, what neither the database nor a message can hold. Raises InvalidConfiguration.

    Args:
        arguments: as ``sys.argv``, the program's name first.
    """
    for before, argument in pairwise(arguments):
        try:
            argument.encode()
        except UnicodeEncodeError:  # bytes that the locale cannot decode are surrogates in it
            raise InvalidConfiguration(
                f"what follows '{before}' is not UTF-8: {argument!r}; copy the name from a list, or type it in UTF-8"
            ) from None


if __name__ == "__main__":
    main()
