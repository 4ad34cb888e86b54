"""Tasks beside the pool: what they do not handle ends the process, and tells nothing."""

from __future__ import annotations

import traceback

from services.agent.beside import Beside
from services.agent.compositions import CheckIntervals, Compositions
from services.agent.credentials import Composition
from services.agent.objects import ObjectKey, key_of
from services.common.messages import EngineResource
from tests.unit.agent.fakes import RULES, FakeComposers, MemoryCluster, VirtualClock, settle
from tests.unit.agent.rows import cluster_row


async def test_composition_when_what_follows_from_it_fails_then_that_is_a_defect_without_local_variables() -> None:
    def fail(row: EngineResource) -> None:
        raise KeyError(row.name)

    async def admit(key: ObjectKey, row: EngineResource, made: Composition) -> Composition:
        return made

    clock, defects = VirtualClock(), list[BaseException]()
    beside = Beside(MemoryCluster(clock), defects.append)
    intervals = CheckIntervals(RULES.check_interval, RULES.failed_check_interval)
    compositions = Compositions(beside, FakeComposers(), clock, intervals, admit, fail)
    row = cluster_row()
    compositions.outcome(key_of(row), row)
    await settle()
    [defect] = defects
    assert isinstance(defect, KeyError)
    frames = [frame for frame, _ in traceback.walk_tb(defect.__traceback__)]
    assert frames[-1].f_code.co_name == "fail"
    assert [frame.f_locals for frame in frames] == [{}] * len(frames)
    await compositions.suspend()
