"""One run of a plan on a running stack: execute, wait, judge."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from chaos.checker.convergence import Patience, await_convergence
from chaos.checker.world import Facts, read_world
from chaos.execution.api_calls import ApiCalls
from chaos.execution.build_service import BranchForEachCommit, RecordedRepositories
from chaos.execution.charts import ComponentCharts, make_private_repositories, make_repositories, private_urls, urls
from chaos.execution.controllers import control_each
from chaos.execution.executor import Executor
from chaos.execution.faults import Faults, has_argocd
from chaos.execution.fleet_operator import FleetOperator
from chaos.execution.intruder import Intruder
from chaos.execution.surroundings import Surroundings
from chaos.execution.sync_watch import watch_syncs
from chaos.execution.tokens import make_tokens
from chaos.execution.users import Users
from chaos.plan.faults import Fault
from chaos.plan.operations import Operation
from chaos.plan.plan import Plan
from chaos.plan.random_operations import REPOSITORIES, STEADY_PATH, WEB, WEB_2
from chaos.record import Record, name_of
from chaos.report import Report
from chaos.sources import read_sources
from devstack.appstudio.build_service import BuildService
from devstack.appstudio.space_requests import SpaceRequestController
from devstack.git.site import USERNAME, site_of
from devstack.harness.hosted import HostedStack
from devstack.harness.run import OPTIONS, parse_settings
from services.common.kubernetes import NAMESPACE, KubeClient, connect
from services.common.settings import parse_engine_namespaces
from services.watcher.settings import WatcherSettings

SETTINGS = {
    "ORPHAN_GRACE_SECONDS": "20",
    "FAILED_CHECK_INTERVAL_SECONDS": "10",
    "CHECK_INTERVAL_SECONDS": "30",
    "COMPARISON_INTERVAL_SECONDS": "30",
    "MOVE_PATIENCE": "PT1M",
}
"""Of a stack that chaos runs on: what heals by itself within minutes shall do so while somebody waits for it.

Lists are not among them: a change that the pipeline loses must stay lost until the run is judged.
"""

RESYNC_INTERVAL: timedelta = WatcherSettings.model_fields["resync_interval"].default
"""Between two lists of a kind, as operators have it: none comes within a run, unless a watcher starts."""
AWAITED = timedelta(minutes=10)
"""A list that comes as soon is waited for before a run is judged."""
MARGIN_SECONDS = 15.0
DURATION = TypeAdapter(timedelta)
"""ISO 8601, as settings have it."""

NOT_READ = "https://git.example.com/{{namespace}}/config-{number}.git"
"""Argo CD's simulator has no need of repositories."""


def steady_seconds(resync: timedelta) -> float:
    """For which all has to stay right: all that looks by the clock looks once more, lists if they come soon."""
    intervals = [float(value) for name, value in SETTINGS.items() if name.endswith("_SECONDS")]
    lists = [resync.total_seconds()] if resync <= AWAITED else []
    return max(intervals + lists) + MARGIN_SECONDS


def stack_options(*, resync: timedelta = RESYNC_INTERVAL, argocd: bool = False) -> list[str]:
    """Of ``hosted``; with real Argo CD, or its simulator."""
    given = SETTINGS | {"RESYNC_INTERVAL": DURATION.dump_python(resync, mode="json")}
    settings = [argument for name, value in given.items() for argument in ("--set", f"{name}={value}")]
    return ["--replicas", "2", "--links", "--clocks", "--git", *(["--argocd"] if argocd else []), *settings]


