"""Cycles are looked for rarely."""

from __future__ import annotations

import gc

from services.common.garbage_collection import collect_rarely


def test_objects_when_many_come_to_stay_then_they_are_not_all_looked_at_for_cycles() -> None:
    before = gc.get_threshold()
    collect_rarely()
    try:
        collections = gc.get_stats()[-1]["collections"]
        kept = [{"number": [number]} for number in range(300_000)]
        assert gc.get_stats()[-1]["collections"] == collections
        assert len(kept) == 300_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
