"""An operator: follows a runbook of docs/operations to the letter, and does by hand what no command of ours does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import string
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import psycopg
from rich.console import Console

from devstack.components.postgres import INIT, superusers_variables
from devstack.harness.hosted import HostedStack
from devstack.paths import DOCS
from devstack.stack.identities import PRINCIPALS
from devstack.toolchain.install import etcd_tools, psql
from devstack.toolchain.progress_bar import reporter
from services.cli.kafka.topics import password_variable
from services.cli.rebuild.streamed_topics import StreamedTopics
from services.common.avro import SchemaRegistry
from services.common.errors import Unavailable

RUNBOOKS = DOCS / "operations"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
STEP = re.compile(r"# (\d)\. ")
REMARK = re.compile(r"\s+# .*")

PROGRAMS: Mapping[str, Callable[[], Sequence[str]]] = {
    "gitopsctl": lambda: (sys.executable, "-m", "services.cli"),
    "psql": lambda: (str(psql()), "--no-psqlrc", "--set", "ON_ERROR_STOP=1"),
    "etcdctl": lambda: (str(_etcd_tools() / "etcdctl"),),
    "etcdutl": lambda: (str(_etcd_tools() / "etcdutl"),),
}
"""What runbooks have typed, and where the local stack has it."""

AGENTS = ("agent-1", "agent-2")
EDGES = ("watcher", *AGENTS)
"""Of a stack with one watcher: who talks to a Kubernetes API server."""

Action = Callable[[], object]


def commands_of(page: str) -> list[str]:
    """What a runbook has an operator do, in its order: commands, and numbered comments for what is done by hand."""
    found = BLOCK.search((RUNBOOKS / page).read_text())
    if found is None:
        raise ValueError(f"{page} has no commands")
    return [line if STEP.match(line) else REMARK.sub("", line) for line in found[1].splitlines()]


class Drill(NamedTuple):
    """A runbook that is followed, and since when (monotonic, seconds)."""

    page: str
    since: float


class Operator:
    """Of ``stack``. ``told`` is what each command has printed, ``ended`` its exit code.

    ``shell`` has the variables of whoever types them; ``drill`` is the runbook that was begun last.
    """

    drill: Drill | None = None

    def __init__(self, stack: HostedStack, backups: Path, **shell: str) -> None:
        """``shell``: variables that are otherwise than what ``dev env`` prints."""
        self._stack, self.told, self.ended = stack, dict[str, str](), dict[str, int]()
        secrets = stack.state.secrets()
        passwords = {password_variable(name): secrets[f"kafka-{name}"] for name in PRINCIPALS}
        self.shell = stack.environment | passwords | {"BACKUP_STORE": str(backups)}
        self.shell |= {"SCHEMA_REGISTRY_COPY": str(backups.with_name("registry.zip"))}
        self.shell |= {"ENGINE_KUBECONFIGS": f"default={stack.environment['KUBECONFIG']}"}
        self.new_keys = {half: backups.with_name(f"{half}.json") for half in ("PRIVATE", "PUBLIC")}
        """Where an operator makes sealing keys: elsewhere than where agents and watchers have theirs."""
        self.shell |= {f"SEALING_{half}_KEYS": str(file) for half, file in self.new_keys.items()}
        self.shell |= {"DATABASE_SUPERUSER_URL": self._superuser_url("gitops")} | shell

    def follow_runbook(
        self,
        page: str,
        by_hand: Mapping[int, Sequence[Action]],
        before: Callable[[str], None] = lambda _: None,
        accepted: Collection[int] = (0,),
    ) -> None:
        """``by_hand`` is done at each number; ``before`` is called before each command.

        Raises Unavailable if a command ends with another code than those ``accepted``, ValueError if the runbook has
        other numbers than ``by_hand``.
        """
        lines = commands_of(page)
        if [int(step[1]) for line in lines if (step := STEP.match(line))] != sorted(by_hand):
            raise ValueError(f"{page} has other steps than {sorted(by_hand)}")
        self.drill = Drill(page, time.monotonic())
        for line in lines:
            if (step := STEP.match(line)) is not None:
                for action in by_hand[int(step[1])]:
                    action()
            else:
                before(line)
                self.told[line] = self.run(line, accepted)

    def run(self, line: str, accepted: Collection[int] = (0,), **variables: str) -> str:
        """Type a command of one of :data:`PROGRAMS`, with these variables set; returns what it printed.

        Raises Unavailable if it ends with another code than those ``accepted``.
        """
        environment = os.environ | self.shell | variables
        program, *arguments = shlex.split(string.Template(line).substitute(environment))
        ended = subprocess.run(
            [*PROGRAMS[program](), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.ended[line] = ended.returncode
        if ended.returncode not in accepted:
            raise Unavailable(f"{line}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def stop(self, *names: str) -> Action:
        """End these processes, without a word to them."""
        return partial(_each, self.kill_process, names)

    def start(self, *names: str) -> Action:
        """Start these processes side by side; each is ready then."""
        return partial(_side_by_side, self.start_process, names)

    def kill_process(self, name: str) -> None:
        """End it. Raises InvalidConfiguration if it does not run."""
        self._stack.kill(name)

    def start_process(self, name: str) -> None:
        """Start it; it is ready then. Raises InvalidConfiguration if it runs, Unavailable."""
        self._stack.start(name)

    def restart_process(self, name: str) -> None:
        """Start it anew, whether it has ended by itself or not."""
        if name in self._stack.pids():
            self.kill_process(name)
        self.start_process(name)

    def start_ended(self) -> None:
        """Start what has ended by itself, in the order in which it was declared: that of who needs whom."""
        for process in self._stack.processes():
            if process["phase"] == "died":
                self.start_process(process["name"])

    def restart(self, *names: str) -> Sequence[Action]:
        """One after the other."""
        return [action for name in names for action in (self.stop(name), self.start(name))]

    def lose_disk(self, *names: str) -> Action:
        """Delete all that these processes, which do not run, have kept."""
        return partial(_each, lambda name: shutil.rmtree(self._stack.state.root / name), names)

    def lose_database(self) -> None:
        """All of it, with what belongs to it in the cluster; an empty one takes its place."""
        with self.superuser() as superuser:
            superuser.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
            superuser.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            superuser.execute("DROP DATABASE gitops WITH (FORCE)")
        initialize_database(self._stack)

    def superuser(self, database: str = "postgres") -> psycopg.Connection:
        """Of the database cluster."""
        return psycopg.connect(self._superuser_url(database), autocommit=True)

    def _superuser_url(self, database: str) -> str:
        parts = urlsplit(self._stack.environment["DATABASE_OWNER_URL"])
        place = f"postgres:{self._stack.state.secrets()['postgres']}@{parts.hostname}:{parts.port}"
        return urlunsplit(parts._replace(netloc=place, path=f"/{database}"))

    def topics(self) -> StreamedTopics:
        """What is streamed."""
        return StreamedTopics(self._stack.log, SchemaRegistry(self._stack.log))

    def owner(self) -> psycopg.Connection:
        """Of the database."""
        return psycopg.connect(self._stack.environment["DATABASE_OWNER_URL"])


def initialize_database(stack: HostedStack) -> None:
    """Have ``psql`` carry out what a database needs before its first migration; safe to run again."""
    command = [*PROGRAMS["psql"](), "--quiet", "--file", str(INIT)]
    subprocess.run(command, env=os.environ | superusers_shell(stack), check=True)


def superusers_shell(stack: HostedStack) -> dict[str, str]:
    """Variables with which an operator types what a superuser of the database may, with ``psql`` in the path."""
    url, program = urlsplit(stack.environment["DATABASE_OWNER_URL"]), psql()
    is_encrypted = "sslrootcert" in url.query
    return superusers_variables(url.port or 0, stack.state.secrets(), is_encrypted=is_encrypted) | {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(program.parents[1] / "lib"),
    }


def _etcd_tools() -> Path:
    with reporter(Console(stderr=True)) as report:
        return etcd_tools(report)


def _each(act: Callable[[str], None], names: Sequence[str]) -> None:
    for name in names:
        act(name)


def _side_by_side(act: Callable[[str], None], names: Sequence[str]) -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(act, names))
