"""Each process is killed in each step of a tenant's move from one engine cluster to the other, and back.

The simulators that are Argo CD here keep nothing from one start to the next, and deploy nothing: what is looked at is
what Argo CD is told, and what users are. That real ones leave alone what is deployed meanwhile is shown within one
cluster (``tests/argocd/test_crashes_during_moves.py``): which cluster it is makes a difference only to agents, to their
topics and to what is sealed for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from devstack.components.second_cluster import API_SERVER
from devstack.harness.hosted import HostedStack
from devstack.stack.second_cluster import PREFIX
from services.common.kubernetes import KubeClient
from tests.e2e.api import Api, Cluster
from tests.e2e.held import Held
from tests.e2e.kills import (
    CONNECT,
    PLANNER,
    SOURCE_AGENT,
    STEPS,
    TARGET_AGENT,
    WATCHER,
    Kills,
    agent_at,
)
from tests.e2e.moved_user import MovedUser, Way, go_until_all_are_killed, unnoticed
from tests.e2e.moving import Mover
from tests.e2e.tenant import Tenant
from tests.engine_clusters.test_two_clusters import FIRST, SECOND, mover

__all__ = ["mover"]

pytestmark = pytest.mark.long

VICTIMS = {SOURCE_AGENT: 2, TARGET_AGENT: 2, PLANNER: 2, WATCHER: 2, CONNECT: 2, API_SERVER: 1}
"""In how many of the two directions: one API server is the workspace's, too (``tests/argocd`` kills that)."""


@pytest.fixture
async def user(stack: HostedStack, tenant: Tenant, api: Api, cluster: Cluster, first: Held) -> MovedUser:
    """In the first cluster."""
    return await MovedUser.begin_on(stack, FIRST, tenant, api, cluster, first)


async def processes_of(stack: HostedStack, target: str) -> dict[str, str]:
    """Names of processes by role, for a move to this engine namespace."""
    agents = [await agent_at(stack, FIRST), f"{PREFIX}agent"]
    source, aim = agents if target == SECOND else reversed(agents)
    others = (PLANNER, WATCHER, CONNECT, API_SERVER)
    return {SOURCE_AGENT: source, TARGET_AGENT: aim} | dict(zip(others, others, strict=True))


@pytest.fixture
def way(stack: HostedStack, mover: Mover, first: Held, second: Held) -> Callable[[str, Kills], Way]:
    """To an engine namespace from the other."""

    def find(target: str, kills: Kills) -> Way:
        ends = (first, second) if target == SECOND else (second, first)
        return Way(*ends, kills, partial(mover.order_to, target), partial(processes_of, stack, target))

    return find


@pytest.mark.parametrize(("victim", "directions"), VICTIMS.items(), ids=VICTIMS)
async def test_process_when_killed_in_a_step_of_a_move_to_another_cluster_then_all_is_there_once_and_no_user_notices(  # noqa: PLR0917 - fixtures
    user: MovedUser,
    mover: Mover,
    kube: KubeClient,
    second_kube: KubeClient,
    way: Callable[[str, Kills], Way],
    victim: str,
    directions: int,
) -> None:
    due = set(product(STEPS, (victim,)))
    there, back = Kills(mover, set(due)), Kills(mover, due if directions == 2 else set())
    async with unnoticed(user, kube, second_kube):
        await go_until_all_are_killed(user, way(SECOND, there), way(FIRST, back))
