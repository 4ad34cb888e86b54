"""A process that cannot start says so in one line and with its exit code."""

from __future__ import annotations

import sys

import pytest
from pydantic_settings import BaseSettings

from services.common import startup
from services.common.errors import InvalidConfiguration, NoPermission, Retry, StartupError, Unavailable


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidConfiguration("bad\nvalue"), 2), (Unavailable("away"), 69), (NoPermission("may not"), 77)],
)
def test_process_when_it_cannot_start_then_one_line_and_the_exit_code(
    error: StartupError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def start() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        startup.run("planner", start)
    assert ended.value.code == code
    assert capsys.readouterr().err == f"planner: error: {' '.join(str(error).split())}\n"


class OneSetting(BaseSettings):
    port: int


def test_settings_when_only_checked_then_a_wrong_one_is_named_and_a_right_one_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["planner", "--check-settings"])
    started: list[OneSetting] = []
    monkeypatch.setenv("PORT", "none")
    with pytest.raises(SystemExit) as ended:
        startup.run_service("planner", OneSetting, started.append)
    assert ended.value.code == 2
    assert "PORT" in capsys.readouterr().err
    monkeypatch.setenv("PORT", "17")
    startup.run_service("planner", OneSetting, started.append)
    assert started == []


def test_service_when_its_settings_are_right_then_it_starts_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["planner"])
    monkeypatch.setenv("PORT", "17")
    started: list[OneSetting] = []
    startup.run_service("planner", OneSetting, started.append)
    assert [settings.port for settings in started] == [17]


def test_dependency_when_it_answers_late_then_its_answer_is_returned() -> None:
    answers = iter([Retry("not yet"), Retry("not yet"), "here"])

    def attempt() -> str:
        answer = next(answers)
        if isinstance(answer, Retry):
            raise answer
        return answer

    assert startup.await_dependency("Kafka", attempt, timeout_seconds=30) == "here"


def test_dependency_when_it_stays_away_then_unavailable_names_it_and_the_reason() -> None:
    def attempt() -> None:
        raise Retry("connection refused")

    with pytest.raises(Unavailable, match=r"Kafka did not answer within 0\.2 s: connection refused"):
        startup.await_dependency("Kafka", attempt, timeout_seconds=0.2)
