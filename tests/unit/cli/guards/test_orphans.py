"""Operators are told what forced deletions may have left behind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from services.cli.guards import orphans
from services.cli.guards.orphans import Forced
from services.planner.domain.audit import forced_deletion

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
LEFT = Forced("local/team-a", "GitOpsDeployment/web", AT, forced_deletion("gitopsdepl-uid-1"), is_there_again=False)


def listed(monkeypatch: pytest.MonkeyPatch, *rows: Forced) -> str:
    monkeypatch.setattr(orphans, "left_behind", lambda _: list(rows))
    result = CliRunner().invoke(orphans.app, ["list"], env={"DATABASE_OWNER_URL": "postgresql://x"})
    assert result.exit_code == 0, result.output
    return result.output


def test_list_when_a_deletion_was_forced_then_whose_and_what_and_where_to_look_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = listed(monkeypatch, LEFT)
    assert "local/team-a: GitOpsDeployment/web, deleted 2026-05-04 12:00:00, the engine did not finish in time" in told
    assert "gitopsdepl-uid-1" in told
    assert "argocd.argoproj.io/tracking-id" in told


def test_list_when_the_resource_was_created_again_then_it_says_so_and_what_that_has_not_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "created again since" not in listed(monkeypatch, LEFT)
    again = LEFT._replace(is_there_again=True)
    assert "; created again since, which takes over what has the same names\n" in listed(monkeypatch, again)
    partly = again._replace(resources='[["apps","Deployment","team-a","web"]]', total=3)
    assert "; not taken over are Deployment.apps team-a/web and 2 more\n" in listed(monkeypatch, partly)


def test_list_when_none_was_forced_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(monkeypatch) == "no deletion was forced\n"
