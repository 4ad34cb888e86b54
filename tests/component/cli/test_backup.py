"""Backups of a real PostgreSQL, in a folder and in an S3-compatible store, and what is restored from them."""

from __future__ import annotations

import base64
import io
import os
import ssl
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from services.cli.__main__ import app
from services.cli.backups import archive
from services.cli.backups.archive import SAVED
from services.cli.installation import connector
from services.cli.rebuild.placements import Placements
from services.cli.rebuild.start import TopicContents, begin
from services.common.errors import InvalidConfiguration, Unavailable
from services.common.kafka import COMMANDS, OBSERVATIONS, LogExtent, TopicPartition
from services.planner.database.requirements import head
from services.planner.database.session import DatabaseSession
from services.planner.engines.available import ENGINES
from tests.component.cli.conftest import fill
from tests.component.cli.object_store import Bucket, serving
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.test_migrations import APPLICATION, recreate

BUCKET = "backups"
NOTHING_KNOWN = TopicContents({}, Placements(), {})
"""Of the fleet, and of where tenants are."""
ONE_MORE = """
INSERT INTO parked_events (tenant_id, partition, trace_id, message) SELECT tenant_id, 1, '', '{}' FROM parked_tenants
"""
COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
OLDER_REVISION = "0021"
"""Rows get an engine cluster, and are streamed by it, from the next one on."""
LARGE_ROWS, LARGE_BYTES = 16, 2_000_000
"""Several parts of an upload, which are of 10 MB each."""
SOURCE = TopicPartition(COMMANDS, 3)


class Connect:
    """Kafka Connect's REST API, as far as a restore asks it."""

    def __init__(self) -> None:
        self.state, self.offsets = "STOPPED", list[object]()
        self.failure: Exception | httpx2.Response | None = None

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if isinstance(self.failure, Exception):
            raise self.failure
        if self.failure is not None:
            return self.failure
        if request.url.path.endswith("/offsets"):
            return httpx2.Response(200, json={"offsets": self.offsets})
        return httpx2.Response(200, json={"connector": {"state": self.state}})


def refused_certificate() -> httpx2.ConnectError:
    error = httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.__cause__ = ssl.SSLCertVerificationError()
    return error


@pytest.fixture(autouse=True)
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Its connector is stopped, as the runbook says."""
    there = Connect()
    monkeypatch.setenv("CONNECT_URL", "http://connect")
    client = lambda _: httpx2.Client(base_url="http://connect", transport=httpx2.MockTransport(there))  # noqa: E731
    monkeypatch.setattr(connector, "connect_client", client)
    return there


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An S3-compatible store, named by the environment."""
    with serving(BUCKET) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def gitopsctl(*arguments: str) -> str:
    """As an operator; errors are raised."""
    outcome = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def rows(database: Database) -> dict[str, list[str]]:
    """Every row of every table that is saved, as text."""
    with psycopg.connect(database.owner_url) as owner:
        return {
            table.name: sorted(
                row[0]
                for row in owner.execute(sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(table.name)))
            )
            for table in SAVED
        }


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_database_when_restored_then_it_holds_every_row_partition_and_offset(
    filled: Database, empty: Database, backup_url: str, bucket: Bucket, tmp_path: Path, kind: str
) -> None:
    place = str(tmp_path) if kind == "folder" else f"s3://{BUCKET}/gitops"
    told = gitopsctl("backup", place, "--url", backup_url)
    assert gitopsctl("restore", place, "--dry-run", "--url", empty.owner_url).startswith(told.split(":")[0])
    gitopsctl("restore", place, "--url", empty.owner_url)
    assert rows(empty) == rows(filled)
    with psycopg.connect(empty.owner_url) as owner:
        assert owner.execute("SELECT count(*) FROM workspace_resources_teams").fetchone() == (3000,)
        assert owner.execute("SELECT count(*) FROM workspace_objects_teams").fetchone() == (1,)
        owner.execute(ONE_MORE)
    with closing(DatabaseSession(empty.planner_url, ENGINES)) as planner:
        logs = {SOURCE: LogExtent("a", 0, 90)}
        assert planner.claim_partitions([SOURCE], logs) == {SOURCE: 70}


def saved_by_older_build(owner: psycopg.Connection) -> list[Any]:
    """The tables that it has, with the columns that they have at the database's revision."""
    columns: dict[str, dict[str, None]] = {}
    for table, column in owner.execute(COLUMNS):
        columns.setdefault(table, {})[column] = None
    return [SimpleNamespace(name=table.name, columns=columns[table.name]) for table in SAVED if table.name in columns]


