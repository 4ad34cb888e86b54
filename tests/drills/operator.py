"""An operator: follows a runbook of docs/operations to the letter, and does by hand what no command of ours does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from devstack.harness.hosted import HostedStack
from devstack.paths import DOCS
from devstack.stack.identities import PRINCIPALS
from services.cli.topics import password_variable

RUNBOOKS = DOCS / "operations"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
STEP = re.compile(r"# (\d)\. ")

AGENTS = ("agent-1", "agent-2")
EDGES = ("watcher", *AGENTS)
INIT = """
CREATE DATABASE gitops OWNER gitops_owner;
REVOKE ALL ON DATABASE gitops FROM PUBLIC;
GRANT CONNECT ON DATABASE gitops TO gitops_planner, gitops_replication, gitops_backup
"""

Action = Callable[[], None]


def commands_of(page: str) -> list[str]:
    """What a runbook has an operator do, in its order: commands, and numbered comments for what is not ours."""
    found = BLOCK.search((RUNBOOKS / page).read_text())
    assert found is not None, f"{page} has no commands"
    return found[1].splitlines()


class Operator:
    """Of ``stack``. ``told`` is what each command has printed."""

    def __init__(self, stack: HostedStack, backups: Path) -> None:
        self._stack, self.told = stack, dict[str, str]()
        secrets = stack.state.secrets()
        passwords = {password_variable(name): secrets[f"kafka-{name}"] for name in PRINCIPALS}
        self._environment = stack.environment | passwords | {"BACKUP_STORE": str(backups)}

    def follow_runbook(
        self, page: str, by_hand: Mapping[int, Sequence[Action]], before: Callable[[str], None] = lambda _: None
    ) -> None:
        """``by_hand`` is done at each number; ``before`` is called before each command."""
        numbers = []
        for line in commands_of(page):
            if (step := STEP.match(line)) is not None:
                numbers.append(int(step[1]))
                for action in by_hand[numbers[-1]]:
                    action()
            else:
                before(line)
                self.told[line] = self.run(line)
        assert numbers == sorted(by_hand)

    def run(self, line: str) -> str:
        """Type a command; returns what it printed."""
        program, *arguments = shlex.split(line, comments=True)
        assert program == "gitopsctl"
        ended = subprocess.run(
            [sys.executable, "-m", "services.cli", *arguments],
            env=os.environ | self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{line}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def stop(self, *names: str) -> Action:
        """End these processes, without a word to them."""
        return lambda: [self._stack.kill(name) for name in names] and None

    def start(self, *names: str) -> Action:
        """Start these processes; each is ready then."""
        return lambda: [self._stack.start(name) for name in names] and None

    def restart(self, *names: str) -> Sequence[Action]:
        """One after the other."""
        return [action for name in names for action in (self.stop(name), self.start(name))]

    def lose_disk(self, *names: str) -> Action:
        """Delete all that these processes, which do not run, have kept."""
        return lambda: [shutil.rmtree(self._stack.state.root / name) for name in names] and None

    def lose_database(self) -> None:
        """All of it, with what belongs to it in the cluster; an empty one takes its place."""
        with self.superuser() as superuser:
            superuser.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
            superuser.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            superuser.execute("DROP DATABASE gitops WITH (FORCE)")
            for statement in INIT.split(";"):
                superuser.execute(statement)

    def superuser(self, database: str = "postgres") -> psycopg.Connection:
        """Of the database cluster."""
        parts = urlsplit(self._stack.environment["DATABASE_OWNER_URL"])
        place = f"postgres:{self._stack.state.secrets()['postgres']}@{parts.hostname}:{parts.port}"
        return psycopg.connect(urlunsplit(parts._replace(netloc=place, path=f"/{database}")), autocommit=True)

    def owner(self) -> psycopg.Connection:
        """Of the database."""
        return psycopg.connect(self._stack.environment["DATABASE_OWNER_URL"])
