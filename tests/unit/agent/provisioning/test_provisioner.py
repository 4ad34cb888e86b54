"""The provisioner: what it tells of each installation, and that one keeps no other from being made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import REGISTRY
from pydantic import ValidationError

from services.agent.objects.fleet import Fleet
from services.agent.provisioning.installation import Rendering
from services.agent.provisioning.installer import Installed
from services.agent.provisioning.provisioner import REPORT_SECONDS, Provisioner
from services.agent.provisioning.settings import ProvisionerSettings
from services.agent.provisioning.waves import UNRECORDED, WAITS, Record
from services.common.errors import GitOpsError, Permanent, Retry, Wait
from services.common.kubernetes import Rejected
from services.common.kubernetes.access import GRACE_SECONDS
from services.common.messages import EngineInstallation, FleetInstance
from tests.unit.agent.instances_of_fleet import HERE, instance_row
from tests.unit.fake_clock import EPOCH, FakeClock

INTERVAL, SOAK = 30.0, 300.0


@dataclass
class FakeRecords:
    """Of a cluster in which everything can be read."""

    known: dict[str, Record] = field(default_factory=dict)
    errors: dict[str, GitOpsError] = field(default_factory=dict)
    """By instance."""

    async def read(self, instance: FleetInstance) -> Record | None:
        if instance.id in self.errors:
            raise self.errors[instance.id]
        return self.known.get(instance.id)

    async def write(self, instance: FleetInstance, record: Record) -> None:
        self.known[instance.id] = record


@dataclass
class FakeInstaller:
    """Does what it is told to."""

    records: FakeRecords = field(default_factory=FakeRecords)

    errors: dict[str, GitOpsError] = field(default_factory=dict)
    removed: bool = True
    stuck: set[str] = field(default_factory=set)
    """Instances for which it never comes to an end."""
    others: set[str] = field(default_factory=set)
    """Instances that an earlier release has installed otherwise."""
    same: set[str] = field(default_factory=set)
    """Those that it has installed as they are wanted."""
    rolling: set[str] = field(default_factory=set)
    """Instances that have pods of before."""
    calls: list[str] = field(default_factory=list)

    def rendering_of(self, instance: FleetInstance) -> Rendering:
        return Rendering((), f"digest of {instance.wanted_version}")

    async def found(self, instance: FleetInstance, wanted: Rendering) -> Record | None:
        if instance.id in self.same:
            return Record(wanted.digest, None)
        return UNRECORDED if instance.id in self.others else None

    async def install(self, instance: FleetInstance, wanted: Rendering, begun: Record | None) -> Installed:
        await self._call("install", instance)
        if begun is not None:
            await self.records.write(instance, begun)
        return Installed(0, is_rolled_out=instance.id not in self.rolling)

    async def remove(self, instance: FleetInstance) -> bool:
        await self._call("remove", instance)
        return self.removed

    async def _call(self, verb: str, instance: FleetInstance) -> None:
        self.calls.append(f"{verb} {instance.id}")
        if error := self.errors.get(instance.id):
            raise error
        if instance.id in self.stuck:
            await asyncio.Event().wait()


@dataclass
class Reports:
    """What was told, and whether it arrives."""

    told: list[tuple[str, EngineInstallation]] = field(default_factory=list)
    arrives: bool = True

    def send_report(self, instance: str, event: EngineInstallation, delivered: object) -> None:
        self.told.append((instance, event))
        assert callable(delivered)
        delivered(self.arrives)


@asynccontextmanager
async def running(
    installer: FakeInstaller, *rows: FleetInstance
) -> AsyncIterator[tuple[Provisioner, Reports, FakeClock, Fleet]]:
    clock, reports, fleet = FakeClock(), Reports(), Fleet(HERE, rows)
    provisioner = Provisioner(
        fleet,
        installer,  # type: ignore[arg-type]
        reports,  # type: ignore[arg-type]
        clock,
        interval_seconds=INTERVAL,
        soak_seconds=SOAK,
    )
    task = asyncio.create_task(provisioner.run())
    await clock.advance(0)
    yield provisioner, reports, clock, fleet
    task.cancel()


ONE, TWO = (instance_row(each, wanted_version="3.2.11") for each in ("one", "two"))
RETIRED = instance_row("one", wanted_version="3.2.11", state="retired")


async def test_installations_when_compared_then_only_those_that_are_ours_are() -> None:
    installer = FakeInstaller()
    others = instance_row("three", wanted_version="3.2.11", engine_cluster="other")
    async with running(installer, ONE, TWO, instance_row("by-hand"), others) as (provisioner, reports, _, _):
        assert installer.calls == ["install one", "install two"]
        assert reports.told == [(each, EngineInstallation("Applied", "3.2.11", "")) for each in ("one", "two")]
        assert provisioner.not_ready() == ""


async def test_installation_when_nothing_has_changed_then_it_is_compared_often_and_told_each_minute() -> None:
    installer = FakeInstaller()
    async with running(installer, ONE) as (_, reports, clock, _):
        await clock.advance(INTERVAL)
        assert (len(installer.calls), len(reports.told)) == (2, 1)
        await clock.advance(REPORT_SECONDS)
        assert len(reports.told) == 2


async def test_instance_when_it_comes_then_it_is_installed_at_once() -> None:
    installer = FakeInstaller()
    async with running(installer) as (provisioner, _, clock, fleet):
        fleet.store_rows([ONE])
        provisioner.look_again()
        await clock.advance(0)
        assert installer.calls == ["install one"]


FORBIDDEN = Rejected("forbidden", 403)
FAILURES = {
    "for good": (Permanent("no manifests"), "Failed", "no manifests"),
    "refused": (Rejected("too long", 422), "Failed", "the API server refuses it: too long"),
    "forbidden": (FORBIDDEN, "Applying", "the API server forbids it, which may pass: forbidden"),
    "for now": (Retry("no answer"), "Applying", "no answer"),
    "until something else": (Wait("it is being deleted"), "Applying", "it is being deleted"),
}


@pytest.mark.parametrize(("error", "phase", "message"), FAILURES.values(), ids=FAILURES)
async def test_installation_when_it_fails_then_that_is_told_and_the_others_are_made(
    error: GitOpsError, phase: str, message: str
) -> None:
    installer = FakeInstaller(errors={"one": error})
    async with running(installer, ONE, TWO) as (_, reports, _, _):
        assert reports.told == [
            ("one", EngineInstallation(phase, "3.2.11", message)),
            ("two", EngineInstallation("Applied", "3.2.11", "")),
        ]


PHASES = {"installed": (ONE, "Applying", "Applied"), "removed": (RETIRED, "Removing", "Removed")}


@pytest.mark.parametrize(("row", "phase", "end"), PHASES.values(), ids=PHASES)
async def test_installation_when_it_is_forbidden_for_a_moment_then_it_goes_on_and_no_failure_is_told(
    row: FleetInstance, phase: str, end: str
) -> None:
    installer = FakeInstaller(errors={"one": FORBIDDEN})
    async with running(installer, row) as (provisioner, reports, clock, _):
        await clock.advance(GRACE_SECONDS / 3)
        provisioner.look_again()
        await clock.advance(0)
        assert [told.phase for _, told in reports.told] == [phase]
        installer.errors.clear()
        await clock.advance(INTERVAL)
        assert [told.phase for _, told in reports.told] == [phase, end]


@pytest.mark.parametrize("row", [ONE, RETIRED], ids=["installed", "removed"])
async def test_installation_when_it_stays_forbidden_then_it_fails(row: FleetInstance) -> None:
    async with running(FakeInstaller(errors={"one": FORBIDDEN}), row) as (_, reports, clock, _):
        await clock.advance(max(GRACE_SECONDS, INTERVAL))
        told = EngineInstallation("Failed", "3.2.11", "the API server refuses it: forbidden")
        assert reports.told[-1] == ("one", told)


async def test_installation_when_it_is_forbidden_again_after_it_was_not_then_that_may_pass_too() -> None:
    installer = FakeInstaller(errors={"one": FORBIDDEN})
    async with running(installer, ONE) as (_, reports, clock, _):
        for error in ({}, {"one": FORBIDDEN}):
            installer.errors = error
            await clock.advance(INTERVAL)
        assert [told.phase for _, told in reports.told] == ["Applying", "Applied", "Applying"]


async def test_installations_when_the_removal_of_another_takes_long_then_they_are_compared_before_it() -> None:
    installer = FakeInstaller(stuck={"one"})
    async with running(installer, RETIRED, TWO) as (provisioner, reports, _, _):
        assert installer.calls == ["install two", "remove one"]
        assert reports.told == [("two", EngineInstallation("Applied", "3.2.11", ""))]
        assert provisioner.not_ready() == ""


async def test_provisioner_when_an_installation_was_not_compared_yet_then_it_is_not_ready() -> None:
    async with running(FakeInstaller(stuck={"two"}), ONE, TWO) as (provisioner, _, _, _):
        assert provisioner.not_ready() == "installations not compared yet"


async def test_instance_when_retired_then_it_is_removed_until_nothing_is_left_and_not_looked_at_again() -> None:
    installer = FakeInstaller(removed=False)
    async with running(installer, RETIRED) as (_, reports, clock, _):
        assert reports.told == [("one", EngineInstallation("Removing", "3.2.11", ""))]
        installer.removed = True
        await clock.advance(INTERVAL)
        assert reports.told[-1] == ("one", EngineInstallation("Removed", "", ""))
        count = len(installer.calls)
        await clock.advance(10 * INTERVAL)
        assert len(installer.calls) == count


async def test_instance_when_retired_and_a_tenant_has_something_there_then_it_is_not_removed_and_that_is_told() -> None:
    installer = FakeInstaller(errors={"one": Wait("it still has Application web")})
    async with running(installer, RETIRED) as (_, reports, _, _):
        assert reports.told == [("one", EngineInstallation("Removing", "3.2.11", "it still has Application web"))]


async def test_report_when_it_does_not_arrive_then_the_next_comparison_tells_it() -> None:
    async with running(FakeInstaller(), ONE) as (_, reports, clock, _):
        reports.arrives = False
        await clock.advance(REPORT_SECONDS)
        told = len(reports.told)
        await clock.advance(INTERVAL)
        assert len(reports.told) == told + 1


HEALTHY = [replace(each, health="Healthy") for each in (ONE, TWO)]
OLD, NEW = (
    Record(f"digest of {version}", EPOCH - timedelta(days=1), is_proven=True) for version in ("before", "3.2.11")
)
AFTER_ONE = EngineInstallation("Applied", "3.2.11", WAITS + "its turn, after one")


async def test_manifests_when_they_have_changed_then_an_instance_that_waits_is_left_alone_and_that_is_told() -> None:
    installer = FakeInstaller(records=FakeRecords({"one": OLD, "two": OLD}))
    async with running(installer, *HEALTHY) as (_, reports, clock, _):
        assert installer.calls == ["install one"]
        assert reports.told == [("one", EngineInstallation("Applied", "3.2.11", "")), ("two", AFTER_ONE)]
        assert installer.records.known == {"one": Record(NEW.digest, EPOCH), "two": OLD}
        await clock.advance(SOAK + INTERVAL)
        assert "install two" in installer.calls
        assert reports.told[-1] == ("two", EngineInstallation("Applied", "3.2.11", ""))


async def test_manifests_when_nobody_gets_them_any_more_then_it_is_measured_for_how_long_others_wait() -> None:
    def held() -> float | None:
        return REGISTRY.get_sample_value("gitops_engine_manifests_held_seconds")

    installer = FakeInstaller(records=FakeRecords({"one": NEW, "two": OLD}))
    ill = replace(HEALTHY[0], health="Down")
    async with running(installer, ill, HEALTHY[1]) as (_, reports, clock, _):
        assert reports.told[-1][1].message.startswith(WAITS)
        assert held() == 0
        for _ in range(3):
            await clock.advance(INTERVAL)
        assert held() == 3 * INTERVAL
        installer.records.errors["two"] = Retry("away")
        await clock.advance(INTERVAL)
        del installer.records.errors["two"]
        await clock.advance(INTERVAL)
        assert held() == 5 * INTERVAL
    async with running(FakeInstaller(records=FakeRecords({"one": NEW, "two": NEW})), *HEALTHY):
        assert held() == 0


async def test_instances_when_an_earlier_release_has_installed_them_then_those_that_differ_get_turns() -> None:
    installer = FakeInstaller(others={"one", "two"})
    async with running(installer, *HEALTHY) as (_, reports, _, _):
        assert installer.calls == ["install one"]
        assert ("two", AFTER_ONE) in reports.told
    installer = FakeInstaller()
    async with running(installer, *HEALTHY):
        assert installer.calls == ["install one", "install two"]


async def test_instance_when_an_earlier_release_has_installed_it_as_wanted_then_it_counts_and_is_recorded_once() -> (
    None
):
    installer = FakeInstaller(same={"one"}, others={"two"})
    ill = replace(ONE, health="Down", health_reason="Closed")
    async with running(installer, ill, HEALTHY[1]) as (_, reports, _, _):
        assert installer.calls == ["install one"]
        assert installer.records.known == {"one": Record(NEW.digest, None)}
        why = WAITS + "one, which has its changed ones already and is Down (Closed)"
        assert ("two", EngineInstallation("Applied", "3.2.11", why)) in reports.told


async def test_record_when_it_cannot_be_read_then_the_instance_is_left_alone_and_no_other_gets_what_has_changed() -> (
    None
):
    records = FakeRecords({"one": OLD, "two": OLD, "three": NEW}, {"one": Retry("no answer")})
    installer = FakeInstaller(records=records)
    three = replace(HEALTHY[0], id="three")
    async with running(installer, *HEALTHY, three) as (_, reports, _, _):
        assert installer.calls == ["install three"]
        why = WAITS + "one, which is being brought up to its changed ones"
        assert dict(reports.told) == {
            "one": EngineInstallation("Applying", "3.2.11", "no answer"),
            "two": EngineInstallation("Applied", "3.2.11", why),
            "three": EngineInstallation("Applied", "3.2.11", ""),
        }


async def test_manifests_when_the_pods_of_an_instance_are_not_those_that_they_want_then_its_soak_does_not_begin() -> (
    None
):
    installer = FakeInstaller(records=FakeRecords({"one": OLD, "two": OLD}), rolling={"one"})
    async with running(installer, *HEALTHY) as (_, _, clock, _):
        await clock.advance(3 * SOAK)
        assert installer.records.known == {"one": Record(NEW.digest, None), "two": OLD}
        installer.rolling.clear()
        await clock.advance(INTERVAL)
        assert installer.records.known["one"] == Record(NEW.digest, clock.now())


async def test_record_when_its_time_is_still_to_come_then_the_soak_begins_anew() -> None:
    changed = Record(NEW.digest, datetime.max.replace(tzinfo=UTC))
    installer = FakeInstaller(records=FakeRecords({"one": changed, "two": OLD}))
    async with running(installer, *HEALTHY) as (_, _, clock, _):
        assert installer.records.known["one"] == Record(NEW.digest, EPOCH)
        await clock.advance(SOAK + INTERVAL)
        assert installer.records.known["two"].digest == NEW.digest


async def test_instance_when_it_is_new_then_it_is_installed_at_once_and_others_wait_for_it() -> None:
    installer = FakeInstaller(records=FakeRecords({"one": OLD}))
    new = replace(TWO, state="provisioning")
    async with running(installer, HEALTHY[0], new) as (_, reports, _, _):
        assert installer.calls == ["install two"]
        why = WAITS + "two, which was installed with its changed ones and is not ready yet"
        assert ("one", EngineInstallation("Applied", "3.2.11", why)) in reports.told


def test_soak_when_it_is_shorter_than_health_takes_to_be_told_then_it_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 120"):
        ProvisionerSettings(provisioning_soak_seconds=119)


async def test_record_when_an_instance_becomes_ill_and_works_again_then_it_says_since_when_that_is() -> None:
    installer = FakeInstaller(records=FakeRecords({"one": NEW}))
    async with running(installer, HEALTHY[0]) as (_, _, clock, fleet):
        assert installer.records.known["one"] == NEW
        fleet.store_rows([replace(ONE, health="Down")])
        await clock.advance(INTERVAL)
        assert installer.records.known["one"].since is None
        fleet.store_rows(HEALTHY[:1])
        await clock.advance(INTERVAL)
        assert installer.records.known["one"].since == clock.now()
