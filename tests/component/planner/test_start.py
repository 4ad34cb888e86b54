"""What a planner does once, when it starts."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from services.common.errors import InvalidConfiguration, Unavailable
from services.common.kafka import COMMANDS
from services.planner.bootstrap import build
from services.planner.settings import PlannerSettings
from tests.component.conftest import Database

POSITIONS = [(COMMANDS, 3), (COMMANDS, 99), ("gitops.of-an-older-release", 0)]


def settings_of(database: Database, kafka: str, registry: str, **others: Any) -> PlannerSettings:
    return PlannerSettings(
        kafka_bootstrap_servers=kafka,
        schema_registry_url=registry,
        database_url=SecretStr(database.planner_url),
        **others,
    )


def test_positions_when_their_partition_or_topic_is_not_there_any_more_then_they_go_at_the_start_of_a_planner(
    database: Database, kafka_bootstrap: str, registry_url: str
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        owner.cursor().executemany("INSERT INTO consumer_offsets VALUES (%s, %s, 70)", POSITIONS)
    with ExitStack() as closing:
        build(settings_of(database, kafka_bootstrap, registry_url), closing)
    with psycopg.connect(database.owner_url) as owner:
        left = set(owner.execute("SELECT topic, partition FROM consumer_offsets"))
    assert left & set(POSITIONS) == {(COMMANDS, 3)}


def test_planner_when_it_would_forget_sync_runs_that_the_log_of_commands_still_tells_of_then_it_does_not_start(
    database: Database, kafka_bootstrap: str, registry_url: str
) -> None:
    settings = settings_of(database, kafka_bootstrap, registry_url, sync_runs_kept=timedelta(days=14))
    with ExitStack() as closing, pytest.raises(InvalidConfiguration, match="SYNC_RUNS_KEPT is 14 days") as refused:
        build(settings, closing)
    assert refused.value.exit_code == 2


def test_planner_when_no_broker_answers_at_its_start_then_that_is_what_it_says(
    database: Database, registry_url: str
) -> None:
    settings = settings_of(database, "127.0.0.1:1", registry_url, start_timeout_seconds=1)
    with ExitStack() as closing, pytest.raises(Unavailable, match=r"Kafka at 127\.0\.0\.1:1 did not answer"):
        build(settings, closing)
