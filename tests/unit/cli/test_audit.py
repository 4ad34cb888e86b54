"""Operators are told who changed what, and what came of it; what they ask in a wrong way is named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
import yaml
from typer.testing import CliRunner, Result

from services.cli import audit
from services.cli.audit import Question
from services.cli.filters import ResourceFilter, parse_resource, parse_since, parse_tenant
from services.common.errors import InvalidConfiguration

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
ROW = {
    "at": NOW,
    "tenant": "local/team-a",
    "resource": "GitOpsDeployment/web",
    "generation": 2,
    "action": "update",
    "manager": "kubectl-edit",
    "outcome": "Failed",
    "outcomeAt": NOW + timedelta(seconds=1),
    "message": "spec.source.path \x1b[31m[red]cannot be '/'",
    "traceparent": "00-1",
}


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: str, rows: int = 1) -> tuple[Result, list[Any]]:
    """What the command tells of so many equal rows, and what it has asked the database."""
    questions: list[Any] = []

    def records(_: str, question: Question, limit: int) -> list[Any]:
        questions.append(question)
        return [ROW] * min(rows, limit)

    monkeypatch.setattr(audit, "audit_records", records)
    return CliRunner().invoke(audit.app, arguments, env={"DATABASE_OWNER_URL": "postgresql://x"}), questions


def test_audit_when_shown_as_a_table_then_a_line_tells_who_did_what_and_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result, _ = asked(monkeypatch)
    line = " ".join(result.stdout.splitlines()[1].split())
    assert line == (
        "2026-05-04 12:00:00Z local/team-a GitOpsDeployment/web 2 update kubectl-edit Failed 2026-05-04 12:00:01Z "
        "spec.source.path [31m[red]cannot be '/'"
    )


@pytest.mark.parametrize(("output", "read"), [("json", orjson.loads), ("yaml", yaml.safe_load)])
def test_audit_when_shown_to_a_program_then_every_value_is_there(
    monkeypatch: pytest.MonkeyPatch, output: str, read: Callable[[str], Any]
) -> None:
    result, _ = asked(monkeypatch, "-o", output)
    (shown,) = read(result.stdout)
    assert shown == ROW | {"at": "2026-05-04T12:00:00Z", "outcomeAt": "2026-05-04T12:00:01Z"}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_audit_when_shown_to_a_program_in_a_terminal_then_that_has_nothing_to_obey(
    monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    hostile = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
    monkeypatch.setitem(ROW, "message", hostile)
    result, _ = asked(monkeypatch, "-o", output)
    assert all(character.isprintable() for line in result.stdout.split("\n") for character in line)
    (shown,) = yaml.safe_load(result.stdout)
    assert shown["message"] == hostile


def test_audit_when_there_is_more_than_the_limit_then_that_is_told_beside_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result, _ = asked(monkeypatch, "-o", "json", "--limit", "2", rows=3)
    assert len(orjson.loads(result.stdout)) == 2
    assert "there are more than these 2" in result.stderr


def test_audit_when_filters_are_given_then_the_database_is_asked_for_these(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--tenant", "local/team-a", "--resource", "gitopsdeployment/web", "--since", "2026-05-04T12:00:00Z"]
    _, questions = asked(monkeypatch, *arguments)
    assert questions == [Question(("local", "team-a"), ResourceFilter("GitOpsDeployment", "web"), NOW)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("GitOpsDeployment/web", "GitOpsDeployment"),
        ("gitopsdeploymentsyncruns/web", "GitOpsDeploymentSyncRun"),
        ("GITOPSDEPLOYMENTMANAGEDENVIRONMENT/web", "GitOpsDeploymentManagedEnvironment"),
    ],
)
def test_resource_when_its_kind_is_written_as_kubectl_takes_it_then_it_is_known(text: str, wanted: str) -> None:
    assert parse_resource(text) == ResourceFilter(wanted, "web")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("P1D", NOW - timedelta(days=1)),
        ("PT2H", NOW - timedelta(hours=2)),
        ("2026-05-03", NOW - timedelta(days=1, hours=12)),
        ("2026-05-04T14:00:00+02:00", NOW),
    ],
)
def test_since_when_it_is_a_time_or_a_duration_then_it_is_a_time(text: str, wanted: datetime) -> None:
    assert parse_since(text, NOW) == wanted


@pytest.mark.parametrize("text", ["team-a", "/team-a", "local/", "local/team-a/web"])
def test_tenant_when_it_is_not_a_workspace_and_a_namespace_then_the_error_names_it(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"'{text}' is not WORKSPACE/NAMESPACE"):
        parse_tenant(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [("web", "'web' is not KIND/NAME"), ("Pod/web", "no kind 'Pod'; there are GitOps"), ("/web", "no kind ''")],
)
def test_resource_when_it_is_none_of_ours_then_the_error_names_it(text: str, named: str) -> None:
    with pytest.raises(InvalidConfiguration, match=named):
        parse_resource(text)


@pytest.mark.parametrize("text", ["yesterday", "P", "P1X", "2026-13-01", "P99999999999D"])
def test_since_when_it_is_no_time_then_the_error_names_it(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"'{text}' is neither a time"):
        parse_since(text, NOW)
