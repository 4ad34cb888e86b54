"""Carries faults out on a hosted stack, and starts what has ended, as a kubelet would."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from resource import RLIMIT_FSIZE, prlimit
from typing import Any, TypeVar

import structlog

from chaos.execution.failing_api_server import FailingApiServer
from chaos.execution.failing_database import FailingDatabase
from chaos.execution.persistent_operator import PersistentOperator
from chaos.plan.faults import (
    LEADER,
    BreakQueries,
    Cut,
    FailCalls,
    FailQueries,
    Fault,
    FillDisk,
    Kill,
    KillAll,
    ResetConnector,
    RestoreBackup,
    Slow,
    StepClock,
    Stop,
)
from chaos.record import Record, WrongClock
from devstack.components import toxiproxy
from devstack.components.services import SIMULATOR
from devstack.harness.faulty_links import FaultyLinks
from devstack.harness.hosted import HostedStack
from devstack.harness.operator import AGENTS, Action
from devstack.harness.owners import leading_watcher, shares_of
from devstack.stack.links import Link, links
from devstack.stack.pki import Pki
from devstack.stack.replicas import processes_of
from devstack.supervisor.child import tree
from services.common.backoff import Backoff
from services.common.errors import GitOpsError

T = TypeVar("T")

log = structlog.get_logger(__name__)

LOOK_EVERY_SECONDS = 1.0
START_SECONDS = 600.0
REPLICAS = 2
SERVICES = ("agent", "planner", "watcher")
"""Of which there are several processes."""
SWEEP = "gitopsctl rebuild sweep"
APPROVAL = re.compile(r"--approve \S+@\w+")
"""As a sweep tells it, of what it keeps."""
REFUSED, SOMETHING_KEPT = 1, 3
"""How that ends; told apart by its documented code, as an operator's script does it."""


def service_of(process: str) -> str:
    """Of which it is one of several processes."""
    return process.rpartition("-")[0]


def has_argocd(stack: HostedStack) -> bool:
    """Whether the stack has real Argo CD, and no simulator."""
    return all(item["name"] != SIMULATOR for item in stack.processes())


