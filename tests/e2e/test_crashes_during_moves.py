"""Each process is killed in each step of the move of a part of a split tenant, and of a move to another engine cluster.

The second cluster has an agent of its own here, and its topic, but no API server of its own: in
``tests/engine_clusters/test_crashes_during_moves.py`` it has. The simulators that are Argo CD deploy nothing: that real
ones leave alone what is deployed is shown of whole tenants (``tests/argocd/test_crashes_during_moves.py``), and of a
part that nobody disturbs (``tests/argocd/test_split_tenants.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import Manifest
from tests.component.agent.worker import Worker
from tests.e2e.api import Api, Cluster
from tests.e2e.held import Held
from tests.e2e.kills import (
    CONNECT,
    ONE_IN_EACH_STEP,
    PLANNER,
    SOURCE_AGENT,
    STEPS,
    TARGET_AGENT,
    WATCHER,
    Kills,
    agent_at,
    agents_of,
)
from tests.e2e.moved_user import KEPT, MovedUser, Way, go_until_all_are_killed, unnoticed
from tests.e2e.moving import Mover
from tests.e2e.operators import add_ready_instance, retire, typed, until_drained
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant
from tests.e2e.test_fleet import ELSEWHERE, elsewhere, namespace, start_agent
from tests.e2e.test_split_tenants import environments, filled, mover, small

__all__ = ["elsewhere", "environments", "filled", "mover", "namespace", "small", "start_agent"]

KILLS = [
    pytest.param(ONE_IN_EACH_STEP, frozenset(), id="one in each step"),
    *(
        pytest.param(every, every, id=role, marks=pytest.mark.long)
        for role in (SOURCE_AGENT, TARGET_AGENT, PLANNER, WATCHER, CONNECT)
        for every in [frozenset(product(STEPS, (role,)))]
    ),
]
"""On the first way, and on the others."""
SERVERS = {each: each for each in (PLANNER, WATCHER, CONNECT)}


@pytest.fixture
def held(applications: Mirror, projects: Mirror, engine_secrets: Mirror) -> Held:
    """By all instances."""
    return Held(applications, projects, engine_secrets)


@pytest.mark.parametrize(("first", "others"), KILLS)
async def test_process_when_killed_in_a_step_of_the_move_of_a_part_then_all_of_it_is_there_once_and_no_user_notices(  # noqa: PLR0917 - fixtures
    tenant: Tenant,
    api: Api,
    held: Held,
    mover: Mover,
    environments: tuple[str, str],
    filled: list[Manifest],
    first: frozenset[tuple[str, str]],
    others: frozenset[tuple[str, str]],
) -> None:
    """It goes to and fro, and to the tenant's own instance in the end, where it is no part any more.

    On the last way, which is gone only once, steps may pass before anybody is killed.
    """
    user = await MovedUser.begin(tenant, api, environments[1], held)
    (own,), (place,) = mover.places(filled[0]), mover.places(user.created[KEPT])
    (other,) = {*ENGINE_NAMESPACES} - {place}

    def way(source: str, target: str, due: frozenset[tuple[str, str]]) -> Way:
        ends = replace(held, namespace=source), replace(held, namespace=target)
        order = partial(mover.order_to, target, f"@{source}")
        return Way(*ends, Kills(mover, set(due)), order, partial(processes_of, mover.stack, source, target))

    async with unnoticed(user, tenant.kube), seen_by_user(tenant, "web-0") as seen_of_others:
        await go_until_all_are_killed(user, way(place, other, first), way(other, place, others))
        for number in (1, 2):  # else there is no room
            await tenant.delete(f"web-{number}")
            await tenant.until_application_gone(filled[number])
        (place,) = mover.places(user.created[KEPT])
        await way(place, own, others).go(user)
        assert (await seen_of_others.changes(), mover.places(filled[0])) == ([], {own})


async def processes_of(stack: HostedStack, source: str, target: str) -> dict[str, str]:
    """Names by role."""
    return await agents_of(stack, source, target) | SERVERS


@dataclass(frozen=True)
class StackAndAgent(HostedStack):
    """And the agent of another engine cluster, which is killed and started like the stack's processes."""

    run_agent: Callable[[], Worker]
    agents: list[Worker]

    def kill(self, name: str) -> None:
        """SIGKILL one process."""
        if name == ELSEWHERE:
            self.agents.pop().kill()
        else:
            super().kill(name)

    def start(self, name: str) -> None:
        """Start one process that does not run; returns when it is ready."""
        if name == ELSEWHERE:
            self.agents.append(self.run_agent())
        else:
            super().start(name)


@pytest.fixture
async def second_cluster(
    stack: HostedStack, namespace: str, elsewhere: dict[str, str], start_agent: Callable[[dict[str, str]], Worker]
) -> AsyncIterator[StackAndAgent]:
    """The stack with another engine cluster, which has an instance."""
    extended = StackAndAgent(stack.state, stack.environment, partial(start_agent, elsewhere), [])
    await asyncio.to_thread(extended.start, ELSEWHERE)
    await add_ready_instance(stack, namespace, "--cluster", ELSEWHERE)
    yield extended
    await typed(stack, "drain", namespace)
    await until_drained(stack, namespace)  # while its agent runs
    await retire(stack, namespace)  # else the next agent of the cluster has it, too


async def test_process_when_killed_in_a_step_of_a_move_to_another_cluster_then_all_is_there_once_and_no_user_notices(  # noqa: PLR0917 - fixtures
    second_cluster: StackAndAgent,
    namespace: str,
    tenant: Tenant,
    api: Api,
    cluster: Cluster,
    applications: Mirror,
    held: Held,
) -> None:
    here = ENGINE_NAMESPACES[0]
    mover = Mover(second_cluster, tenant, applications)
    user = await MovedUser.begin_on(second_cluster, here, tenant, api, cluster, held)

    def way(source: str, target: str, kills: Kills) -> Way:
        ends = replace(held, namespace=source), replace(held, namespace=target)
        return Way(*ends, kills, partial(mover.order_to, target), find_processes)

    async def find_processes() -> dict[str, str]:
        agents = {here: await agent_at(second_cluster, here), namespace: ELSEWHERE}
        (source,) = mover.places(user.created[KEPT])
        (target,) = {*agents} - {source}
        return {SOURCE_AGENT: agents[source], TARGET_AGENT: agents[target]} | SERVERS

    there = way(here, namespace, Kills(mover, set(ONE_IN_EACH_STEP)))
    back = way(namespace, here, Kills(mover, set()))
    async with unnoticed(user, tenant.kube):
        await go_until_all_are_killed(user, there, back)
        if mover.places(user.created[KEPT]) == {namespace}:
            await back.go(user)