def test_archive_of_an_older_build_when_restored_then_it_holds_what_migrations_make_of_its_rows(
    database: Database, empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, OLDER_REVISION)
        fill(owner)
        add_instance(owner, "one", "argocd-1")
        owner.execute(APPLICATION, {"name": "web", "lane": "", "manifest": "{}"})
        with monkeypatch.context() as older:
            older.setattr(archive, "SAVED", saved_by_older_build(owner))
            gitopsctl("backup", str(tmp_path), "--url", database.owner_url)
    told = gitopsctl("restore", str(tmp_path), "--url", empty.owner_url)
    assert f"of revision {head()} now" in told
    gitopsctl("database", "upgrade", "--url", database.owner_url)
    assert rows(empty) == rows(database)
    assert [len(rows(empty)[name]) for name in ("tenants", "workspace_statuses", "engine_resources")] == [3000, 3000, 1]
    with psycopg.connect(empty.owner_url) as owner:
        assert owner.execute("SELECT count(*) FROM workspace_objects_teams").fetchone() == (0,)


def add_incompressible_rows(database: Database) -> None:
    with psycopg.connect(database.owner_url) as owner:
        for _ in range(LARGE_ROWS):
            message = base64.b64encode(os.urandom(LARGE_BYTES)).decode()
            owner.execute(ONE_MORE.replace("'{}'", "%s"), [message])


def test_archive_when_it_is_larger_than_a_part_then_the_store_puts_it_together_and_it_is_restored(
    filled: Database, empty: Database, backup_url: str, bucket: Bucket
) -> None:
    add_incompressible_rows(filled)
    place = f"s3://{BUCKET}/gitops"
    gitopsctl("backup", place, "--url", backup_url)
    (key,) = bucket.keys()
    assert bucket.parts_of(key) > 1
    assert len(bucket.content_of(key)) > LARGE_ROWS * LARGE_BYTES
    gitopsctl("restore", place, "--url", empty.owner_url)
    assert rows(empty) == rows(filled)


def test_archive_when_a_planner_commits_meanwhile_then_it_is_of_one_moment(
    filled: Database, empty: Database, backup_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(filled)
    write = zipfile.ZipFile.open

    def commit_and_open(archive: zipfile.ZipFile, name: str, *args: object, **kwargs: object) -> object:
        with psycopg.connect(filled.owner_url) as owner:
            owner.execute("UPDATE consumer_offsets SET next_offset = next_offset + 1")
            owner.execute("DELETE FROM tenants WHERE id IN (SELECT id FROM tenants LIMIT 1)")
        return write(archive, name, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(zipfile.ZipFile, "open", commit_and_open)
        gitopsctl("backup", str(tmp_path), "--url", backup_url)
    gitopsctl("restore", str(tmp_path), "--url", empty.owner_url)
    assert rows(empty) == before


def test_restore_when_the_database_has_tenants_then_it_is_refused_and_they_stay(
    filled: Database, backup_url: str, tmp_path: Path
) -> None:
    before = rows(filled)
    gitopsctl("backup", str(tmp_path), "--url", backup_url)
    with pytest.raises(InvalidConfiguration, match="the database is not empty"):
        gitopsctl("restore", str(tmp_path), "--url", filled.owner_url)
    assert rows(filled) == before


def has_tables(database: Database) -> bool:
    with psycopg.connect(database.owner_url) as owner:
        return owner.execute("SELECT to_regclass('tenants') IS NOT NULL").fetchone() == (True,)


@pytest.fixture
def archives(filled: Database, backup_url: str, tmp_path: Path) -> str:
    """A folder with a backup of the filled database."""
    gitopsctl("backup", str(tmp_path), "--url", backup_url)
    return str(tmp_path)


@pytest.mark.parametrize(("state", "offsets"), [("RUNNING", []), ("PAUSED", []), ("STOPPED", [{"offset": {"lsn": 1}}])])
def test_restore_when_the_connector_is_not_stopped_then_it_is_refused_and_nothing_is_loaded_that_it_could_stream(
    archives: str, empty: Database, connect: Connect, state: str, offsets: list[object]
) -> None:
    connect.state, connect.offsets = state, offsets
    with pytest.raises(InvalidConfiguration, match="run 'gitopsctl connector stop' first"):
        gitopsctl("restore", archives, "--url", empty.owner_url)
    assert not has_tables(empty)


def test_restore_when_connect_does_not_run_then_it_is_told_and_the_rows_are_loaded(
    archives: str, filled: Database, empty: Database, connect: Connect
) -> None:
    connect.failure = httpx2.ConnectError("connection refused")
    told = gitopsctl("restore", archives, "--url", empty.owner_url, "--timeout", "2")
    assert "connection refused; if it is started before 'gitopsctl rebuild follow' has ended" in told
    assert rows(empty) == rows(filled)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(httpx2.Response(409, json={"message": "rebalancing"}), id="it rebalances"),
        pytest.param(httpx2.ReadTimeout("no answer"), id="it is slow"),
        pytest.param(refused_certificate(), id="its certificate is refused"),
    ],
)
def test_restore_when_connect_runs_and_does_not_tell_then_nothing_is_loaded(
    archives: str, empty: Database, connect: Connect, failure: Exception | httpx2.Response
) -> None:
    connect.failure = failure
    with pytest.raises(Unavailable, match="Kafka Connect did not answer"):
        gitopsctl("restore", archives, "--url", empty.owner_url, "--timeout", "0.5")
    assert not has_tables(empty)


