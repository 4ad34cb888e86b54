"""Random rows, drift, failures and take-overs: afterwards everything is as the newest rows say, and quiet."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace

import pytest

from services.agent.credentials.check_result import CheckResult
from services.common.errors import Retry
from services.common.messages import EngineResource
from tests.unit.agent.driver import PARTITION, Driver
from tests.unit.agent.rows import application_row, cluster_row, sync_row
from tests.unit.fake_clock import settle

LANES = ("lane-0", "lane-1")
OBJECTS = {"Application": "Application", "ClusterSecret": "Secret"}
OUTCOMES = (CheckResult(None, "Bad", "bad"), Retry("silent"), ValueError("unforeseen"))


class World:
    """What happens to an instance, drawn from ``seed``."""

    def __init__(self, driver: Driver, seed: int) -> None:
        self.driver, self.draw = driver, random.Random(seed)  # noqa: S311 - draws test cases
        self.rows: dict[tuple[str, str], EngineResource] = {}
        self._sequence = 0

    async def happen(self) -> None:
        events = (
            *(self._submit,) * 6,
            self._edit,
            self._remove,
            self._change_outcome,
            self._turn_gate,
            self._break_or_mend,
            self._lose_reports,
            self._take_over,
        )
        await self.draw.choice(events)()
        await self.driver.clock.advance(self.draw.random() * 5)

    async def calm_down(self) -> None:
        """Everything works again, and Argo CD finishes its deletions."""
        checker = self.driver.checker
        checker.outcomes.clear()
        for gate in checker.gates.values():
            gate.set()
        checker.gates.clear()
        self.driver.cluster.failing = None
        for row in self.rows.values():
            self.driver.submit(row)
        for _ in range(6):
            await self.driver.clock.advance(200)
            for (kind, name), manifest in list(self.driver.cluster.objects.items()):
                if kind == "Application" and manifest["metadata"].get("deletionTimestamp"):
                    self.driver.cluster.edit(kind, name, {"metadata": {"finalizers": None}})
            await settle()

    async def _submit(self) -> None:
        number, desired = self.draw.randrange(6), self.draw.choice(("present", "present", "present", "absent"))
        lane, name = LANES[number % 2], f"app-{number}"
        self._sequence += 1
        environment = f"managed-env-{number % 4}"
        application = application_row(name, desired, lane, targetRevision=f"v{self.draw.randrange(3)}")
        elsewhere = application.manifest.replace("in-cluster", environment)
        row = self.draw.choice(
            (
                application,
                replace(application, manifest=elsewhere, digest=application.digest + environment),
                cluster_row(environment, desired, lane, uid=f"uid-{self.draw.randrange(3)}"),
                replace(sync_row(f"run-{self._sequence}", self._sequence, name=name), lane=lane),
            )
        )
        self.rows[row.kind, row.name] = row
        self.driver.submit(row)

    async def _edit(self) -> None:
        for kind, name in self._some_object():
            change = {"data": {"stray": "eA=="}} if kind == "Secret" else {"spec": {"source": {"path": "evil"}}}
            self.driver.cluster.edit(kind, name, change)

    async def _remove(self) -> None:
        for kind, name in self._some_object():
            self.driver.cluster.remove(kind, name)

    async def _change_outcome(self) -> None:
        self.driver.checker.outcomes[self._environment()] = self.draw.choice(OUTCOMES)

    async def _turn_gate(self) -> None:
        gates, name = self.driver.checker.gates, self._environment()
        if name in gates:
            gates.pop(name).set()
        else:
            gates[name] = asyncio.Event()

    async def _break_or_mend(self) -> None:
        self.driver.cluster.failing = None if self.driver.cluster.failing else Retry("connection refused")

    async def _lose_reports(self) -> None:
        self.driver.reports.behind = True
        await settle()
        self.driver.reports.catch_up(arrived=self.draw.random() < 0.5)

    async def _take_over(self) -> None:
        await self.driver.instance.suspend()
        self.driver.assign_partition()
        self.driver.instance.start_work(list(self.rows.values()))

    def _some_object(self) -> list[tuple[str, str]]:
        objects = list(self.driver.cluster.objects)
        return [self.draw.choice(objects)] if objects else []

    def _environment(self) -> str:
        return f"managed-env-{self.draw.randrange(4)}"


@pytest.mark.parametrize("seed", range(40))
async def test_instance_when_anything_has_happened_then_it_ends_as_the_newest_rows_say(
    driver: Driver, seed: int
) -> None:
    await driver.begin()
    world = World(driver, seed)
    for _ in range(40):
        await world.happen()
    await world.calm_down()

    for (kind, name), row in world.rows.items():
        found = driver.cluster.objects.get((OBJECTS.get(kind, ""), name))
        if kind in OBJECTS:
            assert (found is not None) == (row.desired == "present"), (kind, name)
        if kind == "Application" and found is not None:
            assert found["spec"]["source"] == json.loads(row.manifest)["spec"]["source"]
        if kind == "ClusterSecret" and found is not None:
            assert sorted(found["data"]) == ["name", "server"]
    assert (driver.instance.pending, driver.checker.in_flight) == (0, 0)
    assert driver.offsets.committable_offset(PARTITION) == driver.offsets.next_offset(PARTITION)
    written = len(driver.cluster.writes())
    await driver.clock.advance(1000)
    assert len(driver.cluster.writes()) == written
