"""Operators are shown which instances a tenant is on, and what of it is on each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from services.cli.fleet import engines
from services.common.errors import InvalidConfiguration
from services.common.messages import Checked
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed, environment, observed, secret, spec

OWN, OTHER = "one", "two"
EACH = 1
"""Deployments of an instance that is so small."""


@pytest.fixture
def split(database: Database) -> Iterator[None]:
    """A tenant whose instance has room for one deployment of an environment, and for those without one."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, OWN, "argocd")
        owner.execute("UPDATE engine_instances SET capacity = %s", (EACH,))
    with closing(DatabaseSession(database.planner_url, ENGINES)) as session:

        def take(*events: Event) -> None:
            for event in events:
                session.save_changes(plan_batch([event], session, Policy(), at(1000)), ())

        take(secret(1), environment(2, "dev"), environment(3, "prod"))
        take(*checks(database))
        take(deployed(5, "web", environment="dev", namespace="web"), deployed(6, "local"))
        with psycopg.connect(database.owner_url) as owner:
            add_instance(owner, OTHER, "argocd-2")
        session.refresh_fleet()
        take(
            deployed(7, "api", environment="prod", namespace="web"),
            deployed(8, "waits", environment="none", namespace="web"),
        )
        yield


def checks(database: Database) -> Iterator[Event]:
    """The agent has found both environments to work."""
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT name, digest FROM engine_resources WHERE kind = 'ClusterSecret'").fetchall()
    for name, digest in rows:
        yield observed(4, Checked(digest, "Succeeded", ""), instance=OWN, kind="ClusterSecret", name=name)


def deployed(second: int, name: str, **destination: str) -> Event:
    return changed(second, name, uid=f"uid-{name}", content=spec(destination=destination) if destination else None)


def shown(database: Database, *arguments: str) -> Result:
    return CliRunner(env={"DATABASE_OWNER_URL": database.owner_url}).invoke(engines.app, list(arguments))


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


@pytest.mark.usefixtures("split")
def test_tenant_when_split_then_its_placement_names_each_part_with_its_environments_and_what_is_nowhere_is_not_counted(
    database: Database,
) -> None:
    arguments = ("placement", NAMESPACE, "--workspace", WORKSPACE)
    columns = ("name", "instance", "deployments", "withoutEnvironment", "environments")
    found = [tuple(each[name] for name in columns) for each in rows(shown(database, *arguments, "-o", "json"))]
    assert found == [(NAMESPACE, OWN, 2, 1, ["dev"]), (f"{NAMESPACE}@{OTHER}", OTHER, 1, 0, ["prod"])]
    table = shown(database, *arguments).stdout.splitlines()
    assert table[-1].split() == [WORKSPACE, f"{NAMESPACE}@{OTHER}", OTHER, "1", "0", "-", "-", "prod"]


MOVED = """
INSERT INTO moves (id, tenant_id, workspace, namespace, partition, source, target, step, is_cancelled, reported,
                   message, actor, ordered_at, step_since)
SELECT gen_random_uuid(), id, workspace, namespace, partition, %s, %s, %s, false, '{}', '', 'ada', %s, %s FROM tenants
"""
PINNED = "INSERT INTO tenant_pins VALUES (%s, %s, %s, %s)"


@pytest.mark.usefixtures("split")
def test_tenant_when_moved_or_pinned_then_its_placement_says_since_when_of_what_that_is_of(database: Database) -> None:
    arguments = ("placement", NAMESPACE, "--workspace", WORKSPACE, "-o", "json")

    def since() -> dict[str, tuple[str | None, str | None]]:
        return {each["instance"]: (each["movedAt"], each["pinnedAt"]) for each in rows(shown(database, *arguments))}

    assert since() == {OWN: (None, None), OTHER: (None, None)}
    with psycopg.connect(database.owner_url) as owner:
        for second, source, target, step in (
            (10, OTHER, OWN, "done"),
            (20, OWN, OTHER, "done"),
            (30, OTHER, OWN, "done"),
            (40, OWN, OTHER, "cancelled"),
        ):
            owner.execute(MOVED, (source, target, step, at(second), at(second)))
        owner.execute(PINNED, (WORKSPACE, NAMESPACE, OWN, at(50)))
        owner.execute(PINNED, (WORKSPACE, "another", OTHER, at(59)))
    moved = {OWN: "2026-05-04T12:00:30Z", OTHER: "2026-05-04T12:00:20Z"}
    assert since() == {OWN: (moved[OWN], "2026-05-04T12:00:50Z"), OTHER: (moved[OTHER], None)}


@pytest.mark.usefixtures("split")
def test_instance_when_it_has_a_part_of_a_tenant_then_it_shows_that_by_its_name(database: Database) -> None:
    parts = {each: rows(shown(database, "show", each, "-o", "json"))[0]["parts"] for each in (OWN, OTHER)}
    assert parts == {OWN: [], OTHER: [f"{WORKSPACE}/{NAMESPACE}@{OTHER}"]}
    assert f"{WORKSPACE}/{NAMESPACE}@{OTHER}" in shown(database, "show", OTHER).stdout


def test_tenant_when_there_is_none_then_that_is_told(database: Database) -> None:
    result = shown(database, "placement", "nobody")
    assert isinstance(result.exception, InvalidConfiguration)
    assert "there is no tenant local/nobody" in str(result.exception)
