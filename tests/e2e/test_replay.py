"""What was desired at a time is told from the logs, and is put in force again until the resource changes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import psycopg

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import Manifest
from tests.e2e.operators import until_seen
from tests.e2e.tenant import Tenant, application_name, find

MISCOMPILE = """
WITH compiled AS (UPDATE deployments SET digest = 'of an older build' WHERE uid = %s RETURNING digest)
UPDATE engine_resources
   SET manifest = replace(manifest, '"apps/web"', '"miscompiled"'), digest = compiled.digest, updated_at = now()
  FROM compiled
 WHERE name = %s AND kind = 'Application'
"""


async def outcome(stack: HostedStack, *arguments: str) -> tuple[int, str, str]:
    """Of a command of an operator: exit code, what it told, and what it told beside that."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "services.cli", *arguments],
        env=os.environ | stack.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


async def gitopsctl(stack: HostedStack, *arguments: str) -> tuple[str, str]:
    """The same of one that succeeds."""
    code, shown, told = await outcome(stack, *arguments)
    assert code == 0, shown + told
    return shown, told


async def until_deployed_from(tenant: Tenant, created: Manifest, path: str) -> None:
    name = application_name(created)
    await tenant.applications.until(
        f"{name} is deployed from {path}",
        lambda objects: (find(objects, name) or {"spec": {"source": {}}})["spec"]["source"].get("path") == path,
    )


async def test_spec_when_it_is_put_in_force_as_it_was_then_it_stays_so_until_the_resource_changes(
    stack: HostedStack, tenant: Tenant
) -> None:
    name = f"local/{tenant.namespace}"
    created = await tenant.create(source={"path": "before"})
    await tenant.until_status("Synced", sync__status="Synced")
    then = datetime.now(UTC).isoformat()
    await tenant.patch("web", {"spec": {"source": {"path": "after"}}})
    await until_deployed_from(tenant, created, "after")
    at = ("replay", "at", then, "--tenant", name)

    shown, _ = await gitopsctl(stack, *at)
    of_spec, of_application = (shown.split(f"--- {name}: {kind}/")[1] for kind in ("GitOpsDeployment", "Application"))
    assert "-    path: before\n+    path: after\n" in of_spec
    assert "path: before\n" in of_application

    _, told = await gitopsctl(stack, *at, "--apply", "--confirm", name)
    assert "GitOpsDeployment/web: its spec then re-issued" in told
    await until_deployed_from(tenant, created, "before")

    async def audit() -> list[tuple[Any, ...]]:
        shown, _ = await gitopsctl(stack, "audit", "--tenant", name, "--resource", "GitOpsDeployment/web", "-o", "json")
        return [(each["action"], each["manager"], each["generation"], each["outcome"]) for each in json.loads(shown)]

    found = await until_seen(audit, lambda found: found[0][-1] == "Completed")
    assert found[0] == ("reissue", "gitopsctl", 2, "Completed")
    assert [action for action, *_ in found] == ["reissue", "update", "create"]

    await tenant.patch("web", {"spec": {"source": {"path": "newest"}}})
    await until_deployed_from(tenant, created, "newest")


def miscompile(stack: HostedStack, created: Manifest) -> None:
    """Have the rows be what a planner with a fault would have made of an unchanged resource."""
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        names = [created["metadata"]["uid"], application_name(created)]
        assert owner.execute(MISCOMPILE, names).rowcount == 1


async def test_row_when_an_older_planner_compiled_it_wrongly_then_it_stays_so_until_the_tenant_is_looked_at_again(
    stack: HostedStack, tenant: Tenant
) -> None:
    created, other = await tenant.create(), await tenant.create("other")
    for name in ("web", "other"):
        await tenant.until_status("Synced", name, sync__status="Synced")
    await asyncio.to_thread(miscompile, stack, created)
    await until_deployed_from(tenant, created, "miscompiled")
    await asyncio.to_thread(stack.kill, "planner")  # the mended one takes its place
    await asyncio.to_thread(stack.start, "planner")
    await tenant.patch("other", {"spec": {"source": {"path": "since"}}})
    await until_deployed_from(tenant, other, "since")
    await until_deployed_from(tenant, created, "miscompiled")

    _, told = await gitopsctl(stack, "look-again", "--tenant", f"local/{tenant.namespace}")
    assert told == "look-again: 1 tenants are looked at again\n"
    await until_deployed_from(tenant, created, "apps/web")


async def test_replay_when_the_time_is_before_what_the_logs_tell_then_nothing_is_told_but_what_is_missing(
    stack: HostedStack, tenant: Tenant
) -> None:
    await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")
    code, shown, told = await outcome(stack, "replay", "at", "P7D", "--tenant", f"local/{tenant.namespace}")
    assert (code, shown) == (1, "")
    assert "GitOpsDeployment" in told
    assert "Traceback" not in told
