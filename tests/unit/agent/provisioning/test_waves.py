"""Waves: in which order changed manifests come to instances, what stops them, and what need not wait."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from services.agent.provisioning.waves import (
    UNRECORDED,
    WAITS,
    Member,
    Record,
    begun,
    believed,
    completed,
    find_waiting,
)
from services.common.messages import FleetInstance
from tests.unit.agent.instances_of_fleet import instance_row
from tests.unit.fake_clock import EPOCH

SOAK = timedelta(minutes=5)
LOOK_EVERY = timedelta(seconds=30)
TOLD_AFTER = timedelta(minutes=1)
"""Until what manifests do to an instance is told."""
LONG_AGO = EPOCH - timedelta(days=1)
RINGS = {"c": "canary", "e": "early", "g": "general"}
"""By the first letter of an instance's name."""


@dataclass
class EngineCluster:
    """Instances that have run ``old`` for long; the health of each follows from what it has."""

    names: tuple[str, ...]
    wanted: dict[str, str] = field(default_factory=dict)
    """By instance, if not ``old``."""
    breaks: set[tuple[str, str]] = field(default_factory=set)
    """Instances, and the manifests with which they do not work."""
    degrades: set[tuple[str, str]] = field(default_factory=set)
    """Likewise of those with which they work late."""
    stuck: set[str] = field(default_factory=set)
    """Manifests with which no pod starts; the old ones run on."""

    def __post_init__(self) -> None:
        self.now = EPOCH
        self.rows = {each: instance_row(each, ring=RINGS[each[0]], health="Healthy") for each in self.names}
        self.records = {each: Record("old", LONG_AGO) for each in self.names}
        self.changed = dict.fromkeys(self.names, LONG_AGO)
        self.waits: dict[str, str] = {}

    def want(self, digest: str) -> None:
        """For all."""
        self.wanted = dict.fromkeys(self.names, digest)

    def members(self) -> list[Member]:
        return [Member(row, self.wanted.get(each, "old"), self.records[each]) for each, row in self.rows.items()]

    def compare(self) -> set[str]:
        """What a provisioner does in one comparison; returns whose manifests were changed."""
        self._tell_health()
        self.waits = find_waiting(self.members(), self.now, SOAK)
        changed = set()
        for member in self.members():
            if member.instance.id in self.waits:
                continue
            record = member.record
            if not member.has_wanted:
                record = begun(member.instance, member.wanted)
                self.changed[member.instance.id] = self.now
                changed.add(member.instance.id)
            is_rolled_out = member.wanted not in self.stuck
            self.records[member.instance.id] = completed(
                record, member.instance, self.now, SOAK, is_rolled_out=is_rolled_out
            )
        return changed

    def waves(self, until: timedelta) -> list[set[str]]:
        """Whose manifests were changed at a time, in ``until`` from now."""
        end, found = self.now + until, []
        while self.now < end:
            if changed := self.compare():
                found.append(changed)
            self.now += LOOK_EVERY
        return found

    def having(self, digest: str) -> set[str]:
        return {each for each, record in self.records.items() if record.digest == digest}

    def add(self, name: str, digest: str) -> None:
        """An instance that is to be ready for tenants."""
        self.rows[name] = instance_row(name, ring=RINGS[name[0]], state="provisioning")
        self.records[name], self.changed[name], self.wanted[name] = begun(self.rows[name], digest), self.now, digest

    def retire(self, name: str) -> None:
        """Its record goes with its namespace."""
        del self.rows[name], self.records[name]

    def accept(self, name: str) -> None:
        """It is ready."""
        self.rows[name] = replace(self.rows[name], state="accepting")

    def _tell_health(self) -> None:
        for each, row in self.rows.items():
            if self.now - self.changed[each] >= TOLD_AFTER and row.health != "Unknown":
                has = (each, self.records[each].digest)
                late = ("Degraded", "ReconciliationLate") if has in self.degrades else ("Healthy", "")
                told = ("Down", "ControllerNotReady") if has in self.breaks else late
                self.rows[each] = replace(row, health=told[0], health_reason=told[1])


def fleet(*names: str) -> EngineCluster:
    return EngineCluster(names)


