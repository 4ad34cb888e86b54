"""``gitopsctl workspaces add`` makes what Connect writes to before it may write there."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner, Result

from services.cli.installation import workspaces
from services.cli.kafka import topics
from services.cli.kafka.topics import password_variable
from services.common.errors import InvalidConfiguration, Retry


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was carried out, in order."""
    done: list[str] = []
    monkeypatch.setattr(topics, "make_topics", lambda wanted, *_: done.extend(topic.name for topic in wanted))
    monkeypatch.setattr(topics, "grant_rights", lambda rights, _: done.extend(rights))
    monkeypatch.setattr(workspaces, "_move_rows", lambda _, name: done.append(f"partition of {name}"))
    return done


def add(*names: str) -> Result:
    return CliRunner().invoke(workspaces.app, ["add", "--url", "postgresql://owner@localhost/gitops", "--", *names])


def test_workspace_when_added_then_its_rows_are_streamed_only_once_topic_and_rights_are_there(done: list[str]) -> None:
    assert add("teams").exit_code == 0
    assert done == ["gitops.workspace.teams", "gitops.objects.teams", "watcher-teams", "partition of teams"]


def test_workspace_when_its_topic_cannot_be_made_then_it_gets_no_partition(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Retry("no brokers")

    monkeypatch.setattr(topics, "make_topics", refuse)
    assert add("teams").exit_code != 0
    assert done == []


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-a", "a.", "x" * 44, "<workspace>", 'a"b', "a\n"])
def test_name_when_it_can_be_no_workspaces_then_nothing_is_made_for_any(done: list[str], name: str) -> None:
    outcome = add("teams", name)
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert done == []


@pytest.mark.parametrize(
    ("principal", "variable"),
    [("planner", "KAFKA_PASSWORD_PLANNER"), ("watcher-A.b_c-d", "KAFKA_PASSWORD_WATCHER_A_B_C_D")],
)
def test_password_when_given_then_in_a_variable_of_the_principals_name(principal: str, variable: str) -> None:
    assert password_variable(principal) == variable
