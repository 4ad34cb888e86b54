"""Waits until everything is as it must be, and says how long that took or what was not."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from chaos.checker.difference import Difference
from chaos.checker.judge import judge
from chaos.checker.world import Facts, read_world
from chaos.record import Record
from services.common.errors import Retry
from services.common.kubernetes import KubeClient

LOOK_EVERY_SECONDS = 1.0
LOOKS_IN_A_ROW = 3
"""What is right must stay so."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in the end."""

    seconds: float
    """Until it was so for good; if it was not, until nobody waited any more."""
    differences: list[Difference]
    counts: dict[str, int]
    """Of what there is."""
    strictly_judged: int
    """Of the sync runs that there are."""


async def await_convergence(kube: KubeClient, facts: Facts, record: Record, deadline_seconds: float) -> Verdict:
    """Look again and again, until nothing differs or the time is up."""
    began = time.monotonic()
    in_a_row, since = 0, 0.0
    while True:
        try:
            world = await read_world(kube, facts)
        except Retry:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            continue
        judgement = judge(world, facts, record)
        differences = judgement.differences
        passed = time.monotonic() - began
        if differences:
            in_a_row, since = 0, passed
        else:
            since = passed if in_a_row == 0 else since
            in_a_row += 1
        if in_a_row == LOOKS_IN_A_ROW or (differences and passed > deadline_seconds):
            counts = {
                "deployments": len(world.deployments),
                "environments": len(world.environments),
                "credentials": len(world.credentials),
                "sync runs": len(world.runs),
                "Applications": len(world.applications),
                "AppProjects": len(world.projects),
                "Secrets": len(world.engine_secrets),
            }
            return Verdict(since, differences, counts, judgement.strictly_judged)
        await asyncio.sleep(LOOK_EVERY_SECONDS)