NAMES = ("c1", "c2", "e1", "e2", "g1", "g2", "g3", "g4", "g5", "g6", "g7")


def test_manifests_when_they_change_then_they_come_in_waves_ring_by_ring_each_as_large_as_all_before() -> None:
    cluster = fleet(*NAMES)
    cluster.want("new")
    first = cluster.compare()
    assert first == {"c1"}
    assert cluster.waits["g7"] == WAITS + "its turn, after c1"
    assert cluster.waves(timedelta(hours=1)) == [{"c2"}, {"e1", "e2"}, {"g1", "g2", "g3", "g4"}, {"g5", "g6", "g7"}]
    assert not cluster.waits


def test_wave_when_there_is_room_for_more_than_its_ring_has_then_the_next_ring_waits_all_the_same() -> None:
    cluster = fleet("c1", "c2", "c3", "g1", "g2")
    cluster.want("new")
    assert cluster.waves(timedelta(hours=1)) == [{"c1"}, {"c2"}, {"c3"}, {"g1", "g2"}]


def test_wave_when_the_one_before_has_not_worked_for_the_soak_then_it_waits_for_that() -> None:
    cluster = fleet(*NAMES)
    cluster.want("new")
    cluster.compare()
    cluster.now += SOAK - timedelta(seconds=1)
    assert cluster.compare() == set()
    assert cluster.waits["c2"] == WAITS + "c1, which has to work with its changed ones until 2026-01-01T00:05:00Z"
    cluster.now += timedelta(seconds=1)
    assert cluster.compare() == {"c2"}


def test_manifests_when_nothing_works_with_them_then_they_stop_at_the_first_instance() -> None:
    cluster = fleet(*NAMES)
    cluster.breaks = {(each, "broken") for each in NAMES}
    cluster.want("broken")
    assert cluster.waves(timedelta(hours=2)) == [{"c1"}]
    assert set(cluster.waits.values()) == {
        WAITS + "c1, which has its changed ones already and is Down (ControllerNotReady)"
    }


def test_manifests_when_an_instance_works_with_them_only_for_a_while_then_they_stop_there_also_if_it_recovers() -> None:
    cluster = fleet(*NAMES)
    cluster.want("new")
    cluster.compare()
    cluster.now += TOLD_AFTER
    cluster.breaks = {("c1", "new")}
    cluster.compare()
    cluster.breaks = set()
    cluster.now += SOAK - TOLD_AFTER
    assert cluster.compare() == set()
    cluster.now += SOAK - timedelta(seconds=1)
    assert cluster.compare() == set(), "the soak begins anew"
    cluster.now += timedelta(seconds=1)
    assert cluster.compare() == {"c2"}


def test_manifests_when_a_later_instance_does_not_work_with_them_then_they_stop_at_its_wave() -> None:
    cluster = fleet(*NAMES)
    cluster.breaks = {("e2", "new")}
    cluster.want("new")
    cluster.waves(timedelta(hours=2))
    assert cluster.having("new") == {"c1", "c2", "e1", "e2"}


def test_manifests_when_set_back_then_the_ill_have_them_at_once_and_work_again() -> None:
    cluster = fleet(*NAMES)
    cluster.breaks = {(each, "broken") for each in ("e1", "e2")}
    cluster.want("broken")
    cluster.waves(timedelta(hours=1))
    cluster.want("old")
    assert cluster.compare() == {"e1", "e2", "c1", "c2"}
    cluster.now += TOLD_AFTER
    assert cluster.compare() == set()
    assert {row.health for row in cluster.rows.values()} == {"Healthy"}


def test_manifests_when_set_back_while_another_is_ill_then_the_ill_have_them_at_once_and_the_others_wait() -> None:
    cluster = fleet(*NAMES)
    cluster.breaks = {("e1", "broken")}
    cluster.want("broken")
    cluster.waves(timedelta(hours=1))
    cluster.breaks.add(("g7", "old"))
    cluster.want("old")
    assert cluster.compare() == {"e1"}
    assert cluster.waits["c1"] == WAITS + "g7, which has its changed ones already and is Down (ControllerNotReady)"


