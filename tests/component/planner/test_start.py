"""What a planner does once, when it starts."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
from pydantic import SecretStr

from services.common.kafka import COMMANDS
from services.planner.bootstrap import build
from services.planner.settings import PlannerSettings
from tests.component.conftest import Database

POSITIONS = [(COMMANDS, 3), (COMMANDS, 99), ("gitops.of-an-older-release", 0)]


def test_positions_when_their_partition_or_topic_is_not_there_any_more_then_they_go_at_the_start_of_a_planner(
    database: Database, kafka_bootstrap: str, registry_url: str
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        owner.cursor().executemany("INSERT INTO consumer_offsets VALUES (%s, %s, 70)", POSITIONS)
    settings = PlannerSettings(
        kafka_bootstrap_servers=kafka_bootstrap,
        schema_registry_url=registry_url,
        database_url=SecretStr(database.planner_url),
    )
    with ExitStack() as closing:
        build(settings, closing)
    with psycopg.connect(database.owner_url) as owner:
        left = set(owner.execute("SELECT topic, partition FROM consumer_offsets"))
    assert left & set(POSITIONS) == {(COMMANDS, 3)}
