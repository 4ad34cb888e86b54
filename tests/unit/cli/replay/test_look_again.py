"""Operators have unchanged resources looked at again: whose is said, and how many at a time."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from services.cli.replay import look_again
from services.common.messages import Command, LookAgain

ENVIRONMENT = {
    "DATABASE_OWNER_URL": "postgresql://x",
    "KAFKA_BOOTSTRAP_SERVERS": "localhost:1",
    "SCHEMA_REGISTRY_URL": "http://localhost:1",
}
TENANTS = [("local", f"team-{number}") for number in range(5)]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """What is asked of whom; the database knows five tenants."""
    sent: list[Command] = []
    monkeypatch.setattr(look_again, "tenants_with", lambda *_: TENANTS)
    monkeypatch.setattr(look_again, "send_commands", lambda _, commands: sent.extend(commands))
    return sent


def call(*arguments: str) -> Result:
    return CliRunner().invoke(look_again.app, arguments, env=ENVIRONMENT)


def test_kind_when_it_is_named_then_every_tenant_that_has_some_is_asked_for(sent: list[Command]) -> None:
    assert call("--kind", "gitopsdeployments").exit_code == 0
    assert [(each.workspace, each.namespace) for each in sent] == TENANTS
    assert {each.event for each in sent} == {LookAgain("GitOpsDeployment")}


def test_command_when_it_is_only_tried_then_nothing_is_sent(sent: list[Command]) -> None:
    assert "5 tenants would be looked at again" in call("--kind", "GitOpsDeployment", "--dry-run").stderr
    assert sent == []


@pytest.mark.parametrize("arguments", [[], ["--kind", "Pod"], ["--tenant", "nonsense"]])
def test_command_when_it_does_not_say_whose_then_it_is_refused(sent: list[Command], arguments: list[str]) -> None:
    assert call(*arguments).exit_code != 0
    assert sent == []


def test_tenants_when_there_are_more_than_a_second_may_take_then_the_rest_waits_a_second() -> None:
    told: list[Any] = []
    look_again.ask_paced(TENANTS, 2, told.append, told.append)
    assert told == [TENANTS[:2], 1, TENANTS[2:4], 1, TENANTS[4:]]
