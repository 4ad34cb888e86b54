"""A PostgreSQL that answers and cannot do what it is asked for: nothing is lost, and the same batch is done later."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from services.cli.database_connection import connected
from services.common.errors import Retry
from services.planner.database.save import Span
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import at, changed
from tests.unit.planner.world import FLEET

TOPIC = "gitops.commands"
BATCH = [changed(number, f"web-{number}", uid=f"uid-{number}") for number in range(1, 101)]
SPAN = Span(TOPIC, 0, 0, len(BATCH))
DEADLINE_SECONDS = 30.0
PASSING = ("53100", "53200", "57014", "58030", "XX000", "XX001", "25006", "40001")

REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'could not write' USING ERRCODE = {state}, DETAIL = 'what a tenant wrote'; END$$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON deployments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refuse()
"""
"""At the COMMIT, and not before."""
ACCEPT = "DROP FUNCTION refuse CASCADE"

WAL_SEGMENT = 16 * 1024 * 1024
"""No file of the write-ahead log is longer, so with this limit it can be written, and a longer table cannot grow."""
GROW = """
INSERT INTO audit_records SELECT gen_random_uuid(), gen_random_uuid(), 'w', 'n', 'k', 'n', 1, 'create', '', 'Completed',
       repeat('x', 1500), '', now(), now()
  FROM generate_series(1, 12000)
"""
SIZE = "SELECT pg_relation_size('audit_records')"
LIVES = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """A session that has a partition of the log, on a database that knows the fleet."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in FLEET:
            add_instance(owner, instance.id, instance.namespace)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as opened:
        opened.claim_partitions([(TOPIC, 0)])
        yield opened


def take(session: DatabaseSession, batch: list[Event]) -> None:
    session.save_changes(plan_batch(batch, session, Policy(), at(1_000_000)), [SPAN])


def stored(database: Database) -> tuple[int, int]:
    """Deployments, and the offset of their log."""
    with psycopg.connect(database.owner_url) as owner:
        deployments = owner.execute("SELECT count(*) FROM deployments").fetchall()
        offsets = owner.execute("SELECT next_offset FROM consumer_offsets WHERE topic = %s", [TOPIC]).fetchall()
    return deployments[0][0], offsets[0][0]


@pytest.mark.parametrize("state", PASSING)
def test_batch_when_its_commit_is_refused_for_now_then_nothing_of_it_stays_and_it_is_done_later(
    session: DatabaseSession, database: Database, state: str
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(sql.SQL(REFUSE).format(state=sql.Literal(state)))
    with pytest.raises(Retry, match="could not write") as refused:
        take(session, BATCH)
    assert "what a tenant wrote" not in str(refused.value)
    assert stored(database) == (0, 0)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(ACCEPT)
    take(session, BATCH)
    assert stored(database) == (len(BATCH), len(BATCH))


def process_of(session: DatabaseSession) -> int:
    """Number that this machine gives the server's process behind the session; in a container it has another."""
    with session.connection() as connection:
        server, database = connection.info.backend_pid, connection.info.dbname
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            title, status = (process / "cmdline").read_bytes(), (process / "status").read_text()
            if database.encode() in title and re.search(rf"^NSpid:.*\b{server}$", status, re.MULTILINE):
                return int(process.name)
    raise AssertionError(f"no process serves {database}")


def let_no_file_grow(server: int) -> None:
    """As the server's own user: root may not set limits of others everywhere."""
    owner = Path(f"/proc/{server}").stat()
    command = ("prlimit", f"--pid={server}", f"--fsize={WAL_SEGMENT}:")
    subprocess.run(command, user=owner.st_uid, group=owner.st_gid, check=True)


def test_batch_when_no_file_of_the_database_can_grow_then_it_is_done_once_there_is_room(
    session: DatabaseSession, database: Database
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(GROW)
        assert owner.execute(SIZE).fetchall()[0][0] > WAL_SEGMENT
    let_no_file_grow(process_of(session))
    with pytest.raises(Retry, match="could not extend"):
        take(session, BATCH)
    assert stored(database) == (0, 0)
    take(session, BATCH)  # another process of PostgreSQL's, which has no limit
    assert stored(database) == (len(BATCH), len(BATCH))


def test_batch_when_its_planner_stood_still_for_too_long_then_it_is_done_later(
    session: DatabaseSession, database: Database
) -> None:
    with session.connection() as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 1")
        server = connection.info.backend_pid
    changes = plan_batch(BATCH, session, Policy(), at(1_000_000))
    session.write_changes(changes, [SPAN])
    deadline = time.monotonic() + DEADLINE_SECONDS
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        while owner.execute(LIVES, [server]).fetchall() != [(0,)]:
            assert time.monotonic() < deadline
    with pytest.raises(Retry):
        session.save_changes(BatchChanges(), [SPAN])
    assert stored(database) == (0, 0)
    take(session, BATCH)
    assert stored(database) == (len(BATCH), len(BATCH))


@pytest.mark.parametrize("state", PASSING)
def test_command_of_an_operator_when_the_database_refuses_it_for_now_then_it_is_tried_again(
    database: Database, state: str
) -> None:
    raised = sql.SQL("DO $$BEGIN RAISE EXCEPTION 'could not write' USING ERRCODE = {}; END$$").format(state)
    with pytest.raises(Retry, match="could not write"), connected(database.owner_url) as connection:
        connection.execute(raised)
