"""A planner does not start if it would forget sync runs that the log of commands still tells of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.common.errors import InvalidConfiguration, NoPermission
from services.common.kafka import COMMANDS, load_topics
from services.planner import bootstrap
from services.planner.settings import PlannerSettings

(DECLARED,) = [topic.config for topic in load_topics() if topic.name == COMMANDS]
DAY_MS = 24 * 60 * 60 * 1000
HALF_A_DAY = str(DAY_MS // 2)
KEPT: timedelta = PlannerSettings.model_fields["sync_runs_kept"].default


def answering(retention_ms: str, segment_ms: str) -> Callable[..., dict[str, str]]:
    return lambda *_: {"retention.ms": retention_ms, "segment.ms": segment_ms}


def warnings_told(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any], kept: timedelta = KEPT) -> list[str]:
    monkeypatch.setattr(bootstrap, "topic_settings", answer)
    with capture_logs() as told:
        bootstrap._check_retention("localhost:1", kept)
    return [str(line["event"]) for line in told]


def test_topic_when_it_is_as_declared_then_runs_are_remembered_longer_than_it_tells_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declared = answering(DECLARED["retention.ms"], DECLARED["segment.ms"])
    assert warnings_told(monkeypatch, declared) == []


@pytest.mark.parametrize(
    ("retention_ms", "kept", "reason"),
    [
        pytest.param(str(14 * DAY_MS), timedelta(days=13), "SYNC_RUNS_KEPT is 13 days", id="runs are kept too short"),
        pytest.param(str(14 * DAY_MS), timedelta(days=14), "keeps messages for 14 days", id="as long as the log"),
        pytest.param(str(30 * DAY_MS), KEPT, "gitopsctl topics apply", id="commands are kept longer than declared"),
        pytest.param("-1", timedelta(days=9999), "keeps messages for ever", id="commands are kept for ever"),
    ],
)
def test_planner_when_the_log_tells_of_runs_that_it_would_forget_then_it_does_not_start_and_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, retention_ms: str, kept: timedelta, reason: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=reason):
        warnings_told(monkeypatch, answering(retention_ms, HALF_A_DAY), kept)


def test_planner_when_segments_of_the_log_are_written_for_long_then_it_starts_and_warns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a topic of an older release has it: the default of brokers is a week."""
    (told,) = warnings_told(monkeypatch, answering(DECLARED["retention.ms"], str(7 * DAY_MS)))
    assert told.startswith("commands may stay longer than SYNC_RUNS_KEPT")


def test_planner_when_it_may_not_ask_how_long_commands_are_kept_then_it_starts_and_warns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with the rights of an older release."""

    def refuse(*_: object) -> None:
        raise NoPermission("Topic authorization failed")

    (told,) = warnings_told(monkeypatch, refuse)
    assert told.endswith("run 'gitopsctl topics acls'")
