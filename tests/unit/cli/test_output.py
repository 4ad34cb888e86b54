"""What tables show of a value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from services.cli.output import Output, print_rows

ELSEWHERE = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2026, 5, 4, 12, tzinfo=UTC), "2026-05-04 12:00:00Z"),
        (datetime(2026, 5, 4, 12, tzinfo=ELSEWHERE), "2026-05-04 06:30:00Z"),
        (True, "yes"),
        (False, "no"),
        (["a", "b"], "a, b"),
        ([], "-"),
    ],
    ids=["time", "time of another zone", "true", "false", "list", "empty list"],
)
def test_value_when_shown_to_people_then_as_they_read_it(
    capsys: pytest.CaptureFixture[str], value: object, shown: str
) -> None:
    print_rows([{"it": value}], {"it": "it"}, Output.TABLE, nothing="")
    assert capsys.readouterr().out.splitlines()[1].strip() == shown
