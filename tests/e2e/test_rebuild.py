"""The database is lost: the runbook's commands build it from the logs, and nothing is deployed anew."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import psycopg

from devstack.harness.hosted import HostedStack
from devstack.paths import DOCS
from services.common.kubernetes import Manifest
from tests.e2e.api import Api
from tests.e2e.tenant import Tenant, application_name, find

RUNBOOK = DOCS / "operations" / "lost-database.md"
GHOST = "00000000-0000-4000-8000-00000000dead"
"""uid of a resource of which no log tells."""

HAUNT = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at, owner_kind)
SELECT engine_instance_id, kind, namespace, replace(name, %(uid)s, %(ghost)s), workspace, tenant_namespace, lane, wave,
       desired, replace(manifest, %(uid)s, %(ghost)s), digest, trace_id, seen_at, updated_at, owner_kind
  FROM engine_resources WHERE name = %(name)s AND kind = 'Application'
"""
DRAIN = "UPDATE engine_instances SET state = %s WHERE namespace = %s"


def steps() -> list[str]:
    """What the runbook has an operator do, in its order: commands, and comments for what is not ours."""
    return re.search(r"```sh\n(.*?)```", RUNBOOK.read_text(), re.DOTALL).group(1).splitlines()  # type: ignore[union-attr]


class Operator:
    """Who has lost the database of ``stack``, and follows the runbook."""

    def __init__(self, stack: HostedStack, drained: str) -> None:
        """``drained``: namespace of the instance that gets no new tenants."""
        self._stack, self._drained, self.told = stack, drained, dict[str, str]()

    def follow_runbook(self, before: Callable[[str], None]) -> None:
        """``before`` is called before each command."""
        actions = {"1": self._stop, "2": self._lose_database, "3": self._drain, "4": self._start}
        for line in steps():
            if line.startswith("# "):
                actions[line[2]]()
            else:
                before(line)
                self.told[line] = self._run(*line.split())

    def mend(self) -> None:
        """As it was for other tests."""
        with self._owner() as owner:
            owner.execute(DRAIN, ["accepting", self._drained])

    def haunt(self, created: Manifest) -> None:
        """Have the engine make an Application like that of ``created``, for a resource that never was."""
        with self._owner() as owner:
            names = {"uid": created["metadata"]["uid"], "ghost": GHOST, "name": application_name(created)}
            assert owner.execute(HAUNT, names).rowcount == 1

    def _run(self, program: str, *arguments: str) -> str:
        assert program == "gitopsctl"
        ended = subprocess.run(
            [sys.executable, "-m", "services.cli", *arguments],
            env=os.environ | self._stack.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def _stop(self) -> None:
        self._stack.kill("planner")

    def _start(self) -> None:
        self._stack.start("planner")
        for name in ("watcher", "agent-1", "agent-2"):
            self._stack.kill(name)
            self._stack.start(name)

    def _lose_database(self) -> None:
        """All of it, with what belongs to it in the cluster."""
        password = self._stack.state.recall("secrets")["postgres"]
        parts = urlsplit(self._stack.environment["DATABASE_OWNER_URL"])
        place = f"postgres:{password}@{parts.hostname}:{parts.port}"
        with psycopg.connect(urlunsplit(parts._replace(netloc=place, path="/postgres")), autocommit=True) as superuser:
            superuser.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
            superuser.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            superuser.execute("DROP DATABASE gitops WITH (FORCE)")
            superuser.execute("CREATE DATABASE gitops OWNER gitops_owner")
            superuser.execute("REVOKE ALL ON DATABASE gitops FROM PUBLIC")
            superuser.execute("GRANT CONNECT ON DATABASE gitops TO gitops_planner, gitops_replication")

    def _drain(self) -> None:
        with self._owner() as owner:
            owner.execute(DRAIN, ["draining", self._drained])

    def _owner(self) -> psycopg.Connection:
        return psycopg.connect(self._stack.environment["DATABASE_OWNER_URL"])


def identity(tenant: Tenant, created: Manifest) -> tuple[str, str, int]:
    """Which Application it is, where, and how often it was changed."""
    meta = (find(tenant.applications.objects, application_name(created)) or {})["metadata"]
    return meta["namespace"], meta["uid"], meta["generation"]


async def test_database_when_lost_then_the_runbook_brings_it_back_and_only_what_nobody_asks_for_goes(
    stack: HostedStack, tenant: Tenant, api: Api
) -> None:
    kept, manual = await tenant.create("kept"), await tenant.create("manual", type="manual")
    await tenant.until_status("Synced", "kept", sync__status="Synced")
    await api.sync_run("once", deployment="manual")
    ran = await api.until_phase("once", "Succeeded")
    await tenant.until_status("Synced", "manual", sync__status="Synced")
    operator = Operator(stack, (await tenant.application_of(kept))["metadata"]["namespace"])
    ghost: Manifest = {"metadata": {"uid": GHOST}}
    await asyncio.to_thread(operator.haunt, kept)
    await tenant.application_of(ghost)
    before = {created["metadata"]["name"]: identity(tenant, created) for created in (kept, manual)}
    loop, late = asyncio.get_running_loop(), list[Manifest]()

    def change_meanwhile(command: str) -> None:
        if command == "gitopsctl rebuild follow":
            late.append(asyncio.run_coroutine_threadsafe(tenant.create("late"), loop).result(30))
        if command == "gitopsctl rebuild sweep":
            assert find(tenant.applications.objects, application_name(ghost)) is not None

    try:
        await asyncio.to_thread(operator.follow_runbook, change_meanwhile)
    finally:
        await asyncio.to_thread(operator.mend)

    assert (
        f"Application {before['kept'][0]}/{application_name(ghost)}"
        in operator.told["gitopsctl rebuild sweep --dry-run"]
    )
    await tenant.until_application_gone(ghost)
    await tenant.until_status("Synced", "late", sync__status="Synced")
    assert identity(tenant, late[0])[0] == before["kept"][0], "the tenant is where it was"
    assert {created["metadata"]["name"]: identity(tenant, created) for created in (kept, manual)} == before
    assert await api.until_phase("once", "Succeeded") == ran
    engines = operator.told["gitopsctl rebuild follow"].splitlines()[2]
    assert re.search(r"[1-9]\d* rows unchanged, 0 differing", engines), engines
