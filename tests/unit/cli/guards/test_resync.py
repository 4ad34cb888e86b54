"""Operators are shown what a refused resync would remove, and approve exactly that by its name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from services.cli.guards import resync
from services.cli.guards.approvals import named
from services.cli.guards.resync import RefusedList
from services.common.errors import InvalidConfiguration

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
ENVIRONMENT = {
    "DATABASE_OWNER_URL": "postgresql://x",
    "KAFKA_BOOTSTRAP_SERVERS": "localhost:1",
    "SCHEMA_REGISTRY_URL": "http://localhost:1",
}


def refused(partition: int, digest: str = "0123456789abcdef") -> RefusedList:
    return RefusedList("local", "GitOpsDeployment", partition, 1_777_896_000_000, 100, digest, AT, 80)


@pytest.fixture
def approved(monkeypatch: pytest.MonkeyPatch) -> list[RefusedList]:
    """Two partitions are refused; what is approved is collected."""
    approved: list[RefusedList] = []
    monkeypatch.setattr(resync, "refused_lists", lambda _: [refused(3), refused(4)])
    monkeypatch.setattr(resync, "send_approvals", lambda _, lists: approved.extend(lists))
    return approved


def call(*arguments: str) -> Result:
    return CliRunner().invoke(resync.app, arguments, env=ENVIRONMENT)


def test_status_when_lists_were_refused_then_each_is_told_by_the_name_that_approves_it(approved: Any) -> None:
    rows = orjson.loads(call("status", "-o", "json").stdout)
    assert [(row["name"], row["known"], row["removes"], row["listBeganAt"]) for row in rows] == [
        ("local/GitOpsDeployment/3@0123456789ab", 100, 80, "2026-05-04T12:00:00Z"),
        ("local/GitOpsDeployment/4@0123456789ab", 100, 80, "2026-05-04T12:00:00Z"),
    ]


def test_status_when_none_was_refused_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "refused_lists", lambda _: [])
    assert call("status").stdout == "no resync is refused\n"


def test_approval_when_a_name_is_given_then_that_one_is_approved_alone(approved: list[RefusedList]) -> None:
    told = call("approve", "local/GitOpsDeployment/4@0123456789ab").stdout
    assert approved == [refused(4)]
    assert told == "local/GitOpsDeployment/4@0123456789ab: approved, 80 resources go\n"


def test_approval_when_it_is_only_tried_then_nothing_is_sent(approved: list[RefusedList]) -> None:
    assert "would be approved" in call("approve", "local/GitOpsDeployment/4@0123456789ab", "--dry-run").stdout
    assert approved == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("local/GitOpsDeployment/5@0123456789ab", "there is no refused resync local/GitOpsDeployment/5@0123456789ab"),
        ("nonsense", "there is no refused resync nonsense"),
        ("local/GitOpsDeployment/3@ffffffffffff", "is another by now: it is local/GitOpsDeployment/3@0123456789ab"),
        ("local/GitOpsDeployment/3", "is another by now: it is local/GitOpsDeployment/3@0123456789ab"),
    ],
)
def test_name_when_it_is_none_or_of_another_list_then_the_error_names_it(name: str, told: str) -> None:
    with pytest.raises(InvalidConfiguration, match=told):
        named([refused(3)], [name], "refused resync", "resync status")
