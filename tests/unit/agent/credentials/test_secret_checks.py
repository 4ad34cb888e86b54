"""Tasks beside the pool: what they do not handle ends the process, and tells nothing."""

from __future__ import annotations

import traceback

from services.agent.credentials.check_result import CheckResult
from services.agent.credentials.secret_checks import SecretChecks
from services.agent.credentials.waiting_applications import WaitingApplications
from services.agent.objects.live import EngineObjects, SecretReader
from services.agent.objects.managed_kinds import ObjectKey, key_of
from services.common.messages import EngineResource
from tests.unit.agent.fakes import SETTINGS, FakeChecker, MemoryCluster
from tests.unit.agent.rows import cluster_row
from tests.unit.fake_clock import FakeClock, settle


async def test_composition_when_what_follows_from_it_fails_then_that_is_a_defect_without_local_variables() -> None:
    def fail(row: EngineResource) -> None:
        raise KeyError(row.name)

    async def admit(key: ObjectKey, row: EngineResource, made: CheckResult) -> CheckResult:
        return made

    clock, defects = FakeClock(), list[BaseException]()
    checks = SecretChecks(
        SecretReader(MemoryCluster(clock), clock),
        FakeChecker(),
        clock,
        SETTINGS,
        admit=admit,
        waiting_applications=WaitingApplications(EngineObjects(), list),
        on_result=fail,
        on_defect=defects.append,
    )
    row = cluster_row()
    checks.result_of(key_of(row), row)
    await settle()
    [defect] = defects
    assert isinstance(defect, KeyError)
    frames = [frame for frame, _ in traceback.walk_tb(defect.__traceback__)]
    assert frames[-1].f_code.co_name == "fail"
    assert [frame.f_locals for frame in frames] == [{}] * len(frames)
    await checks.suspend()
