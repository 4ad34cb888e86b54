"""Many objects of ours that no row desires: kept by an agent until an operator approves exactly these."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.operator import Operator
from services.common.kubernetes import APP_PROJECT, Manifest, NotFound
from tests.e2e.tenant import Tenant

FORGED = 30
"""More than an agent removes by itself, and more than a tenth of what there is."""
SHOW, APPROVE = 'gitopsctl orphans show "$NAME"', 'gitopsctl orphans approve "$NAME"'
NOTICED_SECONDS = 120
"""A comparison each 30 s, and 20 s of grace; the machine is busy."""


@pytest.fixture
def operator(stack: HostedStack, tmp_path: Path) -> Operator:
    """Who is told of them."""
    return Operator(stack, tmp_path)


@pytest.mark.long  # what an approval removes is in tests/component/agent/test_kept_orphans.py
async def test_orphans_when_an_intruder_makes_many_then_they_are_listed_and_go_once_an_operator_approves(
    tenant: Tenant, projects: Mirror, operator: Operator
) -> None:
    application = await tenant.application_of(await tenant.create())
    engine = application["metadata"]["namespace"]
    key = (engine, application["spec"]["project"])
    await projects.until("its project is there", lambda objects: key in objects)
    mine = projects.objects[key]
    forged = [f"{tenant.namespace}-forged-{number:02d}" for number in range(FORGED)]
    try:
        for name in forged:
            await tenant.kube.create_object(APP_PROJECT, _like(mine, name), field_manager="intruder")

        def require_untouched(command: str) -> None:
            if command == APPROVE:
                assert {(engine, each) for each in forged} <= projects.objects.keys(), "nothing goes before that"

        operator.shell["NAME"] = await _name_of_kept(operator)
        await asyncio.to_thread(operator.follow_runbook, "kept-orphans.md", {}, require_untouched)
        assert all(f"AppProject/{each}" in operator.told[SHOW] for each in forged)
        await projects.until(
            "what was approved is gone",
            lambda objects: not {(engine, each) for each in forged} & objects.keys(),
            NOTICED_SECONDS,
        )
    finally:
        for name in forged:
            with suppress(NotFound):
                await tenant.kube.delete_object(APP_PROJECT, engine, name)
    assert (engine, mine["metadata"]["name"]) in projects.objects


def _like(project: Manifest, name: str) -> Manifest:
    """Another one with the labels of ours, which no row has."""
    meta = {each: project["metadata"][each] for each in ("namespace", "labels")}
    return {**project, "metadata": {**meta, "name": name}}


async def _name_of_kept(operator: Operator) -> str:
    """By which an operator approves the only orphans that agents keep, once all of them are told."""
    async with asyncio.timeout(NOTICED_SECONDS):
        while True:
            told = json.loads(await asyncio.to_thread(operator.run, "gitopsctl orphans kept -o json"))
            if [each["kept"] for each in told] == [FORGED]:
                return str(told[0]["name"])
            await asyncio.sleep(1)
