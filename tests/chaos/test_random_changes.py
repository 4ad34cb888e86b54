"""A short run of the chaos suite: one seed, and faults that start no JVM. ``make chaos`` is the long one."""

from __future__ import annotations

from chaos.plan.faults import BreakQueries, Cut, FailCalls, Kill, Slow, Stop
from chaos.plan.generate import Size, Targets, generate
from chaos.run import run_plan
from devstack.harness.hosted import HostedStack

SEED = 20261123
TARGETS = Targets(
    killed=("planner-1", "watcher-1", "agent-1", "postgres"),
    stopped=("planner-2", "watcher-2", "agent-2", "kafka", "kube-apiserver"),
    links=(("planner-1", "postgres"), ("planner-1", "kafka"), ("agent-1", "kube-apiserver"), ("connect", "postgres")),
    seconds=(1, 3),
    kinds=(Kill, Stop, Cut, Slow, FailCalls, BreakQueries),
)


async def test_changes_when_processes_fail_meanwhile_then_nothing_is_lost_or_done_twice(stack: HostedStack) -> None:
    plan = generate(SEED, Size(operations=150, tenants=6, faults=6), TARGETS)
    report = await run_plan(stack, plan, "short", rate=20, deadline_seconds=120)
    assert report.verdict.differences == [], f"seed {SEED}: {report.as_json()}"
