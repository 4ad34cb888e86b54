"""Operators are shown which orphans an agent keeps, and approve by name that exactly these go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from services.cli.guards import kept_orphans, orphans
from services.cli.guards.kept_orphans import Kept
from services.common.errors import InvalidConfiguration

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
ENVIRONMENT = {
    "DATABASE_OWNER_URL": "postgresql://x",
    "KAFKA_BOOTSTRAP_SERVERS": "localhost:1",
    "SCHEMA_REGISTRY_URL": "http://localhost:1",
}
KEPT = Kept("argocd", 100, 30, '["Application/a","Secret/b"]', "0123456789abcdef", AT, is_approved=False)
OTHER = KEPT._replace(engine_instance_id="argocd-2")


@pytest.fixture
def approved(monkeypatch: pytest.MonkeyPatch) -> list[Kept]:
    """Two agents keep some; what is approved is collected."""
    approved: list[Kept] = []
    monkeypatch.setattr(kept_orphans, "kept_orphans", lambda _: [KEPT, OTHER])
    monkeypatch.setattr(kept_orphans, "send_approvals", lambda _, found: approved.extend(found))
    return approved


def call(*arguments: str) -> Result:
    return CliRunner().invoke(orphans.app, arguments, env=ENVIRONMENT)


def test_orphans_when_agents_keep_some_then_each_instance_is_told_by_the_name_that_approves_it(approved: Any) -> None:
    row = orjson.loads(call("kept", "-o", "json").stdout)[0]
    assert row == {
        "name": "argocd@0123456789ab",
        "existing": 100,
        "kept": 30,
        "removes": 2,
        "approved": False,
        "reportedAt": "2026-05-04T12:00:00Z",
    }


def test_orphans_when_they_are_shown_then_it_is_what_an_approval_removes(approved: Any) -> None:
    rows = orjson.loads(call("show", "argocd@0123456789ab", "-o", "json").stdout)
    assert [row["object"] for row in rows] == ["Application/a", "Secret/b"]


def test_approval_when_a_name_is_given_then_that_one_is_approved_alone(approved: list[Kept]) -> None:
    told = call("approve", "argocd-2@0123456789ab").stdout
    assert approved == [OTHER]
    assert told == "argocd-2@0123456789ab: approved, 2 objects go\n"


def test_approval_when_it_is_only_tried_then_nothing_is_sent(approved: list[Kept]) -> None:
    assert "would be approved" in call("approve", "argocd@0123456789ab", "--dry-run").stdout
    assert approved == []


@pytest.mark.parametrize("name", ["argocd@ffffffffffff", "argocd", "nonsense@0123456789ab"])
def test_approval_when_the_name_is_of_something_else_then_nothing_is_sent(approved: list[Kept], name: str) -> None:
    assert isinstance(call("approve", name).exception, InvalidConfiguration)
    assert approved == []