class Faults:
    """One stack's, of which several may be under way."""

    def __init__(self, stack: HostedStack, record: Record, seed: int) -> None:
        self._stack, self._record, self._seed = stack, record, seed
        self._turn, self._under_way = asyncio.Lock(), 0
        self._operator = PersistentOperator(stack, stack.state.root / "backups", record.restarted)

    async def carry_out(self, fault: Fault) -> None:
        """From its beginning to its end. Raises TimeoutError if the stack does not come back."""
        fault = await self._located(fault)
        async with self._turn:
            if not self._under_way:  # faults that follow each other at once leave no time between them
                await self._start_what_ended()
            elif isinstance(fault, Kill | Stop | FillDisk):  # by what is under way it may have ended
                await self._start(fault.process)
            self._under_way += 1
        try:
            log.info("fault", begins=str(fault))
            await self._inflict(fault)
            log.info("fault", is_over=str(fault))
        finally:
            self._under_way -= 1

    async def _located(self, fault: Fault) -> Fault:
        """About the watcher that leads now, if it is about the one that does."""
        if not isinstance(fault, Kill | Stop | Cut) or fault.process != LEADER:
            return fault
        leader = await _retried(partial(leading_watcher, self._stack))
        return replace(fault, process=leader)

    async def _inflict(self, fault: Fault) -> None:
        match fault:
            case Kill() | Stop() | KillAll() | FillDisk() | StepClock():
                await self._of_processes(fault)
            case Cut() | Slow() | BreakQueries():
                await self._of_links(fault)
            case FailCalls(share, seconds):
                await self._fail_calls(share, seconds)
            case FailQueries(share, seconds):
                await self._fail_queries(share, seconds)
            case ResetConnector():
                await self._reset_connector()
            case RestoreBackup(seconds):
                await self._restore_backup(seconds)

    async def keep_alive(self) -> None:
        """For ever: start again what has ended by itself, between faults."""
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            async with self._turn:
                if not self._under_way:
                    await self._start_what_ended()

    async def _of_processes(self, fault: Kill | Stop | KillAll | FillDisk | StepClock) -> None:
        match fault:
            case Kill(process, seconds):
                await asyncio.to_thread(self._stack.kill, process)
                await asyncio.sleep(seconds)
                await self._start(process)
            case Stop(process, seconds):
                work = await self._work_of(process)
                await asyncio.to_thread(self._stack.freeze, process)
                try:
                    await asyncio.sleep(seconds)
                    await self._note_replaced(process, work)
                finally:
                    await asyncio.to_thread(self._stack.thaw, process)
            case StepClock(process, by, seconds):
                since = datetime.now(UTC)
                self._stack.set_clock(process, by)
                await asyncio.sleep(seconds)
                self._stack.set_clock(process, 0)
                self._record.wrong_clocks.append(WrongClock(process, by, since, datetime.now(UTC)))
            case FillDisk(process, seconds):
                await self._fill_disk(process, seconds)
            case KillAll():
                await self._kill_all()

    async def _of_links(self, fault: Cut | Slow | BreakQueries) -> None:
        faulty = self._stack.links
        match fault:
            case Cut(process, server, seconds):
                work = await self._work_of(process)
                await self._while_broken(faulty, [Link(process, server)], faulty.cut, seconds)
                await self._note_replaced(process, work)
            case Slow(process, server, milliseconds, seconds):
                slow = partial(faulty.slow, latency_ms=milliseconds)
                await self._while_broken(faulty, [Link(process, server)], slow, seconds)
            case BreakQueries(kilobytes, seconds):
                break_often = partial(faulty.break_often, kilobytes=kilobytes)
                await self._while_broken(faulty, self._links_to("postgres"), break_often, seconds)

    async def _while_broken(
        self, faulty: FaultyLinks, broken: list[Link], act: Callable[[Link], None], seconds: float
    ) -> None:
        try:
            for link in broken:
                await asyncio.to_thread(act, link)
            await asyncio.sleep(seconds)
        finally:
            for link in broken:
                await asyncio.to_thread(faulty.mend, link)

    async def _work_of(self, process: str) -> frozenset[Any]:
        """What a process of ours has to do just now."""
        service = service_of(process)
        shares = await asyncio.to_thread(shares_of, self._stack, service) if service in SERVICES else {}
        return shares.get(process, frozenset())

    async def _note_replaced(self, process: str, work: frozenset[Any]) -> None:
        """Whether others do all the work that a process had when it was last heard of."""
        if not work:
            return
        shares = await asyncio.to_thread(shares_of, self._stack, service_of(process))
        others = frozenset[Any]().union(*(share for name, share in shares.items() if name != process))
        self._record.replaced[service_of(process)] += work <= others

    async def _fail_calls(self, share: float, seconds: float) -> None:
        pki = Pki(self._stack.state.root / "kubernetes")
        port = self._stack.state.recall("ports")["kube-apiserver"]
        proxy = FailingApiServer(f"https://127.0.0.1:{port}", pki.server_certificate, pki.server_key, share, self._seed)
        async with proxy.serving() as own:
            await self._while_led_to(own, "kube-apiserver", seconds)
        self._record.failed_calls += proxy.failed

    async def _fail_queries(self, share: float, seconds: float) -> None:
        proxy = FailingDatabase(self._stack.state.recall("ports")["postgres"], share, self._seed)
        async with proxy.serving() as own:
            await self._while_led_to(own, "postgres", seconds)
        self._record.failed_queries += proxy.failed

    async def _while_led_to(self, port: int, server: str, seconds: float) -> None:
        elsewhere = self._stack.links.led_elsewhere(self._links_to(server), port)
        await asyncio.to_thread(elsewhere.__enter__)
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(elsewhere.__exit__, None, None, None)

    def _links_to(self, server: str) -> list[Link]:
        every = links(REPLICAS, with_argocd=has_argocd(self._stack))
        return [link for link in every if link.server == server]

    async def _fill_disk(self, process: str, seconds: float) -> None:
        """By the limit of a file's size, which needs no disk: what is written fails as on a full one.

        It is stricter than one: files cannot be overwritten either. Processes that are forked meanwhile inherit it.
        """
        root = (await asyncio.to_thread(self._stack.pids))[process]
        former = prlimit(root, RLIMIT_FSIZE)
        await asyncio.to_thread(_limit_files, root, (0, former[1]))
        await asyncio.sleep(seconds)
        await asyncio.to_thread(_limit_files, root, former)
        await self._start_what_ended()

    async def _kill_all(self) -> None:
        """In no order; started in the order in which they were declared, which is that of who needs whom.

        The proxies of the links are none of them: they are the network.
        """
        running = [item["name"] for item in await asyncio.to_thread(self._stack.processes) if item["pid"]]
        names = [name for name in running if name != toxiproxy.NAME]
        await asyncio.gather(*(asyncio.to_thread(self._stack.kill, name) for name in names))
        for name in names:
            await self._start(name)

    async def _reset_connector(self) -> None:
        operator = self._operator
        await asyncio.to_thread(operator.run, "gitopsctl connector stop")
        by_hand: dict[int, Sequence[Action]] = {1: [], 2: []}
        await self._follow_runbook("lost-connect-offsets.md", by_hand, f"{SWEEP} --current")

    async def _restore_backup(self, seconds: float) -> None:
        operator = self._operator
        planners, watchers = processes_of("planner", REPLICAS), processes_of("watcher", REPLICAS)
        by_hand: dict[int, Sequence[Action]] = {
            1: [operator.stop(*planners)],
            2: [operator.lose_database],
            3: [operator.start(*planners), *operator.restart(*watchers, *AGENTS)],
        }
        await self._start_what_ended()
        await asyncio.to_thread(operator.run, "gitopsctl backup")
        await asyncio.sleep(seconds)
        await self._follow_runbook("restored-database.md", by_hand, SWEEP)

    async def _follow_runbook(self, page: str, by_hand: Mapping[int, Sequence[Action]], sweep: str) -> None:
        """To its end, and have all go that its ``sweep`` keeps: what was told, and again if that has changed since.

        Of tenants with an environment that never worked it keeps what no row has, until somebody says that it may go.
        Here it may: the logs are whole. So may what is more than a guard's share of an instance, such as the project of
        its only tenant, which a move has left there that went on after the backup. An Application that somebody
        asks for is not to be among either: the checker sees whether one was deleted.
        """
        operator, approved = self._operator, (0, REFUSED, SOMETHING_KEPT)
        await asyncio.to_thread(operator.follow_runbook, page, by_hand, accepted=approved)
        told, is_left = operator.told[sweep], operator.ended[sweep] != 0
        for accepted in (approved, (0,)) if is_left else ():
            told = await asyncio.to_thread(operator.run, " ".join([sweep, *APPROVAL.findall(told)]), accepted)
            if "--approve" not in told:
                break

    async def _start_what_ended(self) -> None:
        for item in await asyncio.to_thread(self._stack.processes):
            if item["phase"] == "died":
                self._record.restarted[item["name"]] += 1
                await self._start(item["name"])

    async def _start(self, name: str) -> None:
        """Again and again: what it needs may have to start first."""

        def start() -> None:
            if name not in self._stack.pids():
                self._stack.start(name)

        await _retried(start)


def _limit_files(root: int, limits: tuple[int, int]) -> None:
    """Of a process and all that it has started; of the root first, so that none of a later fork is missed."""
    for pid in (root, *tree(root)):
        with suppress(ProcessLookupError):
            prlimit(pid, RLIMIT_FSIZE, limits)


async def _retried(act: Callable[[], T]) -> T:
    delays = Backoff(first=0.5, limit=5)
    async with asyncio.timeout(START_SECONDS):
        while True:
            with suppress(GitOpsError):
                return await asyncio.to_thread(act)
            await asyncio.sleep(delays.next_delay())
