"""Rows of a restored database follow a tenant that was moved after the backup, on a real PostgreSQL."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest

from services.cli.rebuild.moved_since import follow_moves
from services.cli.rebuild.placements import Placements
from services.common.json_values import digest
from services.planner.engines.argocd.names import project_name
from tests.component.conftest import Database
from tests.component.fleet import add_instance

TENANT, DEPLOYMENT = UUID(int=1), UUID(int=2)
ADD_TENANT = """
INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id) VALUES (%s, 'local', 'team', 1, 'one')
"""
ADD_DEPLOYMENT = """
INSERT INTO deployments (id, tenant_id, source, name, uid, resource_version, generation, epoch, present, deleting,
                         finalizer, spec, error, seen_at, trace_id)
VALUES (%s, %s, 'local', 'web', 'u', '1', 1, 1, true, false, false, '{}', '', now(), '')
"""
OBJECT = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at, owner_kind, owner_id,
                              engine_cluster)
SELECT id, %(kind)s, namespace, %(name)s, 'local', 'team', %(lane)s, 1, %(desired)s, %(manifest)s, 'd', '', now(),
       now(), %(owner_kind)s, %(owner_id)s, engine_cluster FROM engine_instances WHERE id = %(instance)s
"""
FOUND = "SELECT engine_instance_id, kind, namespace, desired, manifest, digest FROM engine_resources ORDER BY kind"
PROJECT = {"kind": "AppProject", "name": project_name(TENANT), "owner_kind": "Tenant", "owner_id": TENANT}
APPLICATION = {"kind": "Application", "name": "web", "owner_kind": "GitOpsDeployment", "owner_id": DEPLOYMENT}


@pytest.fixture
def restored(database: Database) -> Database:
    """A tenant on the first of three instances, and nothing of it on any."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in ("one", "two", "three"):
            add_instance(owner, instance, f"argocd-{instance}")
        owner.execute(ADD_TENANT, [TENANT])
        owner.execute(ADD_DEPLOYMENT, [DEPLOYMENT, TENANT])
    return database


def followed(restored: Database, *rows: tuple[dict[str, Any], str, str]) -> list[tuple[str, ...]]:
    """What there is of the tenant once it follows to the second instance; ``rows``: object, where, and if desired."""
    with psycopg.connect(restored.owner_url) as owner:
        for item, instance, desired in rows:
            manifest = orjson.dumps({"metadata": {"namespace": f"argocd-{instance}"}, "of": instance}).decode()
            place = {"instance": instance, "desired": desired, "manifest": manifest, "lane": project_name(TENANT)}
            owner.execute(OBJECT, item | place)
        follow_moves(owner, Placements({TENANT: "two"}))
        found = owner.execute(FOUND).fetchall()
    assert all(digest(manifest) == known for *_, manifest, known in found if orjson.loads(manifest)["of"] != "two")
    assert all(
        orjson.loads(manifest)["metadata"]["namespace"] == namespace for _, _, namespace, _, manifest, _ in found
    )
    return [(instance, kind, wanted, orjson.loads(text)["of"]) for instance, kind, _, wanted, text, _ in found]


def test_rows_when_the_tenant_was_moved_then_they_follow_with_their_manifests(restored: Database) -> None:
    found = followed(restored, (PROJECT, "one", "present"), (APPLICATION, "one", "present"))
    assert found == [("two", "AppProject", "present", "one"), ("two", "Application", "present", "one")]


@pytest.mark.parametrize("left", ["two", "three"])
@pytest.mark.parametrize("here_first", [True, False])
def test_object_when_another_row_of_it_is_to_go_then_the_one_that_wants_it_stays(
    restored: Database, left: str, *, here_first: bool
) -> None:
    rows = [(APPLICATION, "one", "present"), (APPLICATION, left, "absent")]
    found = followed(restored, *(rows if here_first else reversed(rows)))
    assert found == [("two", "Application", "present", "one")]


def test_object_when_it_is_wanted_where_it_was_moved_to_then_one_that_is_to_go_elsewhere_changes_nothing(
    restored: Database,
) -> None:
    found = followed(restored, (APPLICATION, "two", "present"), (APPLICATION, "three", "absent"))
    assert found == [("two", "Application", "present", "two")]