async def run_plan(
    stack: HostedStack,
    plan: Plan,
    prefix: str,
    *,
    rate: float,
    patience: Patience,
    chosen: Collection[type[Operation | Fault]] | None = None,
) -> Report:
    """Carry ``plan`` out for tenants whose namespaces begin with ``prefix``, which nobody else's do.

    ``chosen``: kinds of operations and faults without which nothing is proven; None: those of the plan.
    """
    record, sources = Record(), read_sources()
    kubeconfig = Path(stack.environment["KUBECONFIG"])
    engine_namespaces = tuple(parse_engine_namespaces(stack.environment["ENGINE_NAMESPACES"]).values())
    async with await connect(kubeconfig) as kube:
        calls = ApiCalls(kube, "chaos")
        around = _surroundings(stack, plan, prefix, await make_tokens(calls))
        for name in (WEB, WEB_2):
            await calls.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        database_url = stack.environment["DATABASE_OWNER_URL"]
        facts = Facts(prefix, engine_namespaces, frozenset(around.tokens), around.login, around.key_of, database_url)
        record.before = frozenset(name_of(item) for item in (await read_world(kube, facts)).of_engines)
        faults = Faults(stack, record, plan.seed)
        users = Users(ApiCalls(kube, "chaos-user"), around, record)
        await users.make_classes()
        intruder = Intruder(ApiCalls(kube, "chaos-intruder"), around, engine_namespaces, record)
        operator = FleetOperator(stack, engine_namespaces, prefix)
        witness = watch_syncs(kube, engine_namespaces, record)
        controllers = _controllers(stack, kube, around, [around.namespace(tenant) for tenant in plan.tenants], record)
        async with _beside(witness, faults.keep_alive(), controllers):
            outcome = await Executor(users, intruder, operator, faults, rate).run(plan)
            await operator.accept_everywhere()
            async with _beside(operator.approve_orphans()):
                verdict = await await_convergence(kube, facts, record, patience)
    kinds = frozenset(each.__name__ for each in (plan.kinds if chosen is None else chosen))
    return Report(sources, plan.seed, outcome, verdict, record, kinds, _resync_of(stack))


def _resync_of(stack: HostedStack) -> str:
    """As the stack was told it."""
    settings = parse_settings(stack.state.recall(OPTIONS)["settings"])
    return settings["RESYNC_INTERVAL"]


def _controllers(
    stack: HostedStack, kube: KubeClient, around: Surroundings, namespaces: Collection[str], record: Record
) -> Coroutine[None, None, None]:
    """AppStudio's of all tenants: what builds their components, and the developer sandbox."""
    site = site_of(stack.environment)
    repositories = RecordedRepositories(ComponentCharts(site) if has_argocd(stack) else BranchForEachCommit(), record)
    kubeconfig = around.kubeconfig(around.tokens[0])

    async def build(namespace: str) -> None:
        await BuildService(kube, namespace, repositories).run()

    async def make_spaces(namespace: str) -> None:
        await SpaceRequestController(kube, namespace, around.cluster, kubeconfig).run()

    return control_each(namespaces, build, make_spaces)


def _surroundings(stack: HostedStack, plan: Plan, prefix: str, tokens: tuple[str, ...]) -> Surroundings:
    content = yaml.safe_load(Path(stack.environment["KUBECONFIG"]).read_text())
    cluster = content["clusters"][0]["cluster"]
    authority = cluster.get("certificate-authority-data") or base64.b64encode(
        Path(cluster["certificate-authority"]).read_bytes()
    ).decode("ascii")
    site = site_of(stack.environment)
    make_private_repositories(site, prefix)
    around = Surroundings(
        prefix=prefix,
        cluster=cluster["server"],
        authority=authority,
        tokens=tokens,
        repositories=tuple(NOT_READ.format(number=number) for number in range(REPOSITORIES)),
        private=private_urls(site, prefix),
        login=(USERNAME, site.password),
        key_of=site.key_of,
    )
    if not has_argocd(stack):
        return around
    make_repositories(site, map(around.namespace, plan.tenants), sorted({*plan.paths, STEADY_PATH}))
    return replace(around, repositories=urls(site))


@asynccontextmanager
async def _beside(*endless: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """What runs for as long as the block does. Raises what one of them raises."""
    tasks = [asyncio.ensure_future(each) for each in endless]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
