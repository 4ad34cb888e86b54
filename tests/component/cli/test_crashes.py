"""Commands that are killed between any two of their steps, and typed again: the end is the same.

What a step leaves behind is a transaction, or something at the brokers, which are played; each is stopped at right
before and right after it, wherever the code ends one, so a step that is added is tried without a new test. Killed is a
process of its own, by SIGKILL, so that what PostgreSQL sees is a connection that breaks.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import psycopg
import pytest
import typer
from psycopg import sql
from typer.testing import CliRunner

from services.cli.backups import restore as restore_command
from services.cli.fleet import engine_clusters, fleet_orders
from services.cli.installation import connector, workspaces
from services.cli.kafka import topics as broker_topics
from services.cli.rebuild import awaited_lists, rebuild, withdrawal
from services.cli.rebuild.placements import Placements
from services.cli.rebuild.start import END, TopicContents
from services.cli.rebuild.streamed_topics import Key, PlacementTopic, key_of
from services.common.errors import InvalidConfiguration
from services.common.kafka import COMMANDS, FLEET_ORDERS, OBSERVATIONS, LogExtent, Topic, TopicPartition
from services.common.messages import EngineResource, FleetOrder, PendingClaim, WorkspaceObject, WorkspaceResource
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event
from services.planner.domain.fleet.placement.assignments import TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.cli.test_backup import gitopsctl, rows
from tests.component.conftest import Database
from tests.component.fleet import add_instance

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
ENVIRONMENT = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:1", "SCHEMA_REGISTRY_URL": "http://localhost:1"}
SOURCES = [TopicPartition(topic, number) for topic in (COMMANDS, OBSERVATIONS) for number in range(2)]
LOGS = {source: LogExtent(f"id-of-{source.topic}", 3, 10) for source in SOURCES}
ORDERS = {TopicPartition(FLEET_ORDERS, 0): LogExtent("id-of-orders", 0, 4)}
INSTANCE = EngineInstanceRow(
    "argocd-9", "argocd", "argocd-9", "north", "eu", "shared", "", "early", 7, "draining", AT, AT
)
TOLD = PlacementTopic(
    assignments=(WorkspaceAssignment("team", "eu", "", AT),),
    pins=(TenantPin("team", "web", "argocd-9", AT),),
    unassigned=("gone",),
    clusters=(EngineClusterRow("north", "eu", AT, "draining", AT),),
    pools=(EnginePool("north", "general", 1, 9, 1, 2500, "3.2.11", "", AT),),
)
PLACED = Placements({UUID(int=7): "argocd-9", UUID(int=8): "argocd"}, {UUID(int=9): "argocd"})
KNOWN = TopicContents({INSTANCE.id: INSTANCE}, PLACED, ORDERS, TOLD)
STARTED = (
    "placements",
    "deployment_placements",
    "rebuild_positions",
    "consumer_offsets",
    "engine_instances",
    "engine_clusters",
    "engine_pools",
    "workspace_assignments",
    "tenant_pins",
)
HIDDEN = {"began_at", "created_at", "updated_at", "seen_at"}

BLANK: dict[str, Any] = {
    "seen_at": AT, "created_at": AT, "wave": 1, "generation": 1, "revision": 1, "manifest": "{}",
    "deleted": False,
}  # fmt: skip
WITHDRAWN = """
CREATE TABLE withdrawn (key text[] PRIMARY KEY);
CREATE FUNCTION withdraw_object() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN
    INSERT INTO withdrawn VALUES (ARRAY[OLD.engine_instance_id, OLD.kind, OLD.namespace, OLD.name]); RETURN OLD;
END$$;
CREATE FUNCTION withdraw_status() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN
    INSERT INTO withdrawn VALUES (ARRAY[OLD.workspace, OLD.namespace, OLD.kind, OLD.name]); RETURN OLD;
END$$;
CREATE TRIGGER withdraw AFTER DELETE ON engine_resources FOR EACH ROW EXECUTE FUNCTION withdraw_object();
CREATE TRIGGER withdraw AFTER DELETE ON workspace_statuses FOR EACH ROW EXECUTE FUNCTION withdraw_status();
CREATE TRIGGER withdraw AFTER DELETE ON workspace_objects FOR EACH ROW EXECUTE FUNCTION withdraw_status();
CREATE FUNCTION withdraw_claim() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN
    INSERT INTO withdrawn VALUES (ARRAY[OLD.workspace, OLD.namespace, OLD.name, OLD.uid]); RETURN OLD;