@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_archive_when_it_is_not_as_it_was_written_then_nothing_of_it_is_loaded(
    filled: Database, empty: Database, backup_url: str, tmp_path: Path, damage: str
) -> None:
    gitopsctl("backup", str(tmp_path), "--url", backup_url)
    (file,) = tmp_path.glob("*.zip")
    content = bytearray(file.read_bytes())
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        middle = opened.getinfo("workspace_statuses.copy").header_offset + 5000
    content[middle] ^= 0xFF
    file.write_bytes(content if damage == "changed" else content[:middle])
    with pytest.raises(InvalidConfiguration, match="not a whole backup"):
        gitopsctl("restore", str(tmp_path), "--url", empty.owner_url)
    assert has_tables(empty) == (damage == "changed")
    with psycopg.connect(empty.owner_url) as owner:
        assert damage == "cut off" or owner.execute("SELECT count(*) FROM tenants").fetchone() == (0,)


def test_archive_when_the_database_goes_away_then_the_store_has_none(
    filled: Database, backup_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.cli.backups.backup.write_archive", _fail)
    with pytest.raises(Unavailable):
        gitopsctl("backup", f"s3://{BUCKET}/gitops", "--url", backup_url)
    assert bucket.keys() == []


def _fail(_: object, target: io.RawIOBase) -> None:
    target.write(b"x" * 30_000_000)
    raise Unavailable("the database went away")


def test_backup_when_the_store_refuses_then_it_says_so(
    backup_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(Unavailable, match="s3://backups/gitops"):
        gitopsctl("backup", f"s3://{BUCKET}/gitops", "--url", backup_url)


def test_logs_when_the_database_is_restored_then_their_topics_are_compared_with_those_of_the_backup(
    filled: Database,
) -> None:
    source, other = SOURCE, TopicPartition(OBSERVATIONS, 0)
    with closing(DatabaseSession(filled.planner_url, ENGINES)) as planner:
        logs = {source: LogExtent("another", 5, 500), other: LogExtent("b", 0, 3)}
        assert planner.claim_partitions([source, other], logs) == {source: 5, other: 0}
    with psycopg.connect(filled.owner_url) as owner:
        assert owner.execute(
            "SELECT next_offset, topic_id FROM consumer_offsets WHERE topic = %s", [COMMANDS]
        ).fetchall() == [(5, "another")]


def test_rebuild_when_the_log_lacks_what_came_after_the_backup_then_that_is_said_and_has_to_be_accepted(
    filled: Database,
) -> None:
    logs = {SOURCE: LogExtent("a", 90, 120)}
    with pytest.raises(InvalidConfiguration, match=r"no longer have 20 messages .*--incomplete"):
        begin(filled.owner_url, NOTHING_KNOWN, logs, restored=True, incomplete=False)
    assert begin(filled.owner_url, NOTHING_KNOWN, logs, restored=True, incomplete=True) == {SOURCE: 90}


def test_rebuild_when_planners_are_at_work_on_the_restored_database_then_it_is_refused(filled: Database) -> None:
    with (
        psycopg.connect(filled.planner_url),
        pytest.raises(InvalidConfiguration, match="planners are connected"),
    ):
        begin(filled.owner_url, NOTHING_KNOWN, {SOURCE: LogExtent("a", 0, 90)}, restored=True, incomplete=False)
