"""Who only looks at the fleet reads it as a role that writes nothing."""

from __future__ import annotations

import json

import psycopg
import pytest
from typer.testing import CliRunner

from services.cli.__main__ import app
from services.cli.fleet.fleet_view import load_snapshot
from tests.component.cli.conftest import UrlOf
from tests.component.conftest import Database

ROLLOUT = """
INSERT INTO rollouts (id, version, profile, rings, soak_seconds, is_security, step, ring, stage, is_paused, outcome,
                      sources, targets, baseline, tenants, moved, reason, actor, ordered_at, step_since, moved_at,
                      due_at)
VALUES (gen_random_uuid(), '3.2.11', '', 'general', 60, false, %s, 'general', 100, false, '', '["argocd"]', '[]', '{}',
        0, 0, '', 'someone', now(), now(), now(), now())
"""
LOOKS = (
    "engines list",
    "engines list -o json",
    "engines show argocd",
    "engines moves --all",
    "engines remedies --past",
    "engines assignments",
    "engines orders",
    "engines placement team-1 --workspace teams",
    "engines pool list",
    "engines rollout status",
    "engines rebalance --dry-run",
    "engines drain argocd --dry-run",
    "engines pin team-1 --workspace teams --dry-run",
    "engine-clusters list",
    "engine-clusters drain default --dry-run",
)


@pytest.mark.parametrize("command", LOOKS)
def test_fleet_when_looked_at_by_who_only_reads_then_it_is_shown(filled: Database, url_of: UrlOf, command: str) -> None:
    with psycopg.connect(filled.owner_url) as owner:
        owner.execute(ROLLOUT, ("soaking",))
    known = {"DATABASE_READER_URL": url_of(filled, "reader"), "DATABASE_OWNER_URL": "postgresql://nobody@nowhere/none"}
    outcome = CliRunner(env=known).invoke(app, command.split(), catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output


COUNTED = """
WITH report AS (
    INSERT INTO engine_health (engine_instance_id, partition, health, reason, message, version, since, reported_at,
                               queue)
    VALUES ('argocd', 0, 'Healthy', '', '', '3.2.11', now(), now(), 0)
)
INSERT INTO engine_samples (engine_instance_id, sampled_at, applications, late, failed_syncs, comparison_errors)
VALUES ('argocd', now(), 2410, 3, 0, 0)
"""


def test_counts_when_an_agent_has_told_them_then_who_only_reads_is_shown_them(filled: Database, url_of: UrlOf) -> None:
    with psycopg.connect(filled.owner_url) as owner:
        owner.execute(COUNTED)
    known = {"DATABASE_READER_URL": url_of(filled, "reader")}
    outcome = CliRunner(env=known).invoke(app, ["engines", "show", "argocd", "-o", "json"], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    (row,) = json.loads(outcome.stdout)
    assert (row["late"], row["applications"]) == (3, 2410)


def test_fleet_when_looked_at_while_a_rollout_retires_instances_then_it_is_shown_and_nothing_is_locked(
    filled: Database, url_of: UrlOf
) -> None:
    """A planner that retires them locks their rows."""
    with psycopg.connect(filled.owner_url) as owner:
        owner.execute(ROLLOUT, ("retiring",))
        owner.commit()
        owner.execute("SELECT FROM engine_instances FOR UPDATE")
        snapshot = load_snapshot(url_of(filled, "reader"))
    assert snapshot.rollout is not None
    assert snapshot.rollout.step == "retiring"
    assert [each.id for each in snapshot.instances()] == ["argocd"]


AGED = "UPDATE rollouts SET step = 'done', step_since = now() - %s::interval"


def test_fleet_when_looked_at_then_a_rollout_that_has_ended_is_shown_for_a_day(filled: Database, url_of: UrlOf) -> None:
    def shown(ended: str) -> bool:
        with psycopg.connect(filled.owner_url) as owner:
            owner.execute(AGED, (ended,))
        return load_snapshot(url_of(filled, "reader")).rollout is not None

    with psycopg.connect(filled.owner_url) as owner:
        owner.execute(ROLLOUT, ("soaking",))
    assert [shown(ended) for ended in ("0", "23 hours 50 minutes", "24 hours", "30 days")] == [True, True, False, False]


ORDERED = """
INSERT INTO fleet_orders (id, kind, subject, arguments, actor, outcome, message, ordered_at, decided_at)
SELECT md5(n::text)::uuid, 'DrainEngineInstance', 'argocd-' || n, '{}', 'someone', 'accepted', '',
       timestamptz '2026-01-01' + n * interval '1 s', timestamptz '2026-01-02'
  FROM generate_series(1, 9) n
"""


def test_orders_when_a_planner_has_decided_on_them_together_then_the_newest_is_listed_first(
    filled: Database, url_of: UrlOf
) -> None:
    with psycopg.connect(filled.owner_url) as owner:
        owner.execute(ORDERED)
    known = {"DATABASE_READER_URL": url_of(filled, "reader")}
    outcome = CliRunner(env=known).invoke(app, ["engines", "orders", "-o", "json"], catch_exceptions=False)
    assert [row["subject"] for row in json.loads(outcome.stdout)] == [f"argocd-{n}" for n in range(9, 0, -1)]
