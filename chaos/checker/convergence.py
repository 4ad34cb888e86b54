"""Waits until everything is as it must be, and says how long that took or what was not."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from dataclasses import dataclass

from chaos.checker.difference import Difference
from chaos.checker.judge import judge
from chaos.checker.promotions import count_failed
from chaos.checker.world import Facts, read_world
from chaos.record import Record
from services.common.errors import Retry
from services.common.kubernetes import KubeClient

LOOK_EVERY_SECONDS = 1.0
JUDGED_BY_COMMITS = "promotions judged by commits"


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


@dataclass(frozen=True, slots=True)
class Patience:
    """How long somebody looks, in seconds."""

    deadline: float
    """In which less and less differs, until nothing does: on a busy machine much may be under way for long."""
    steady: float
    """After that: what is right must stay so, whatever looks at it by the clock."""


@dataclass(slots=True)
class _Fewest:
    """Differences that were ever left, and when there were no more for the first time, in seconds."""

    number: float = math.inf
    at: float = 0

    def note(self, number: int, now: float) -> None:
        if number < self.number:
            self.number, self.at = number, now


async def await_convergence(kube: KubeClient, facts: Facts, record: Record, patience: Patience) -> Verdict:
    """Look again and again, until nothing has differed for long enough, or what differs has not become less."""
    began, fewest = time.monotonic(), _Fewest()
    since: float | None = None
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
            since = None
        elif since is None:
            since = passed
        fewest.note(len(differences), passed)
        is_steady = since is not None and passed - since >= patience.steady
        if is_steady or (differences and passed - fewest.at > patience.deadline):
            counts = {
                "deployments": len(world.deployments),
                "environments": len(world.environments),
                "credentials": len(world.credentials),
                "sync runs": len(world.runs),
                "bindings": len(world.bindings),
                "promotions": len(world.promotions),
                "promotions that failed": count_failed(world.promotions),
                JUDGED_BY_COMMITS: judgement.judged_by_commits,
                "bindings decided by a promotion": judgement.decided_bindings,
                **{f"moves {step}": number for step, number in Counter(each.step for each in world.moves).items()},
                "claims": len(world.claims),
                "targets": len(world.targets),
                "SpaceRequests": len(world.space_requests),
                "Applications": len(world.applications),
                "AppProjects": len(world.projects),
                "Secrets": len(world.engine_secrets),
            }
            return Verdict(passed if since is None else since, differences, counts, judgement.strictly_judged)
        await asyncio.sleep(LOOK_EVERY_SECONDS)
