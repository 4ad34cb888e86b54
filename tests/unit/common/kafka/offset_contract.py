"""What whoever stands on an OffsetTracker commits, whatever client it commits with: the same tests for each of them."""

from __future__ import annotations

from typing import Protocol

import pytest

from services.common.kafka import TrackedOffset

MESSAGES = 4

ACKNOWLEDGED: dict[str, tuple[list[int], int | None]] = {
    "none": ([], None),
    "all in order": ([0, 1, 2, 3], 4),
    "all but the first": ([1, 2, 3], None),
    "all but the last": ([2, 0, 1], 3),
    "the first one last": ([3, 2, 1, 0], 4),
    "with a gap": ([0, 2, 3], 1),
    "one twice": ([0, 0, 1, 1], 2),
}


class Committing(Protocol):
    """One partition and whoever commits its offsets."""

    def assign(self) -> list[TrackedOffset]:
        """Have the partition assigned, and ``MESSAGES`` messages of it consumed, from where was committed."""

    def acknowledge(self, tracked: TrackedOffset) -> None:
        """The message has had its effects."""

    def revoke(self) -> None:
        """The partition goes to somebody else, for now."""

    def committed(self) -> int | None:
        """What is committed, now that everything that can be was."""


class OffsetContract:
    """To be inherited; the subclass has a fixture ``committing``."""

    @pytest.mark.parametrize(("acknowledged", "committed"), ACKNOWLEDGED.values(), ids=ACKNOWLEDGED)
    def test_offsets_when_messages_are_acknowledged_then_up_to_the_first_open_one_is_committed(
        self, committing: Committing, acknowledged: list[int], committed: int | None
    ) -> None:
        tracked = committing.assign()
        for number in acknowledged:
            committing.acknowledge(tracked[number])
        assert committing.committed() == committed

    def test_partition_when_revoked_then_a_late_acknowledgement_commits_nothing(self, committing: Committing) -> None:
        first, second, *_ = committing.assign()
        committing.acknowledge(first)
        assert committing.committed() == 1
        committing.revoke()
        committing.acknowledge(second)
        assert committing.committed() == 1

    def test_partition_when_it_came_back_then_only_this_assignments_acknowledgements_count(
        self, committing: Committing
    ) -> None:
        stale = committing.assign()
        committing.revoke()
        fresh = committing.assign()
        for tracked in stale:
            committing.acknowledge(tracked)
        assert committing.committed() is None
        committing.acknowledge(fresh[0])
        assert committing.committed() == 1
