"""How a plan is carried out."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.execution import faults as execution_faults
from chaos.execution import persistent_operator
from chaos.execution.executor import Executor
from chaos.execution.faults import Faults
from chaos.execution.fleet_operator import FleetOperator
from chaos.execution.intruder import Intruder
from chaos.execution.persistent_operator import PersistentOperator
from chaos.execution.users import Users
from chaos.plan.faults import LEADER, Cut, Kill, KillAll, Meanwhile, RestoreBackup, Slow, Stop
from chaos.plan.operations import Meddle, PutLogin
from chaos.plan.plan import Plan
from chaos.record import Record
from devstack.harness.operator import Operator
from services.common.errors import Unavailable

FAST = 1e6


class Everybody:
    """Users, intruder and faults, who note what they do, and give others a turn meanwhile."""

    def __init__(self) -> None:
        self.done: list[object] = []

    async def make_namespace(self, tenant: int) -> None:
        self.done.append(tenant)

    async def carry_out(self, step: object) -> None:
        await asyncio.sleep(0)
        self.done.append(step)

    async def meddle(self, operation: Meddle) -> bool:
        await self.carry_out(operation)
        return False


def executor(everybody: Everybody) -> Executor:
    each = cast("Any", everybody)
    return Executor(
        cast("Users", each), cast("Intruder", each), cast("FleetOperator", each), cast("Faults", each), FAST
    )


async def test_operations_when_several_tenants_have_some_then_each_tenants_are_in_order() -> None:
    everybody = Everybody()
    steps = tuple(PutLogin(tenant, version) for version in range(30) for tenant in (0, 1, 2))
    outcome = await executor(everybody).run(Plan(1, steps))
    assert everybody.done[:3] == [0, 1, 2]
    for tenant in (0, 1, 2):
        own = [step for step in everybody.done if isinstance(step, PutLogin) and step.tenant == tenant]
        assert own == [PutLogin(tenant, version) for version in range(30)]
    assert outcome.done == {"PutLogin": 90}


async def test_faults_when_there_are_two_then_the_second_begins_when_the_first_is_over() -> None:
    everybody = Everybody()
    faults = (Kill("planner", 1), Kill("agent-1", 1))
    await executor(everybody).run(Plan(1, (PutLogin(0, 1), *faults, PutLogin(0, 2))))
    assert [step for step in everybody.done if isinstance(step, Kill)] == list(faults)


async def test_faults_when_one_is_meanwhile_then_it_begins_before_the_other_is_over_and_a_third_does_not() -> None:
    everybody = Everybody()
    begun = list[tuple[object, int]]()

    async def carry_out(step: object) -> None:
        begun.append((step, len(everybody.done)))
        for _ in range(5):
            await asyncio.sleep(0)
        everybody.done.append(step)

    everybody.carry_out = carry_out  # type: ignore[method-assign]
    one, two, three = Kill("planner", 1), Cut("agent-1", "kafka", 1), Kill("agent-1", 1)
    outcome = await executor(everybody).run(Plan(1, (one, Meanwhile(), two, three)))
    assert begun == [(one, 0), (two, 0), (three, 2)]
    assert outcome.overlapping == 1


async def test_fault_when_one_before_it_leaves_no_room_then_it_waits_for_that_alone() -> None:
    everybody, restored, slowed, cut_begun = Everybody(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    mended = asyncio.Event()
    restore, cut, slow = RestoreBackup(1), Cut("agent-1", "kafka", 1), Slow("agent-2", "kafka", 50, 1)

    async def carry_out(step: object) -> None:
        if step is restore:
            await restored.wait()
        if step is cut:
            cut_begun.set()
            await mended.wait()
        everybody.done.append(step)
        if step is slow:
            slowed.set()

    everybody.carry_out = carry_out  # type: ignore[method-assign]
    running = asyncio.create_task(executor(everybody).run(Plan(1, (restore, Meanwhile(), cut, Meanwhile(), slow))))
    async with asyncio.timeout(30):
        await cut_begun.wait()
        mended.set()
        await slowed.wait()
        assert [step for step in everybody.done if not isinstance(step, int)] == [cut, slow]
        restored.set()
        assert (await running).overlapping == 2


class Typed(PersistentOperator):
    """Whose commands end with these codes, one after the other, on a stack on which one process has died."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *codes: int) -> None:
        self.codes, self.started, self.restarted = list(codes), list[str](), defaultdict[str, int](int)

        def run(operator: Operator, line: str, accepted: object, **_: str) -> str:
            assert accepted == (0,)
            operator.ended[line] = self.codes.pop(0)
            if operator.ended[line]:
                raise Unavailable(line)
            return "done"

        def start(name: str) -> None:
            self.started.append(name)

        stack = SimpleNamespace(
            processes=lambda: [{"name": "kafka", "phase": "died"}, {"name": "etcd", "phase": "ready"}],
            start=start,
            state=SimpleNamespace(secrets=lambda: defaultdict(str)),
            environment={"KUBECONFIG": "", "DATABASE_OWNER_URL": ""},
        )
        monkeypatch.setattr(Operator, "run", run)
        monkeypatch.setattr(persistent_operator.time, "sleep", lambda _: None)
        super().__init__(cast("Any", stack), Path("backups"), self.restarted)


