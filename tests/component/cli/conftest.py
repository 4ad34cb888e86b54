"""A database that is full, and one that is empty, for commands of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from devstack.harness.hosted import HostedStack
from services.cli.installation.workspaces import make_tables, move_rows
from tests.component.conftest import Database, Servers
from tests.component.databases import fresh_database
from tests.component.fleet import add_instance

FILLED = """
INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
SELECT md5(n::text)::uuid, 'teams', 'team-' || n, n % 12, 'argocd' FROM generate_series(1, 3000) n;
INSERT INTO workspace_statuses (workspace, namespace, kind, name, uid, generation, status, release_finalizer, digest,
                                trace_id, seen_at, updated_at)
SELECT 'teams', 'team-' || n, 'GitOpsDeployment', E'odd\\t\\\\N "name"' || n, n::text, 1,
       md5(n::text) || md5((-n)::text), false, 'd', '', now(), now() FROM generate_series(1, 3000) n;
INSERT INTO parked_tenants (tenant_id, workspace, namespace, partition, error, parked_at)
VALUES ('00000000-0000-0000-0000-000000000001', 'teams', 'parked', 1, 'e', now());
INSERT INTO parked_events (tenant_id, partition, trace_id, message)
VALUES ('00000000-0000-0000-0000-000000000001', 1, '', '{}'), ('00000000-0000-0000-0000-000000000001', 1, '', '{}');
INSERT INTO consumer_offsets (topic, partition, next_offset, topic_id) VALUES ('gitops.commands', 3, 70, 'a')
"""


@pytest.fixture
def filled(database: Database) -> Database:
    """A database with rows, a workspace of its own partition and offsets."""
    with psycopg.connect(database.owner_url) as owner:
        fill(owner)
        make_tables(owner, "teams")
        move_rows(owner, "teams")
        owner.execute(CHILD_OBJECT)
    return database


CHILD_OBJECT = """
INSERT INTO workspace_objects (workspace, namespace, kind, name, desired, uid, owner_api_version, owner_kind,
                               owner_name, owner_uid, manifest, digest, revision, trace_id, seen_at, updated_at,
                               live_version)
VALUES ('teams', 'team-1', 'GitOpsDeployment', 'web', 'present', '', 'v', 'k', 'o', 'u', '{}', 'd', 7, '', now(), now(),
        'uid/1')
"""


def fill(owner: psycopg.Connection) -> None:
    """Of this revision, or an older one that has engine clusters."""
    add_instance(owner, "argocd", "argocd")
    for statement in (
        "CREATE TABLE workspace_resources_teams PARTITION OF workspace_statuses FOR VALUES IN ('teams')",
        *FILLED.split(";"),
    ):
        owner.execute(statement)


@pytest.fixture
def empty(servers: Servers, postgres_admin: psycopg.Connection) -> Iterator[Database]:
    """A database in which nothing is, not even tables."""
    with fresh_database(postgres_admin) as name:
        yield servers.database(name)


UrlOf = Callable[[Database, str], str]


@pytest.fixture
def url_of(stack: HostedStack, with_containers: bool) -> UrlOf:
    """A database's URL for role ``gitops_…``."""

    def url(database: Database, role: str) -> str:
        password = role if with_containers else stack.state.secrets()[role]
        parts = urlsplit(database.owner_url)
        return urlunsplit(parts._replace(netloc=f"gitops_{role}:{password}@{parts.hostname}:{parts.port}"))

    return url


@pytest.fixture
def backup_url(filled: Database, url_of: UrlOf) -> str:
    return url_of(filled, "backup")
