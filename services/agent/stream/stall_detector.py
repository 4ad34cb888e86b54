"""Detects a consumer that makes no progress although there are messages for it, or one in hand. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from services.common.clock import Clock, SystemClock

STALLED_SECONDS = 120.0
"""Longer than any wait of a healthy consumer: a rebalance, a transaction that its producer left open (60 s)."""

Position = tuple[int, int]
"""For one partition: the next offset to fetch, and the next one to process."""


class StallDetector:
    """The consumer's position in each partition, and since when it has not moved although there are messages."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._positions: dict[int, Position] = {}
        self._since: dict[int, float] = {}

    def record_positions(self, positions: Mapping[int, Position], ends: Mapping[int, int], in_hand: int | None) -> None:
        """Record the current positions, the ends of the partitions, and the partition of the message in hand."""
        behind = {partition for partition, end in ends.items() if positions.get(partition, (0, 0))[0] < end}
        if in_hand is not None and in_hand in ends:
            behind.add(in_hand)
        unmoved = {partition for partition in behind if self._positions.get(partition) == positions.get(partition)}
        now = self._clock.time()
        self._since = {
            partition: self._since.get(partition, now) if partition in unmoved else now for partition in behind
        }
        self._positions = dict(positions)

    def reset(self) -> None:
        """Forget all positions: the partitions are another agent's, or something that we need does not answer."""
        self._since = {}

    def stalled(self) -> str:
        """Why the process should be replaced; empty while the consumer makes progress or has nothing to do."""
        since = self._since
        if not since:
            return ""
        partition = min(since, key=lambda number: since[number])
        seconds = self._clock.time() - since[partition]
        return f"nothing taken in of partition {partition} for {seconds:.0f} s" if seconds > STALLED_SECONDS else ""