END$$;
CREATE TRIGGER withdraw AFTER DELETE ON pending_claims FOR EACH ROW EXECUTE FUNCTION withdraw_claim()
"""
"""What Connect does when a row goes: its key stands for nothing any more."""
BEGUN = (
    "INSERT INTO rebuild_positions (topic, partition, first_offset, end_offset) VALUES ('gitops.observations', 0, 0, 0)"
)


class Moments:
    """At which the process that runs may be killed."""

    come: Callable[[], None] = staticmethod(lambda: None)


def run_until(moment: int, act: Callable[[], object]) -> int:
    """Run ``act`` in a process of its own; kill that at this ``moment``, -1: never. Returns how many moments it had.

    There are two for each transaction and each effect at the brokers: before its end, and after it.
    """
    told, tell = os.pipe()
    if not (child := os.fork()):
        _run_counted(moment, act, tell)
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        moments = len(pipe.read())
    _, status = os.waitpid(child, 0)
    if moment < 0:
        assert os.waitstatus_to_exitcode(status) == 0
    else:
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    return moments


def _run_counted(moment: int, act: Callable[[], object], tell: int) -> None:
    gc.disable()  # what other tests have left, such as producers, would wait for threads that this process has not
    ends, number = psycopg.Connection.__exit__, 0

    def come_to_moment() -> None:
        nonlocal number
        if number == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        number += 1
        os.write(tell, b".")

    def counted(self: Any, *arguments: Any) -> None:
        come_to_moment()
        ends(self, *arguments)
        come_to_moment()

    psycopg.Connection.__exit__ = counted  # type: ignore[method-assign]
    Moments.come = staticmethod(come_to_moment)
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)


def contents(url: str, tables: Collection[str]) -> Mapping[str, list[Any]]:
    """All rows of these tables, less what tells when they were written."""
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as owner:
        found = {name: owner.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))) for name in tables}
        return {
            name: sorted(repr({key: row[key] for key in row.keys() - HIDDEN}) for row in found[name]) for name in tables
        }


def run_command(app: typer.Typer, *arguments: str, url: str) -> None:
    environment = ENVIRONMENT | {"DATABASE_OWNER_URL": url}
    outcome = CliRunner().invoke(app, arguments, env=environment, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output


def call(*arguments: str, url: str) -> None:
    run_command(rebuild.app, *arguments, url=url)


class Brokers:
    """Topics and principals, as files: they outlive a process that is killed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        monkeypatch.setattr(broker_topics, "make_topics", self._make_topics)
        monkeypatch.setattr(broker_topics, "grant_rights", self._grant_rights)

    def have(self, *names: str) -> bool:
        return all((self._folder / name).exists() for name in names)

    def _make_topics(self, made: Iterable[Topic], *_: object, **__: object) -> None:
        self._keep(topic.name for topic in made)

    def _grant_rights(self, rights: Iterable[str], *_: object, **__: object) -> None:
        self._keep(rights)

    def _keep(self, names: Iterable[str]) -> None:
        Moments.come()
        for name in names:
            (self._folder / name).touch()
        Moments.come()


