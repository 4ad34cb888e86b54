"""Who changed what, and what came of it, as an operator asks for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from tests.e2e.tenant import USER, Tenant


async def test_deployment_when_it_came_changed_and_went_then_the_audit_tells_each_by_whom_and_what_came_of_it(
    stack: HostedStack, tenant: Tenant, tmp_path: Path
) -> None:
    created = await tenant.create()
    await tenant.until_path(created, "apps/web")
    await tenant.patch("web", {"spec": {"source": {"path": "elsewhere"}}})
    await tenant.until_path(created, "elsewhere")
    await tenant.delete()
    await tenant.until_application_gone(created)
    told = await _audit(Operator(stack, tmp_path), f"--tenant local/{tenant.namespace} --resource GitOpsDeployment/web")
    assert [(each["action"], each["generation"]) for each in told] == [("create", 1), ("update", 2), ("delete", 2)]
    assert {each["manager"] for each in told if each["action"] != "delete"} == {USER}


async def _audit(operator: Operator, options: str) -> list[dict[str, Any]]:
    """The oldest change first, once each has come to an end."""
    async with asyncio.timeout(120):
        while True:
            told = json.loads(await asyncio.to_thread(operator.run, f"gitopsctl audit {options} -o json"))
            if {each["outcome"] for each in told} == {"Completed"}:
                return list(reversed(told))
            await asyncio.sleep(0.5)
