"""What the tests of failover record shows a late write of one whose work another does by now."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from services.common.kubernetes import Manifest
from tests.chaos.written import Written, commands_sent, is_in_order

DEPLOYMENT: Manifest = {"kind": "GitOpsDeployment", "metadata": {"uid": "d"}}
RUN: Manifest = {"kind": "GitOpsDeploymentSyncRun", "metadata": {"uid": "r"}}


def shows(path: str) -> Manifest:
    return DEPLOYMENT | {"status": {"reconciledState": {"source": {"path": path}}}}


def is_at(phase: str) -> Manifest:
    return RUN | {"status": {"operation": {"phase": phase}}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [(["old", "new"], True), (["new"], True), (["new", "old", "new"], False), (["old"], False), ([], False)],
)
def test_status_when_an_older_one_comes_after_a_newer_one_then_it_is_not_in_order(
    found: list[str], *, expected: bool
) -> None:
    assert is_in_order(found, ["old", "new"]) is expected


def test_statuses_when_they_are_recorded_then_each_that_was_written_is_told_in_its_turn() -> None:
    written = Written()
    for item in (DEPLOYMENT, shows("new"), shows("new"), shows("old"), RUN, is_at("Succeeded"), is_at("Running")):
        written.note(item)
    assert (written.shown(DEPLOYMENT), written.shown(RUN)) == (["new", "old"], ["Succeeded", "Running"])


def batch(offset: int, sender: int, timestamp: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=sender,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1000,
    )
    builder.append(0, timestamp, b"key", b"value", [])
    content = bytearray(builder.build())
    content[:8] = offset.to_bytes(8)  # which the broker assigns; not part of the checksum
    return bytes(content)


def test_commands_when_two_have_sent_some_then_each_is_told_with_its_sender_in_the_order_of_time(
    tmp_path: Path,
) -> None:
    contents = {
        "gitops.commands-0": [batch(0, sender=7, timestamp=100), batch(1, sender=7, timestamp=300)],
        "gitops.commands-1": [batch(5, sender=8, timestamp=200)],
        "gitops.engine-1": [batch(0, sender=9, timestamp=200)],
    }
    for name, batches in contents.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.log").write_bytes(b"".join(batches))
    assert [(each.place, each.sender) for each in commands_sent(tmp_path)] == [
        (("gitops.commands-0", 0), 7),
        (("gitops.commands-1", 5), 8),
        (("gitops.commands-0", 1), 7),
    ]