def test_manifests_when_mended_then_one_that_is_ill_has_them_first_and_the_rest_once_it_works() -> None:
    cluster = fleet("c1", "c2", "g1", "g2")
    cluster.breaks = {("c2", "broken")}
    cluster.want("broken")
    cluster.waves(timedelta(hours=1))
    cluster.want("mended")
    assert cluster.waves(timedelta(hours=1)) == [{"c2"}, {"c1"}, {"g1", "g2"}]


def test_manifests_when_mended_and_it_does_not_help_then_they_come_to_no_other() -> None:
    cluster = fleet(*NAMES)
    cluster.breaks = {("c1", "broken"), ("c1", "mended")}
    cluster.want("broken")
    cluster.waves(timedelta(hours=1))
    cluster.want("mended")
    assert cluster.waves(timedelta(hours=2)) == [{"c1"}]
    assert cluster.waits["c2"] == WAITS + "c1, which has its changed ones already and is Down (ControllerNotReady)"


def test_instance_when_it_was_ill_before_its_manifests_changed_then_it_holds_nobody_up() -> None:
    cluster = fleet(*NAMES)
    cluster.breaks = {("g1", "old"), ("g1", "new")}
    cluster.want("new")
    waves = cluster.waves(timedelta(hours=1))
    assert waves[:2] == [{"c1"}, {"c2", "g1"}], "it waits until another has worked with them, and not longer"
    assert cluster.having("new") == set(NAMES)
    assert waves[2:] == [{"e1", "e2"}, {"g2", "g3", "g4", "g5"}, {"g6", "g7"}], "it is not counted"


def test_instances_when_all_are_ill_for_another_reason_then_unproven_manifests_come_to_one_of_them() -> None:
    cluster = fleet(*NAMES)
    cluster.breaks = {(each, digest) for each in NAMES for digest in ("old", "new")}
    cluster.want("new")
    assert cluster.waves(timedelta(hours=2)) == [{"c1"}]


def test_instance_when_no_agent_tells_how_it_is_then_it_is_not_taken_for_ill_and_holds_the_others_up() -> None:
    cluster = fleet(*NAMES)
    cluster.rows["c1"] = replace(cluster.rows["c1"], health="Unknown", health_reason="AgentSilent")
    cluster.want("new")
    assert cluster.waves(timedelta(hours=2)) == [{"c1"}]
    assert cluster.waits["c2"] == (
        WAITS + "c1, which has its changed ones already and of which no agent tells how it is"
    )


def test_manifests_of_several_profiles_when_a_release_changes_them_all_then_the_first_wave_is_one_instance() -> None:
    cluster = fleet(*NAMES)
    cluster.wanted = {each: "small" if each in ("c1", "e1", "g1") else "large" for each in NAMES}
    assert cluster.waves(timedelta(hours=1)) == [
        *({"c1"}, {"c2"}, {"e1", "e2"}),
        *({"g1", "g2", "g3"}, {"g4", "g5", "g6", "g7"}),
    ]


def test_manifests_of_one_profile_when_they_change_then_instances_of_others_are_not_counted() -> None:
    cluster = fleet(*NAMES)
    cluster.wanted = dict.fromkeys(("g1", "g2", "g3"), "large")
    cluster.breaks = {("c1", "old")}
    assert cluster.waves(timedelta(hours=1)) == [{"g1"}, {"g2"}, {"g3"}]


HEALTHY = instance_row("c1", ring="canary", health="Healthy")
NEW = instance_row("c2", ring="canary", state="provisioning")
WAITING = Member(instance_row("g1", health="Healthy"), "new", Record("old", LONG_AGO))


UNREADY = {"provisioning": "is not ready yet", "failed": "has failed"}


@pytest.mark.parametrize(("state", "how"), UNREADY.items(), ids=UNREADY)
@pytest.mark.parametrize("record", [Record("new", None, ill="Down"), Record("old", LONG_AGO), UNRECORDED])
def test_instance_when_it_is_not_in_service_then_it_does_not_wait_and_those_that_are_to_have_the_same_do(
    state: str, how: str, record: Record
) -> None:
    other = Member(replace(NEW, state=state), "new", record)
    why = WAITS + f"c2, which was installed with its changed ones and {how}"
    assert find_waiting([other, WAITING], EPOCH, SOAK) == {"g1": why}


