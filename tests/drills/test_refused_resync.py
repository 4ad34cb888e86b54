"""Much was deleted while nobody watched: nothing of it is removed until an operator approves exactly that."""

from __future__ import annotations

import asyncio
import json
import time

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from tests.drills.alert_metrics import until_measured
from tests.e2e.tenant import Tenant, application_name, find

DELETED = 24
"""More than a list may always lack, and more than half of what there is."""
REFUSED_SECONDS = 120
SHOW, APPROVE = 'gitopsctl resync show "$NAME"', 'gitopsctl resync approve "$NAME"'
REFUSED = "gitops_sweeps_refused"
"""Alert: GitOpsResyncRefused."""


async def _name_of_refused(operator: Operator) -> str:
    """By which an operator approves the only refused list."""
    deadline = time.monotonic() + REFUSED_SECONDS
    while not (told := json.loads(await asyncio.to_thread(operator.run, "gitopsctl resync status -o json"))):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)
    (refused,) = told
    assert refused["removes"] == DELETED
    return str(refused["name"])


async def test_deletions_when_a_list_lacks_too_much_then_nothing_goes_until_an_operator_approves_what_was_shown(
    stack: HostedStack, operator: Operator, tenant: Tenant
) -> None:
    names = [f"web-{number:02d}" for number in range(DELETED)]
    created = [await tenant.create(name) for name in (*names, "kept")]
    for each in created:
        await tenant.application_of(each)
    await asyncio.to_thread(operator.stop("watcher"))
    await asyncio.gather(*map(tenant.delete, names))
    await asyncio.to_thread(operator.start("watcher"))

    name = await _name_of_refused(operator)
    await until_measured(stack, "planner", REFUSED, lambda count: count == 1)

    def require_untouched(command: str) -> None:
        if command == APPROVE:
            live = tenant.applications.objects
            assert all(find(live, application_name(each)) is not None for each in created), "nothing goes before that"

    operator.shell["NAME"] = name
    await asyncio.to_thread(operator.follow_runbook, "refused-resync.md", {}, require_untouched)
    assert all(f"GitOpsDeployment/{each}" in operator.told[SHOW] for each in names)
    for each in created[:-1]:
        await tenant.until_application_gone(each)
    assert find(tenant.applications.objects, application_name(created[-1])) is not None
    assert await asyncio.to_thread(operator.run, "gitopsctl resync status") == "no resync is refused\n"
    await until_measured(stack, "planner", REFUSED, lambda count: count == 0)