@pytest.mark.parametrize(
    ("command", "codes"), [("gitopsctl rebuild follow", (69, 69)), ("psql --command 'SELECT 1'", (2, 1))]
)
def test_command_when_it_has_waited_in_vain_then_what_died_is_started_and_it_is_typed_again(
    monkeypatch: pytest.MonkeyPatch, command: str, codes: Sequence[int]
) -> None:
    operator = Typed(monkeypatch, *codes, 0)
    assert operator.run(command) == "done"
    assert (operator.started, operator.restarted) == (["kafka", "kafka"], {"kafka": 2})


def test_command_when_it_is_refused_then_it_is_not_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Typed(monkeypatch, 2, 0)
    with pytest.raises(Unavailable):
        operator.run("gitopsctl restore")
    assert operator.codes == [0]


class Watched(Faults):
    """Faults that last until others have begun, and looks at what has ended, both noted."""

    def __init__(self, at_once: int = 1) -> None:
        """``at_once``: how many have to be under way before one ends."""
        self.noted, self.looked, self.all_begun = list[str](), asyncio.Event(), asyncio.Barrier(at_once)
        super().__init__(
            cast("Any", SimpleNamespace(state=SimpleNamespace(root=Path()), pids=lambda: ("planner", "agent-1"))),
            Record(),
            1,
        )

    async def _of_processes(self, fault: object) -> None:
        self.noted.append("begins")
        await self.all_begun.wait()
        self.noted.append("ends")

    async def _start_what_ended(self) -> None:
        self.noted.append("looks")
        if self.noted.count("looks") > 1:
            self.looked.set()


async def test_processes_when_faults_are_under_way_then_none_is_started_before_all_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution_faults, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(execution_faults, "PersistentOperator", lambda *_: None)
    faults = Watched(at_once=2)
    looking = asyncio.create_task(faults.keep_alive())
    await asyncio.gather(faults.carry_out(Kill("planner", 1)), faults.carry_out(Kill("agent-1", 1)))
    async with asyncio.timeout(30):
        await faults.looked.wait()
    looking.cancel()
    assert faults.noted[:6] == ["looks", "begins", "begins", "ends", "ends", "looks"]


async def test_fault_when_it_follows_another_at_once_then_what_has_ended_by_that_is_started_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution_faults, "PersistentOperator", lambda *_: None)
    faults = Watched()
    for _ in range(2):
        await faults.carry_out(Kill("planner", 1))
    assert faults.noted == ["looks", "begins", "ends"] * 2


class Standing(Faults):
    """On two watchers, of which the second leads until one of them is stopped and this is the only other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, takes_over: bool) -> None:
        self.stopped, record = list[str](), Record()

        def shares(_: object, service: str) -> dict[str, frozenset[str]]:
            assert service == "watcher"
            has_led = "watcher-1" if self.stopped and takes_over else "watcher-2"
            return {name: frozenset({"local"} if name == has_led else ()) for name in ("watcher-1", "watcher-2")}

        monkeypatch.setattr(execution_faults, "leading_watcher", lambda _: "watcher-2")
        monkeypatch.setattr(execution_faults, "shares_of", shares)
        monkeypatch.setattr(execution_faults, "PersistentOperator", lambda *_: None)
        stack = SimpleNamespace(
            state=SimpleNamespace(root=Path()), processes=list, freeze=self.stopped.append, thaw=lambda _: None
        )
        super().__init__(cast("Any", stack), record, 1)
        self.replaced = record.replaced


@pytest.mark.parametrize(("takes_over", "counted"), [(True, {"watcher": 1}), (False, {"watcher": 0})])
async def test_watcher_when_the_leading_one_is_stopped_then_it_is_counted_whether_another_led_when_it_went_on(
    monkeypatch: pytest.MonkeyPatch, *, takes_over: bool, counted: dict[str, int]
) -> None:
    faults = Standing(monkeypatch, takes_over=takes_over)
    await faults.carry_out(Stop(LEADER, 0.01))
    assert faults.stopped == ["watcher-2"]
    assert faults.replaced == counted


async def test_faults_when_they_are_carried_out_then_their_targets_are_counted_by_kind() -> None:
    faults = (Kill("kafka", 1), Kill("kafka", 2), Cut("agent-1", "kafka", 1), KillAll())
    outcome = await executor(Everybody()).run(Plan(1, (PutLogin(0, 1), *faults)))
    assert outcome.targets == {"Kill": {"kafka": 2}, "Cut": {"agent-1 to kafka": 1}}


async def test_meddling_when_there_is_nothing_to_meddle_with_then_it_is_counted_as_without_effect() -> None:
    outcome = await executor(Everybody()).run(Plan(1, (Meddle(0, "application", "d0", "edit"),)))
    assert outcome.without_effect == {"Meddle": 1}
