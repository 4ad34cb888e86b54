from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from services.common.times import rfc3339, rfc3339_micro

MOMENTS = {
    "utc": datetime(2026, 5, 4, 12, 0, 1, 250, tzinfo=UTC),
    "elsewhere": datetime(2026, 5, 4, 14, 0, 1, 250, tzinfo=timezone(timedelta(hours=2))),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_time_when_written_for_kubernetes_then_in_utc(moment: datetime) -> None:
    assert rfc3339(moment) == "2026-05-04T12:00:01Z"
    assert rfc3339_micro(moment) == "2026-05-04T12:00:01.000250Z"
