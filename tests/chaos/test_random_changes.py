"""A short run of the chaos suite: one seed, and faults that start no JVM. ``make chaos`` is the long one."""

from __future__ import annotations

import asyncio

from chaos.__main__ import AT_WORK
from chaos.checker.convergence import Patience
from chaos.execution.faults import SERVICES, service_of
from chaos.plan.faults import BreakQueries, Cut, FailCalls, FailQueries, Kill, Slow, StepClock, Stop
from chaos.plan.generate import generate
from chaos.plan.operations import DrainInstance, MoveTenant, Promote, PutDeployment, UndrainInstance
from chaos.plan.plan import Plan
from chaos.plan.random_applications import FOREIGN_SNAPSHOT
from chaos.plan.size import Size, Targets
from chaos.run import RESYNC_INTERVAL, run_plan, steady_seconds
from devstack.harness.hosted import HostedStack
from devstack.harness.operator import AGENTS

SEED = 20262998
FAULTS = 11
"""A failover of each service, and one fault of each kind."""
TARGETS = Targets(
    killed=("postgres",),
    stopped=("kafka", "kube-apiserver"),
    links=(("planner-1", "postgres"), ("planner-1", "kafka"), ("agent-1", "kube-apiserver"), ("connect", "postgres")),
    clocks=("planner-1", "watcher-1", "agent-1"),
    seconds=(1, 3),
    kinds=(Kill, Stop, Cut, Slow, FailCalls, FailQueries, BreakQueries, StepClock),
    services=AT_WORK,
    outlasting=8,  # of the planner that this seed stops; the leading watcher, which is waited for longer, is killed
)


async def test_changes_when_no_agent_runs_then_what_is_missing_is_named(stack: HostedStack) -> None:
    """Whoever judges sees a product that does not do its work."""
    deployment = PutDeployment(
        0, "d0", 0, "apps/0", "", automated=True, environment="", creates_namespace=False, finalizer=False, afresh=False
    )
    for agent in AGENTS:
        await asyncio.to_thread(stack.freeze, agent)
    try:
        report = await run_plan(
            stack, Plan(SEED, (deployment,)), "idle", rate=20, patience=Patience(deadline=3, steady=3)
        )
    finally:
        for agent in AGENTS:
            await asyncio.to_thread(stack.thaw, agent)
    assert {(each.sort, each.subject.split()[0]) for each in report.verdict.differences} >= {
        ("missing", "Application"),
        ("missing", "AppProject"),
    }


async def test_changes_when_processes_fail_meanwhile_then_nothing_is_lost_or_done_twice(stack: HostedStack) -> None:
    plan = generate(SEED, Size(operations=220, tenants=6, faults=FAULTS), TARGETS)
    promotions = [each for each in plan.operations if isinstance(each, Promote)]
    assert any(each.automated for each in promotions)
    assert any(each.snapshot == FOREIGN_SNAPSHOT for each in promotions), "one fails"
    assert plan.kinds >= {MoveTenant, DrainInstance, UndrainInstance}
    report = await run_plan(stack, plan, "short", rate=20, patience=Patience(120, steady_seconds(RESYNC_INTERVAL)))
    assert report.verdict.differences == [], f"seed {SEED}: {report.as_json()}"
    assert report.unproven == []
    assert report.resync == "P3D", "a list would heal what was lost"
    hit = {service_of(process) for kind in ("Kill", "Stop") for process in report.outcome.targets[kind]}
    assert hit >= set(SERVICES), "of each service a process was killed or stopped"