def test_instance_when_it_is_not_in_service_and_of_other_manifests_then_it_holds_nobody_up() -> None:
    assert find_waiting([Member(NEW, "others", UNRECORDED), WAITING], EPOCH, SOAK) == {}


def test_manifests_when_an_instance_is_replaced_because_of_them_then_they_wait_for_the_one_in_its_place() -> None:
    cluster = fleet("c1", "c2", "g1", "g2")
    cluster.breaks = {("c1", "broken")}
    cluster.want("broken")
    cluster.waves(timedelta(minutes=30))
    cluster.add("c3", "broken")
    cluster.waves(timedelta(minutes=1))
    cluster.retire("c1")
    cluster.breaks = {("c3", "broken")}
    assert cluster.waves(timedelta(hours=1)) == []
    assert cluster.waits["c2"] == WAITS + "c3, which was installed with its changed ones and is not ready yet"
    cluster.breaks = set()
    cluster.waves(TOLD_AFTER)
    cluster.accept("c3")
    assert cluster.waves(timedelta(hours=1)) == [{"c2"}, {"g1", "g2"}]


def test_manifests_when_no_pod_starts_with_them_then_they_stop_at_the_first_instance_though_it_is_healthy() -> None:
    cluster = fleet(*NAMES)
    cluster.stuck = {"new"}
    cluster.want("new")
    assert cluster.waves(timedelta(hours=2)) == [{"c1"}]
    assert cluster.rows["c1"].health == "Healthy"
    assert cluster.waits["c2"] == WAITS + "c1, which is being brought up to its changed ones"
    cluster.stuck = set()
    assert cluster.waves(timedelta(hours=1))[0] == {"c2"}


def test_instance_when_it_has_had_its_soak_then_it_stops_the_others_only_while_it_is_down_or_untold() -> None:
    cluster = fleet(*NAMES)
    cluster.want("new")
    assert cluster.waves(SOAK + 2 * LOOK_EVERY) == [{"c1"}, {"c2"}]
    cluster.degrades = {("c1", "new")}
    assert cluster.waves(SOAK + LOOK_EVERY) == [{"e1", "e2"}]
    cluster.breaks = {("c1", "new")}
    assert cluster.waves(timedelta(hours=1)) == []
    assert cluster.waits["g1"] == WAITS + "c1, which has its changed ones already and is Down (ControllerNotReady)"
    cluster.breaks = set()
    assert cluster.waves(timedelta(hours=1)) == [], "it was down, and is to have its soak again"
    cluster.degrades = set()
    assert cluster.waves(SOAK) == []
    cluster.rows["e1"] = replace(cluster.rows["e1"], health="Unknown")
    assert cluster.waves(timedelta(hours=1)) == []
    assert cluster.waits["g1"] == WAITS + (
        "e1, which has its changed ones already and of which no agent tells how it is"
    )


def test_instance_when_it_is_late_with_what_it_has_then_it_waits_for_its_turn_and_is_counted_if_it_goes_down() -> None:
    cluster = fleet(*NAMES)
    general = [each for each in NAMES if each[0] == "g"]
    cluster.degrades = {(each, digest) for each in general for digest in ("old", "new")}
    cluster.want("new")
    waves = cluster.waves(timedelta(hours=1))
    assert waves == [{"c1"}, {"c2"}, {"e1", "e2"}, {"g1", "g2", "g3", "g4"}, {"g5", "g6", "g7"}]
    cluster = fleet(*NAMES)
    cluster.degrades = {(each, "old") for each in general}
    cluster.breaks = {(each, "new") for each in general}
    cluster.want("new")
    cluster.waves(timedelta(hours=2))
    assert cluster.having("new") == {"c1", "c2", "e1", "e2", "g1", "g2", "g3", "g4"}
    assert cluster.waits["g5"] == WAITS + "g1, which has its changed ones already and is Down (ControllerNotReady)"


