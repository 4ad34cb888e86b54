"""What tells that a sync run was started, and started again, and while nobody could see it."""

from __future__ import annotations

import pytest

from chaos.execution.sync_watch import Witness
from chaos.record import Gap, Record
from chaos.sync_starts import SyncStarts
from services.common.kubernetes import Changed, Deleted, ListStarted, Manifest, Reflection, Seen
from tests.unit.chaos.scene import syncing

ONE, OTHER = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"

ASKED_FOR = syncing("r", version=1)
RUNNING = syncing("r", ONE, version=2)
OVER = syncing("r", ONE, version=3, requested=False)


def started(*versions: Manifest) -> int:
    starts = SyncStarts()
    for version in versions:
        starts.note(version)
    return starts.count("r")


def automated(version: Manifest) -> Manifest:
    """The same operation, begun by Argo CD itself."""
    state = version["status"]["operationState"]
    operation = version["operation"] | {"initiatedBy": {"automated": True}}
    return version | {"operation": operation, "status": {"operationState": state | {"operation": operation}}}


@pytest.mark.parametrize(
    "versions",
    [
        (ASKED_FOR, RUNNING, OVER),
        (ASKED_FOR,),
        (OVER,),
        (RUNNING, OVER, RUNNING),
        (RUNNING, syncing("r", ONE, version=3, requested=False), syncing("r", ONE, version=4)),
    ],
    ids=["all of it", "asked for", "over", "an older version once more", "put back to be terminated"],
)
def test_sync_when_it_starts_once_then_one_start_is_counted(versions: tuple[Manifest, ...]) -> None:
    assert started(*versions) == 1


@pytest.mark.parametrize(
    "versions",
    [
        (RUNNING, OVER, syncing("r", version=4), syncing("r", ONE, version=5)),
        (OVER, syncing("r", OTHER, version=4, requested=False)),
    ],
    ids=["within one second", "and was over before anybody looked"],
)
def test_sync_when_it_starts_again_then_two_starts_are_counted(versions: tuple[Manifest, ...]) -> None:
    assert started(*versions) == 2


def test_sync_when_it_starts_on_another_application_too_then_two_starts_are_counted() -> None:
    twin = syncing("r", version=2)
    twin["metadata"]["uid"] = "another"
    assert started(ASKED_FOR, twin) == 2


def test_sync_when_it_is_automations_own_then_none_is_counted() -> None:
    assert started(automated(RUNNING)) == 0


def gaps(*events: Reflection) -> list[Gap]:
    record = Record()
    witness = Witness(record)
    for event in events:
        witness.note(event)
    return record.witness_gaps


def test_witness_when_it_lists_for_the_first_time_then_there_is_no_gap() -> None:
    assert gaps(ListStarted(), Seen(ASKED_FOR), Changed(RUNNING)) == []


def test_witness_when_it_lists_again_then_the_gap_is_from_the_last_version_seen_to_the_first_change_seen() -> None:
    again = (ListStarted(), Seen(OVER), Deleted(syncing("r", ONE, version=9, requested=False)))
    assert gaps(ListStarted(), Changed(ASKED_FOR), Changed(RUNNING), *again) == [Gap(2, 9)]


def test_witness_when_a_list_fails_halfway_then_the_gap_goes_on() -> None:
    assert gaps(ListStarted(), Changed(RUNNING), ListStarted(), Seen(OVER), ListStarted()) == [Gap(2, None)]
