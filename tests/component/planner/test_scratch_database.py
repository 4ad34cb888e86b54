"""Logs are replayed into a database of the command's own, on a real PostgreSQL: the planners' is not touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from services.cli.replay.desired_state import Documents, Subject, read_documents
from services.cli.replay.replayed_logs import Replay
from services.cli.replay.scratch_database import ScratchSession
from services.common.errors import Poison, Unavailable
from services.common.kafka import COMMANDS, ConsumedMessage, TopicPartition, TrackedOffset
from services.planner.database.tables.metadata import METADATA
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import changed, environment, gone, resync, secret, spec
from tests.unit.planner.world import FLEET

SOURCE = TopicPartition(COMMANDS, 0)
WEB = Subject("local/team-a", "GitOpsDeployment", "web")


class Codec:
    """Messages hold events as they are."""

    def decode_message(self, value: Any) -> Any:
        if value is None:
            raise Poison("not a command")
        return value


@pytest.fixture
def session(database: Database) -> Iterator[ScratchSession]:
    """A scratch database beside one that knows the fleet."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in FLEET:
            add_instance(owner, instance.id, instance.namespace)
    with closing(ScratchSession(database.owner_url)) as opened:
        yield opened


def replayed(session: ScratchSession, *events: Event | None) -> Replay:
    """None: a message that nobody understands."""
    replay = Replay(session, {COMMANDS: Codec()}, Policy())  # type: ignore[dict-item]
    replay.begin([SOURCE])
    replay.apply_messages([_message(offset, event) for offset, event in enumerate(events)])
    return replay


def _message(offset: int, event: Event | None) -> ConsumedMessage:
    value: Any = event.message if event is not None else None
    return ConsumedMessage(TrackedOffset(SOURCE, offset, 0), b"local/team-a", value, (), 1.0)


def documents(session: ScratchSession) -> Documents:
    with session.connection() as connection:
        return read_documents(connection, None)


def counts(database: Database) -> dict[str, int]:
    with psycopg.connect(database.owner_url) as owner:
        return {
            name: owner.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # type: ignore[index, arg-type]  # noqa: S608
            for name in METADATA.tables
        }


def test_logs_when_replayed_then_the_result_is_there_and_the_database_is_as_it_was(
    session: ScratchSession, database: Database
) -> None:
    before = counts(database)
    replayed(
        session,
        changed(1, content=spec(source={"path": "old"})),
        changed(2, "other", uid="uid-2"),
        secret(3),
        environment(4),
        changed(5, generation=2, content=spec(source={"path": "new"})),
        gone(6, "other", uid="uid-2"),
        resync(7, epoch=1),
    )
    found = documents(session)
    assert found[WEB]["specInForce"]["source"]["path"] == "new"
    assert {(each.kind, each.name) for each in found} >= {("Application", "gitopsdepl-uid-1")}
    assert "gitopsdepl-uid-2" not in {each.name for each in found}
    assert counts(database) == before


def test_message_when_nobody_understands_it_or_the_database_refuses_it_then_the_others_are_replayed(
    session: ScratchSession,
) -> None:
    anothers = changed(2, "late", uid="uid-1", namespace="team-b")  # the row of this uid is team-a's
    replay = replayed(session, changed(1), None, anothers, changed(3, "late", uid="uid-3"))
    assert sorted(each.offset for each in replay.given_up) == [1, 2]
    assert {each.name for each in documents(session) if each.kind == "GitOpsDeployment"} == {"web", "late"}


def test_database_when_its_connection_is_lost_then_nobody_goes_on_with_an_empty_one(session: ScratchSession) -> None:
    replayed(session, changed(1))
    session.close()
    with pytest.raises(Unavailable):
        documents(session)


def test_connection_when_it_is_lost_as_something_else_fails_then_that_is_told(
    session: ScratchSession, database: Database
) -> None:
    with pytest.raises(Poison, match="not a number"), session.connection() as connection:  # noqa: PT012 - in one transaction
        connection.execute("BEGIN")
        with psycopg.connect(database.owner_url, autocommit=True) as owner:
            owner.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
        raise Poison("not a number")
    with pytest.raises(Unavailable):
        documents(session)