def test_instance_when_it_is_being_brought_up_to_its_manifests_then_it_goes_on_and_the_others_wait() -> None:
    half = Member(HEALTHY, "new", begun(HEALTHY, "new"))
    assert find_waiting([half, WAITING], EPOCH, SOAK) == {
        "g1": WAITS + "c1, which is being brought up to its changed ones"
    }


def test_instance_when_an_earlier_release_has_installed_it_otherwise_then_it_waits_like_others() -> None:
    legacy = [Member(instance_row(each, health="Healthy"), "new", UNRECORDED) for each in ("g2", "g3")]
    assert find_waiting([*legacy, WAITING], EPOCH, SOAK).keys() == {"g2", "g3"}


WELL = {"healthy": ("Healthy", ""), "its certificate expires": ("Degraded", "CertificateExpiring")}


@pytest.mark.parametrize("health", WELL.values(), ids=WELL)
def test_record_when_all_is_there_and_the_instance_works_then_it_says_since_when(health: tuple[str, str]) -> None:
    row = replace(HEALTHY, health=health[0], health_reason=health[1])
    record = completed(Record("new", None, ill="Down"), row, EPOCH, SOAK, is_rolled_out=True)
    assert record == Record("new", EPOCH)
    before = EPOCH + SOAK - timedelta(seconds=1)
    assert completed(record, row, before, SOAK, is_rolled_out=True) == record
    proven = completed(record, row, EPOCH + SOAK, SOAK, is_rolled_out=True)
    assert proven == replace(record, is_proven=True)
    assert completed(record, row, before, SOAK, is_rolled_out=False) == Record("new", None)
    assert completed(proven, row, EPOCH + SOAK, SOAK, is_rolled_out=False) == Record("new", None, is_proven=True)


LATE = replace(HEALTHY, health="Degraded", health_reason="ReconciliationLate")
ILL: dict[str, tuple[FleetInstance, str]] = {
    "down": (replace(HEALTHY, health="Down"), "Down"),
    "silent": (replace(HEALTHY, health="Unknown"), ""),
    "never told": (replace(HEALTHY, health=""), ""),
}


@pytest.mark.parametrize(("row", "ill"), ILL.values(), ids=ILL)
def test_record_when_the_instance_does_not_work_then_there_is_no_time_and_it_says_how_ill_it_was_before(
    row: FleetInstance, ill: str
) -> None:
    assert completed(begun(row, "new"), row, EPOCH, SOAK, is_rolled_out=True) == Record("new", None, ill)
    assert completed(Record("new", LONG_AGO), row, EPOCH, SOAK, is_rolled_out=True) == Record("new", None)
    proven = Record("new", LONG_AGO, is_proven=True)
    stays = row.health != "Down"
    assert completed(proven, row, EPOCH, SOAK, is_rolled_out=True) == Record("new", None, is_proven=stays)


def test_record_when_the_instance_is_degraded_then_it_has_its_soak_if_it_was_so_before_and_not_if_it_has_worked() -> (
    None
):
    record = completed(begun(LATE, "new"), LATE, EPOCH, SOAK, is_rolled_out=True)
    assert record == Record("new", EPOCH, "Degraded")
    proven = completed(record, LATE, EPOCH + SOAK, SOAK, is_rolled_out=True)
    assert proven == replace(record, is_proven=True)
    works = completed(record, HEALTHY, EPOCH, SOAK, is_rolled_out=True)
    assert works == Record("new", EPOCH)
    assert completed(works, LATE, EPOCH, SOAK, is_rolled_out=True) == Record("new", None)
    down = replace(HEALTHY, health="Down")
    assert completed(proven, down, EPOCH, SOAK, is_rolled_out=True) == Record("new", None, "Degraded")
    assert completed(begun(down, "new"), LATE, EPOCH, SOAK, is_rolled_out=True) == Record("new", None, "Down")


def test_record_when_its_time_is_still_to_come_then_nobody_waits_for_that() -> None:
    for time in (EPOCH + timedelta(seconds=1), datetime.max.replace(tzinfo=UTC)):
        assert believed(Record("new", time), EPOCH) == Record("new", None)
    for known in (Record("new", EPOCH), Record("new", None)):
        assert believed(known, EPOCH) == known
