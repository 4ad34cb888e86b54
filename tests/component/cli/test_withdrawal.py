"""What a sweep of the topics tells agents of objects that another engine instance has, too, on a real PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import psycopg
import pytest

from services.cli.rebuild.unknown_rows import Unknown
from services.cli.rebuild.withdrawal import withdraw
from services.common.json_values import digest
from services.common.messages import EngineResource
from services.common.messages.compiled import RELEASE
from tests.component.conftest import Database
from tests.component.fleet import add_instance

FOUND = "SELECT desired, manifest, digest FROM engine_resources WHERE engine_instance_id = 'two'"


def recipe(instance: str, name: str = "prod") -> EngineResource:
    """Of the Secret of a tenant's cluster."""
    manifest = f'{{"of":"{instance}"}}'
    return EngineResource(
        instance, "ClusterSecret", f"argocd-{instance}", name, "local", "team", "lane", 0, "present", manifest,
        digest(manifest), "", datetime(2026, 5, 4, tzinfo=UTC), deleted=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("other", "desired", "is_released"),
    [
        pytest.param("prod", "present", True, id="another instance has it"),
        pytest.param("prod", "absent", False, id="that is to remove it, too"),
        pytest.param("test", "present", False, id="that has another one"),
    ],
)
def test_sweep_when_it_withdraws_a_cluster_then_its_account_stays_only_if_another_instance_has_the_cluster(
    database: Database, other: str, desired: str, *, is_released: bool
) -> None:
    held, gone = recipe("one", other), recipe("two")
    with psycopg.connect(database.owner_url) as owner:
        for instance in ("one", "two"):
            add_instance(owner, instance, f"argocd-{instance}")
    withdraw(database.owner_url, Unknown({held.identity: held}, {}, {}))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_resources SET desired = %s", [desired])
    withdraw(database.owner_url, Unknown({gone.identity: gone}, {}, {}))
    with psycopg.connect(database.owner_url) as owner:
        ((found, manifest, stored),) = owner.execute(FOUND).fetchall()
    assert (found, stored) == ("absent", digest(manifest))
    assert orjson.loads(manifest) == {"of": "two"} | ({RELEASE: True} if is_released else {})