def test_workspace_when_adding_it_is_killed_at_any_moment_and_run_again_then_it_is_whole_and_never_without_a_topic(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers, url = Brokers(tmp_path, monkeypatch), database.owner_url

    def add(name: str) -> None:
        run_command(workspaces.app, "add", name, url=url)

    def is_streamed(name: str) -> bool:
        """Whether Connect writes its statuses to its own topic."""
        with psycopg.connect(url) as owner:
            row = owner.execute(workspaces.IS_ATTACHED, (f'"workspace_resources_{name}"',)).fetchone()
        return row is not None and row[0]

    def statuses(name: str) -> list[Any]:
        with psycopg.connect(url) as owner:
            table = sql.Identifier(f"workspace_resources_{name}")
            return owner.execute(sql.SQL("SELECT workspace, name FROM {}").format(table)).fetchall()

    moments = run_until(-1, partial(add, "whole"))
    assert moments >= 8
    for moment in range(moments):
        name = f"team-{moment}"
        status = _row(WorkspaceResource, workspace=name, namespace="team-a", kind="GitOpsDeployment", name="web")
        with psycopg.connect(url) as owner:
            owner.execute(withdrawal.INSERT_STATUS, withdrawal._columns(status) | {"status": "{}"})
        run_until(moment, partial(add, name))
        has_topic = brokers.have(f"gitops.workspace.{name}", f"watcher-{name}")
        assert has_topic or not is_streamed(name), f"at moment {moment} of {moments}"
        run_until(-1, partial(add, name))
        assert brokers.have(f"gitops.workspace.{name}", f"watcher-{name}")
        assert (is_streamed(name), statuses(name)) == (True, [(name, "web")]), f"at moment {moment} of {moments}"


def test_engine_cluster_when_adding_it_is_killed_at_any_moment_and_run_again_then_it_is_there_and_has_its_topic(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers, url = Brokers(tmp_path, monkeypatch), database.owner_url

    def decide(_: object, order: FleetOrder, __: float) -> None:
        """A planner takes up what is sent."""
        Moments.come()
        with closing(DatabaseSession(database.planner_url, ENGINES)) as session:
            session.save_changes(plan_batch([Event(order, 0, "")], session, Policy(), AT), ())
        Moments.come()

    def add(name: str) -> None:
        run_command(engine_clusters.app, "add", name, url=url)

    def is_there(name: str) -> bool:
        with psycopg.connect(url) as owner:
            return owner.execute("SELECT FROM engine_clusters WHERE id = %s", (name,)).fetchone() is not None

    monkeypatch.setattr(fleet_orders, "send_order", decide)
    moments = run_until(-1, partial(add, "whole"))
    assert moments >= 6
    for moment in range(moments):
        name = f"north-{moment}"
        run_until(moment, partial(add, name))
        has_topic = brokers.have(f"gitops.engine.{name}", f"agent-{name}")
        assert has_topic or not is_there(name), f"at moment {moment} of {moments}"
        run_until(-1, partial(add, name))
        assert brokers.have(f"gitops.engine.{name}", f"agent-{name}")
        assert is_there(name), f"at moment {moment} of {moments}"


def test_start_of_a_rebuild_when_killed_at_any_moment_and_run_again_then_it_is_begun_as_if_it_had_not_been(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "is_stopped", lambda: True)
    monkeypatch.setattr(rebuild, "require_lists", lambda *_: None)
    monkeypatch.setattr(rebuild, "read_contents", lambda *_: KNOWN)
    monkeypatch.setattr(rebuild, "read_logs", lambda _: LOGS)
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "argocd", "argocd")

    def start() -> None:
        call("start", url=database.owner_url)

    def forget() -> None:
        with psycopg.connect(database.owner_url) as owner:
            owner.execute(END)
            owner.execute("DELETE FROM consumer_offsets")

    moments = run_until(-1, start)
    expected = contents(database.owner_url, STARTED)
    assert moments >= 2
    assert len(expected["rebuild_positions"]) == len(LOGS)
    for moment in range(moments):
        forget()
        run_until(moment, start)
        run_until(-1, start)
        assert contents(database.owner_url, STARTED) == expected, f"at moment {moment} of {moments}"


class Topics:
    """What topics hold of what no row has any more."""

    brokers = None
    unreadable = ()

    def __init__(self, url: str) -> None:
        self._url = url
        objects = [_object(kind) for kind in ("Application", "AppProject", "SyncOperation")]
        self.objects = {row.identity: row for row in objects}
        status = _row(WorkspaceResource, workspace="teams", namespace="team-a", kind="GitOpsDeployment", name="gone")
        self.statuses = {key_of(status): status}
        child = _row(WorkspaceObject, workspace="teams", namespace="team-a", kind="GitOpsDeployment", name="child")
        self.children = {key_of(child): child}
        claim = _row(PendingClaim, workspace="teams", namespace="team-a", name="dev", uid="uid-1", state="wanted")
        self.claims = {key_of(claim): claim}

    def unknown_objects(self, known: Collection[Key]) -> dict[Key, EngineResource]:
        gone = self.withdrawn()
        return {key: row for key, row in self.objects.items() if key not in known and key not in gone}

    def unknown_statuses(self, _: str, known: Collection[Key]) -> dict[Key, WorkspaceResource]:
        gone = self.withdrawn()
        return {key: row for key, row in self.statuses.items() if key not in known and key not in gone}

    def unknown_children(self, _: str, known: Collection[Key]) -> dict[Key, WorkspaceObject]:
        gone = self.withdrawn()
        return {key: row for key, row in self.children.items() if key not in known and key not in gone}

    def unknown_claims(self, known: Collection[Key]) -> dict[Key, PendingClaim]:
        gone = self.withdrawn()
        return {key: row for key, row in self.claims.items() if key not in known and key not in gone}

    def withdrawn(self) -> set[Key]:
        connection = psycopg.connect(self._url)
        try:
            return {(a, b, c, d) for ((a, b, c, d),) in connection.execute("SELECT key FROM withdrawn")}
        finally:
            connection.close()


def _object(kind: str) -> EngineResource:
    place = {"engine_instance_id": "argocd", "namespace": "argocd", "workspace": "teams", "tenant_namespace": "team-a"}
    row: EngineResource = _row(EngineResource, kind=kind, name=f"gone-{kind}", **place)
    return row


def _row(type_: Any, **columns: str) -> Any:
    return type_(**{field.name: BLANK.get(field.name, "") for field in fields(type_)} | columns)


@pytest.fixture
def topics(database: Database, monkeypatch: pytest.MonkeyPatch) -> Topics:
    """A rebuild that has come to its sweep. Agents have removed what was withdrawn as soon as anybody asks."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, "argocd", "argocd")
        owner.execute(WITHDRAWN)
    found = Topics(database.owner_url)
    monkeypatch.setattr(rebuild, "StreamedTopics", lambda *_: found)
    monkeypatch.setattr(awaited_lists, "added_workspaces", lambda _: ["teams"])
    monkeypatch.setattr(rebuild, "require_newer_lists", lambda *_: None)
    monkeypatch.setattr(withdrawal, "_removed", lambda _, waiting, positions: (list(waiting), positions))
    return found


def test_sweep_when_killed_at_any_moment_and_run_again_then_all_is_withdrawn_and_the_rebuild_is_over(
    database: Database,
    topics: Topics,
) -> None:
    url = database.owner_url
    tables = (
        "withdrawn",
        "engine_resources",
        "workspace_statuses",
        "workspace_objects",
        "pending_claims",
        "rebuild_positions",
        "placements",
        "deployment_placements",
    )

    def sweep() -> None:
        call("sweep", "--timeout", "5", "--wait", "5", url=url)

    def begin() -> None:
        with psycopg.connect(url) as owner:
            owner.execute("TRUNCATE withdrawn")
            owner.execute(BEGUN)

    begin()
    moments = run_until(-1, sweep)
    expected = contents(url, tables)
    assert moments >= 8
    assert len(expected["withdrawn"]) == len({**topics.objects, **topics.statuses, **topics.children, **topics.claims})
    assert expected["rebuild_positions"] == expected["engine_resources"] == []
    for moment in range(moments):
        begin()
        run_until(moment, sweep)
        if contents(url, ["rebuild_positions"])["rebuild_positions"]:
            run_until(-1, sweep)
        assert contents(url, tables) == expected, f"at moment {moment} of {moments}"


def test_sweep_when_an_instance_is_retired_then_it_waits_for_no_agent_to_remove_what_that_had(
    database: Database, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.owner_url
    monkeypatch.setattr(withdrawal, "_removed", lambda _, waiting, positions: ([], positions))  # there is none
    with psycopg.connect(url) as owner:
        owner.execute(BEGUN)
        owner.execute("UPDATE engine_instances SET state = 'retired'")
    call("sweep", "--timeout", "5", "--wait", "5", url=url)
    assert topics.objects.keys() <= topics.withdrawn()
    assert contents(url, ["engine_resources"]) == {"engine_resources": []}


class Folder:
    """Archives as plain files: the library's own threads do not outlive a fork."""

    def __init__(self, place: str) -> None:
        self._place = Path(place)

    def list_archives(self) -> list[str]:
        return [path.name for path in self._place.glob("*.zip")]

    def read(self, name: str) -> BinaryIO:
        return (self._place / name).open("rb")


def test_restore_when_killed_at_any_moment_and_run_again_then_it_has_all_rows_or_says_that_it_has(
    filled: Database,
    empty: Database,
    backup_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gitopsctl("backup", str(tmp_path), "--url", backup_url)
    monkeypatch.setattr(restore_command, "open_store", Folder)
    monkeypatch.setattr(connector, "is_stopped", lambda: True)

    def restore() -> None:
        gitopsctl("restore", str(tmp_path), "--url", empty.owner_url)

    run_until(0, restore)
    assert rows(empty)["tenants"] == []
    run_until(1, restore)
    with pytest.raises(InvalidConfiguration, match="not empty"):
        restore()
    gitopsctl("database", "upgrade", "--url", empty.owner_url)
    assert rows(empty) == rows(filled)
