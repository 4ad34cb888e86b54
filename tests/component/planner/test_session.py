"""The session on a real PostgreSQL, as the role the planner has."""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from types import ModuleType
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import TransactionStatus
from structlog.testing import capture_logs

import services.planner.database
from services.cli.guards.orphans import left_behind
from services.cli.rebuild.unknown_rows import uncertain_tenants
from services.cli.tenants import parked_tenants
from services.common.api_resource import SECRET
from services.common.errors import Poison, Retry
from services.common.messages import Checked, SyncMoved
from services.common.telemetry.metrics import NAME_COLLISIONS
from services.kinds.environment.model import ENVIRONMENT as PLACE
from services.kinds.gitops_deployment.left_behind import SHOWN_FOR
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.api_group import FINALIZER
from services.kinds.shared.catalogue import TENANT_PARKED
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.database import fleet_queries, periodic_queries
from services.planner.database import save as save_module
from services.planner.database import session as store_module
from services.planner.database.columns import columns_of
from services.planner.database.save import STATEMENTS, Fenced, Span
from services.planner.database.session import DatabaseSession
from services.planner.domain import plan as plan_module
from services.planner.domain.audit import PLACEMENT
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.dormancy import WAITING_KEPT
from services.planner.domain.events import Due, Event, SweepScope
from services.planner.domain.fleet.placement_view import place
from services.planner.domain.ids import resource_id, tenant_id
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.coalesce import coalesce
from services.planner.pipeline.parking import compacted, kept_event, resolved
from services.planner.rows.audit import AuditRecord
from services.planner.rows.compiled import EngineRow
from services.planner.rows.tenants import Tenant, TenantName
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.sweeping import remove_parts
from tests.unit.kinds.mirror.kind import KIND as MIRROR
from tests.unit.kinds.review.kind import KIND as REVIEW
from tests.unit.kinds.snapshot_environment_binding.test_binding_planned import binding
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    SYNC_RUN,
    SYNCED,
    WORKSPACE,
    Applied,
    Failed,
    Removed,
    at,
    changed,
    credential,
    environment,
    gone,
    in_namespace,
    observed,
    resource,
    resource_gone,
    resync,
    secret,
    spec,
    status,
    sync_run,
)
from tests.unit.planner.world import FLEET, World

TOPIC = "gitops.commands"
NOW = at(1_000_000)
NAME = (WORKSPACE, "team-a")
TENANT = tenant_id(*NAME)
SWEEP_ASKED_FOR = 1
"""The statement that looks, after a batch, whether anything is to be removed."""
TABLES = (
    "tenants", "deployments", "observed_states", "resources", "checks", "sync_runs", "audit_records",
    "engine_resources", "workspace_statuses", "workspace_objects", "pending_claims", "forced_deletions",
)  # fmt: skip


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """A session on a database that knows the fleet."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in FLEET:
            add_instance(owner, instance.id, instance.namespace)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as opened:
        yield opened


def take(
    session: DatabaseSession,
    *events: Event,
    spans: Sequence[Span] = (),
    policy: Policy | None = None,
    now: datetime = NOW,
) -> Changes:
    """One batch, as the service does it, and what it leaves to be removed."""
    written = []
    for part in split_at_markers(coalesce(events)):
        changes = plan_batch(part, session, policy or Policy(), now)
        session.write_changes(changes, ())
        written.append(changes.written)
    session.save_changes(BatchChanges(), spans)
    written += remove_parts(session, policy or Policy(), now)
    return Changes.merged(written)._replace(sweep_parts=(), sweep_parts_done=())


def read(database: Database, names: Collection[TenantName]) -> dict[UUID, TenantState]:
    """Tenants as a planner would read them that has none in memory."""
    with closing(DatabaseSession(database.planner_url, ENGINES)) as fresh:
        found = fresh.load_tenants(names).tenants
    return {state.tenant.id: state for states in found.values() for state in states}


def names(world: World) -> set[TenantName]:
    return {tenant.full_name for tenant in world.tenants.values()}


def only(session: DatabaseSession) -> TenantState:
    """The tenant that has the name, and the only one that ever had."""
    (state,) = session.load_tenants([NAME]).tenants[NAME]
    return state


def contents(database: Database) -> dict[str, list[Any]]:
    """All rows of all tables, less the times at which they were written."""
    with psycopg.connect(database.owner_url, row_factory=psycopg.rows.dict_row) as owner:
        found = {name: owner.execute(_everything(name)).fetchall() for name in TABLES}
    for rows in found.values():
        for row in rows:
            row.pop("created_at", None)
            row.pop("updated_at", None)
    return {name: sorted(rows, key=str) for name, rows in found.items()}


def _everything(table: str) -> sql.Composed:
    return sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))


def next_offset(database: Database, partition: int = 0) -> int:
    with psycopg.connect(database.owner_url) as owner:
        row = owner.execute("SELECT next_offset FROM consumer_offsets WHERE partition = %s", (partition,)).fetchone()
    assert row is not None
    return int(row[0])


def life(instance: str, digest: str) -> list[list[Event]]:
    """Batches in which everything happens that can."""

    def says(second: int, event: Any, uid: str = "uid-1") -> Event:
        return observed(second, event, instance=instance, name=f"gitopsdepl-{uid}")

    seen = [{"group": "ü", "kind": "A", "name": "a\"'"}, {"kind": "B", "namespace": "b", "name": "b"}]
    return [
        [changed(1), changed(2, "api", uid="uid-2", content=spec(source={"path": "/"}))],
        [says(3, Applied(digest)), says(4, status(4, sync=SYNCED, conditions=[{"type": "W", "message": "ü\\u0000"}]))],
        [changed(5, generation=2, content=spec(source={"path": "x\u0000'\"", "repoURL": "https://g.example/ü;"}))],
        [
            says(6, Failed("other", permanent=True, message="no")),
            says(6, status(6, resources=seen)),
            changed(7, "api", uid="uid-2", generation=2),
        ],
        [changed(8, uid="uid-3"), says(9, status(9, sync={"status": "OutOfSync"}), "uid-2")],
        [says(10, Removed(forced=True)), changed(11, "api", uid="uid-2", epoch=9), resync(12, epoch=9)],
        [changed(13, "api", uid="uid-2", deleting=True, epoch=9, finalizers=(FINALIZER,))],
        [says(14, Removed(forced=False), "uid-2"), gone(15, "api", uid="uid-2")],
        [says(16, status(16, resources=seen[:1]), "uid-3"), changed(17, uid="uid-4")],
        *life_of_resources(instance),
    ]


def life_of_resources(instance: str) -> list[list[Event]]:
    """The same for everything but deployments. Digests are not known beforehand: any will do."""

    def says(second: int, kind: str, uid: str, event: Any) -> Event:
        prefix = {"ClusterSecret": "managed-env-", "RepositorySecret": "repo-cred-", "SyncOperation": ""}[kind]
        return observed(second, event, instance=instance, kind=kind, name=f"{prefix}{resource_id(WORKSPACE, uid)}")

    remote = spec(destination={"environment": "prod", "namespace": "web"})
    ended = SyncMoved("uid-now", "Succeeded", "ü", "abc", "2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z")
    return [
        [secret(20), environment(21, clusterResources=True), changed(22, uid="uid-4", content=remote)],
        [says(23, "ClusterSecret", "uid-prod", Checked("of another", "Succeeded", ""))],
        [secret(24, "login", "repository-credential"), credential(25), environment(26, "over", secret_type="Opaque")],
        [changed(27, "manual", uid="uid-5", content=spec(type="manual")), sync_run(28), sync_run(29, "later", "no")],
        [says(30, "SyncOperation", "", ended), resource_gone(31, SYNC_RUN, "now")],
        [environment(32, epoch=9), resync(33, 9, kind=ENVIRONMENT), resource_gone(34, "Secret", "kubeconfig")],
        [resource_gone(35, ENVIRONMENT, "prod"), gone(36, uid="uid-4"), gone(37, "manual", uid="uid-5")],
        [says(38, "ClusterSecret", "uid-prod", Removed(forced=False)), resource_gone(39, CREDENTIAL, "login")],
        [says(40, "RepositorySecret", "uid-login", Removed(forced=True))],
    ]


def test_store_when_it_takes_the_same_batches_then_it_holds_what_the_model_holds(
    session: DatabaseSession, database: Database
) -> None:
    world = World()
    world.take(changed(1))
    application = world.application()
    assert application is not None
    world = World()
    for batch in life(application.engine_instance_id, application.digest):
        assert take(session, *batch) == world.take(*batch)
        assert read(database, {each.full_name for each in world.tenants.values()}) == {
            known: world.state(known) for known in world.tenants
        }
    session.save_changes(BatchChanges(), [])
    stored = contents(database)
    assert len(stored["deployments"]) == len(world.deployments)
    assert {row["name"] for row in stored["engine_resources"]} == {row.name for row in world.engine.values()}
    assert {row["digest"] for row in stored["workspace_statuses"]} == {row.digest for row in world.workspace.values()}
    assert {(row["id"], row["state"], row["message"]) for row in stored["audit_records"]} == {
        (row.id, row.state, row.message) for row in world.audit_records.values()
    }


def test_store_when_an_api_server_is_restored_then_what_goes_back_and_what_users_do_then_have_records_of_their_own(
    session: DatabaseSession, database: Database
) -> None:
    world = World()

    def takes(*events: Event) -> EngineRow:
        """The row of the Application after that."""
        assert take(session, *events) == world.take(*events)
        return next(row for row in world.engine.values() if row.kind == "Application")

    takes(changed(1))
    application = takes(changed(2, generation=2))
    instance = application.engine_instance_id
    takes(observed(3, Applied(application.digest), instance=instance))
    takes(changed(4, version=1, epoch=4, content=spec(source={"path": "older"})))
    takes(changed(5, generation=2, epoch=4))
    takes(gone(6))
    session.tenants.forget_tenants()
    assert take(session, event := observed(7, Removed(forced=False), instance=instance)) == world.take(event)
    application = takes(changed(8, version=1, epoch=8))
    takes(observed(9, Applied(application.digest), instance=instance))
    takes(gone(10))
    session.save_changes(BatchChanges(), [])
    with psycopg.connect(database.owner_url, row_factory=psycopg.rows.dict_row) as owner:
        rows = owner.execute("SELECT * FROM audit_records ORDER BY created_at").fetchall()
    stored = [AuditRecord(**{name: row[name] for name in columns_of(AuditRecord)}) for row in rows]
    assert {row.id: row for row in stored} == world.audit_records
    changes = [row for row in stored if row.kind != PLACEMENT]
    assert [(row.generation, row.action, row.actor, row.state) for row in changes] == [
        (1, "create", "kubectl", "Completed"),
        (2, "update", "kubectl", "Completed"),
        (1, "update", "restored", "Completed"),
        (2, "update", "kubectl", "Completed"),
        (2, "delete", "", "Completed"),
        (1, "create", "restored", "Completed"),
        (1, "delete", "", "Waiting"),
    ]


def test_store_when_a_kind_of_its_registry_alone_has_objects_then_they_are_stored_as_its_own_and_go_with_it(
    session: DatabaseSession, database: Database
) -> None:
    kinds = Registry((*REGISTRY.kinds, MIRROR))
    policy = Policy(kinds=kinds, limits=kinds.limits())
    content = {"url": "https://mirror.example.com/a", "login": "login"}
    seen = [
        resource(second, MIRROR.name, "copy", content, finalizers=(FINALIZER,), deleting=second > 1, generation=second)
        for second in (1, 2)
    ]
    world = World(policy=policy)
    batch: list[Event] = [secret(1, "login", "repository-credential"), seen[0]]

    def says(second: int, event: Any) -> Event:
        (row,) = [row for row in contents(database)["engine_resources"] if row["owner_kind"] == MIRROR.name]
        return observed(second, event, instance=row["engine_instance_id"], kind=row["kind"], name=row["name"])

    def takes(*events: Event) -> list[dict[str, Any]]:
        assert take(session, *events, policy=policy) == world.take(*events)
        session.tenants.forget_tenants()
        assert read(database, {each.full_name for each in world.tenants.values()}) == {
            known: world.state(known) for known in world.tenants
        }
        return [row for row in contents(database)["engine_resources"] if row["owner_kind"] == MIRROR.name]

    (row,) = takes(*batch)
    assert (row["owner_id"], row["desired"]) == (resource_id(WORKSPACE, "uid-copy"), "present")
    takes(says(2, Checked(row["digest"], "Mirrored", "")))
    assert [json.loads(each["status"])["conditions"][0]["reason"] for each in shown(database)] == ["Mirrored"]
    assert [each["desired"] for each in takes(seen[1])] == ["absent"]
    assert takes(says(4, Removed(forced=False))) == []
    assert [each["release_finalizer"] for each in shown(database)] == [True]
    takes(resource_gone(5, MIRROR.name, "copy"))
    assert shown(database) == []


def test_store_when_a_kind_declares_parts_then_they_are_stored_with_the_row_and_a_change_of_them_is_news(
    session: DatabaseSession, database: Database
) -> None:
    kinds = Registry((*REGISTRY.kinds, REVIEW))
    policy, content = Policy(kinds=kinds, limits=kinds.limits()), {"gitopsDeploymentName": "web"}
    metadata = {"labels": {"review.example.com/team": "shop"}}
    world = World(policy=policy)
    reasons = []
    for second, answers in ((1, {}), (2, {"verdict": {"outcome": "yes"}})):
        seen = resource(second, REVIEW.name, "monday", content, metadata=metadata, status=answers)
        assert take(session, seen, policy=policy) == world.take(seen)
        session.tenants.forget_tenants()
        (state,) = read(database, {each.full_name for each in world.tenants.values()}).values()
        (row,) = state.plain_resources.values()
        assert (json.loads(row.metadata), json.loads(row.status)) == (metadata, answers)
        reasons += [json.loads(each["status"])["conditions"][0]["reason"] for each in shown(database)]
    assert reasons == ["Awaited", "Answered"]


def staging(second: int, **facts: Any) -> Event:
    """An environment that a binding may name."""
    content = {"displayName": "staging", "deploymentStrategy": "Manual"}
    return resource(second, PLACE.kind, "staging", content, generation=second, **facts)


def test_store_when_a_kind_has_child_objects_then_their_rows_come_and_go_with_what_they_follow_from(
    session: DatabaseSession, database: Database
) -> None:
    world = World()

    def takes(*events: Event) -> list[tuple[Any, ...]]:
        assert take(session, *events) == world.take(*events)
        assert read(database, {NAME}).items() >= {known: world.state(known) for known in world.tenants}.items()
        columns = ("kind", "name", "desired", "uid", "revision")
        return [tuple(row[each] for each in columns) for row in contents(database)["workspace_objects"]]

    cart, web = (("GitOpsDeployment", f"web-shop-staging-{each}") for each in ("cart", "web"))
    both = [(*cart, "present", "", 1), (*web, "present", "", 1)]
    assert takes(staging(1), binding(1, components=("cart", "web"))) == both
    manifest = json.loads(contents(database)["workspace_objects"][0]["manifest"])
    metadata = {"labels": manifest["labels"]}
    assert takes(changed(2, cart[1], content=manifest["spec"], metadata=metadata))[0] == (*cart, "present", "", 1)
    assert takes(changed(20, cart[1], generation=2, content=spec(), metadata=metadata))[0] == (*cart, "present", "", 2)
    assert [row["live_version"] for row in contents(database)["workspace_objects"]] == ["uid-1/20", ""]
    undone = changed(21, cart[1], generation=3, content=manifest["spec"], metadata=metadata)
    assert takes(undone)[0] == (*cart, "present", "", 2)
    assert takes(binding(22, components=("web",))) == [(*cart, "absent", "uid-1", 3), (*web, "present", "", 1)]
    session.tenants.forget_tenants()
    assert takes(gone(23, cart[1])) == [(*web, "present", "", 1)]
    assert takes(resource_gone(24, BINDING.kind, "web")) == [(*web, "absent", "", 2)]
    assert takes(Event(Due(*NAME, resource_id(WORKSPACE, "uid-web")), 0, "")) == []


def test_child_object_when_its_batch_is_not_committed_then_neither_it_nor_its_owner_is_there(
    session: DatabaseSession, database: Database
) -> None:
    events = (staging(1), binding(1))
    session.write_changes(plan_batch(events, session, Policy(), NOW), ())
    session.abandon_transaction()
    found = contents(database)
    assert (found["workspace_objects"], found["resources"]) == ([], [])


def test_child_objects_when_their_namespace_is_made_again_then_their_rows_go_and_those_of_the_next_stay(
    session: DatabaseSession, database: Database
) -> None:
    def told(second: int, tag: str, created_at: int) -> list[Event]:
        events = (staging(second, uid=f"uid-staging-{tag}"), binding(second, uid=f"uid-web-{tag}"))
        return in_namespace((tag, created_at), *events)

    take(session, *told(1, "former", 1000))
    take(session, *told(90, "latter", 60_000))
    assert [row["owner_uid"] for row in contents(database)["workspace_objects"]] == ["uid-web-latter"]
    session.tenants.forget_tenants()
    take(session, *told(91, "latter", 60_000))
    assert [row["revision"] for row in contents(database)["workspace_objects"]] == [1]


def test_store_when_a_claim_waits_for_a_service_of_others_then_its_row_comes_and_goes_with_that(
    session: DatabaseSession, database: Database
) -> None:
    world = World()
    spec = {"deploymentTargetClassName": "space"}
    class_ = {"provisioner": "example.com/ours", "reclaimPolicy": "Delete", "parameters": {"size": "ü"}}
    named = json.dumps({"version": "1", "spec": class_})

    def takes(*events: Event) -> list[tuple[Any, ...]]:
        assert take(session, *events) == world.take(*events)
        assert read(database, {NAME}).items() >= {known: world.state(known) for known in world.tenants}.items()
        columns = ("name", "uid", "state", "parameters")
        return [tuple(row[each] for each in columns) for row in contents(database)["pending_claims"]]

    def claim(second: int, **changes: Any) -> Event:
        return resource(second, "DeploymentTargetClaim", "dev", spec, uid="uid-1", named_class=named, **changes)

    parameters = '{"size":"ü"}'
    assert takes(claim(1)) == [("dev", "uid-1", "wanted", parameters)]
    session.tenants.forget_tenants()
    assert takes(claim(2, deleting=True)) == [("dev", "uid-1", "withdrawn", parameters)]
    session.tenants.forget_tenants()
    assert takes(resource_gone(3, "DeploymentTargetClaim", "dev", "uid-1")) == []


def shown(database: Database) -> list[dict[str, Any]]:
    return contents(database)["workspace_statuses"]


def test_store_when_resources_are_beyond_the_allowance_then_it_reads_what_the_model_does(
    session: DatabaseSession, database: Database
) -> None:
    policy = Policy(limits=REGISTRY.limits({MANAGED_ENVIRONMENT.kind: 2, SECRET.kind: 2}, destinations=4, bytes_=2500))
    world = World(policy=policy)
    world.take(changed(1))
    application = world.application()
    assert application is not None
    world, beyond = World(policy=policy), []
    for batch in life_beyond_the_allowance(application.engine_instance_id):
        assert take(session, *batch, policy=policy) == world.take(*batch)
        assert read(database, {each.full_name for each in world.tenants.values()}) == {
            known: world.state(known) for known in world.tenants
        }
        beyond.append(sum(known.over_quota for known in world.resources.values()))
    assert beyond == [0, 1, 1, 2, 1, 2, 0, 0]


def life_beyond_the_allowance(instance: str) -> list[list[Event]]:
    """Resources that outgrow it while something of them is in force, and such as wait until others are gone."""
    secret_name = f"managed-env-{resource_id(WORKSPACE, 'uid-prod')}"
    removed = observed(9, Removed(forced=False), instance=instance, kind="ClusterSecret", name=secret_name)
    remote = spec(destination={"environment": "prod", "namespace": "a"})
    many = [f"namespace-{number}" for number in range(9)]
    return [
        [secret(1), environment(2, namespaces=["a"]), changed(3, content=remote)],
        [environment(4, generation=2, namespaces=many), secret(4, "login", "repository-credential"), credential(4)],
        [changed(5, "local", uid="uid-2")],
        [resource(6, "Secret", "kubeconfig", {"sealed": "x" * 5000}, uid="uid-secret-kubeconfig", generation=0)],
        [changed(7, "local", uid="uid-2", version=7, epoch=2), environment(7, "next", namespaces=["b", "c"])],
        [resource_gone(8, ENVIRONMENT, "prod"), environment(8, "last", namespaces=["d"])],
        [removed, changed(9, "late", uid="uid-3")],
        [changed(10, "later", uid="uid-4")],
    ]


def test_name_when_another_tenant_has_it_then_its_row_stays_and_that_is_told(
    session: DatabaseSession, database: Database
) -> None:
    both = Policy(local_workspaces=dict.fromkeys(("local", "elsewhere"), frozenset({"default"})))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("DELETE FROM engine_instances WHERE id <> %s", (FLEET[0].id,))
    take(session, changed(1), policy=both)
    before = contents(database)["engine_resources"]
    counted = NAME_COLLISIONS.labels("Application")._value.get()
    with capture_logs() as lines:
        take(session, changed(1), changed(2, "own", uid="uid-2"), policy=both)
        assert lines == []
        take(session, changed(3, workspace="elsewhere"), policy=both)
    (told,) = lines
    assert (told["name"], told["refused"], told["owner"]) == ("gitopsdepl-uid-1", "elsewhere/team-a", "local/team-a")
    assert NAME_COLLISIONS.labels("Application")._value.get() == counted + 1
    assert [row for row in contents(database)["engine_resources"] if row in before] == before


def test_row_when_its_digest_is_unchanged_then_it_is_not_written_again(
    session: DatabaseSession, database: Database
) -> None:
    changes = take(session, changed(1))
    with psycopg.connect(database.owner_url) as owner:
        before = owner.execute("SELECT xmin::text, updated_at FROM engine_resources ORDER BY name").fetchall()
        session.save_changes(BatchChanges(other=Changes(engine=changes.engine)), [])
        assert owner.execute("SELECT xmin::text, updated_at FROM engine_resources ORDER BY name").fetchall() == before


def test_rows_when_streamed_then_the_project_comes_before_its_application(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(1))
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT kind FROM engine_resources ORDER BY ctid").fetchall()
    assert [kind for (kind,) in rows] == ["AppProject", "Application"]


def test_rows_when_everything_goes_then_the_application_is_streamed_before_the_secret_of_its_cluster(
    session: DatabaseSession, database: Database
) -> None:
    remote = spec(destination={"environment": "prod", "namespace": "web"})
    take(session, secret(1), environment(2), changed(3, content=remote))
    tenant = only(session)
    (((kind, name), held),) = tenant.objects.items()
    instance = tenant.tenant.engine_instance_id
    checked = Checked(held.digest, "Succeeded", "")
    take(session, observed(5, checked, instance=instance, kind=kind, name=name))
    take(session, resource_gone(6, ENVIRONMENT, "prod"), gone(7))
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT kind FROM engine_resources WHERE desired = 'absent' ORDER BY updated_at")
        assert [kind for (kind,) in rows.fetchall()] == ["Application", "ClusterSecret"]


@pytest.mark.parametrize("size", [1, 10, 200])
def test_batch_when_it_grows_then_the_number_of_statements_does_not(
    session: DatabaseSession, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def counted(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        statements.extend(part for part in str(query).split("; ") if part != "BEGIN" and "fence" not in part)
        return execute(cursor, query, *args, **kwargs)

    session.claim_partitions([])
    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    batch = [changed(1, f"web-{number}", uid=f"uid-{number}", namespace=f"team-{number % 7}") for number in range(size)]
    take(session, *batch)
    # Instances, tenants, parked tenants, assignments and pins are read: there is no tenant yet that has rows. So are
    # the newest complete lists, as these resources are new. Tenants, whether an instance of theirs is retired by now,
    # their engine clusters, deployments, audit_records (three times) and engine resources are written.
    assert len(statements) == 6 + 8 + SWEEP_ASKED_FOR
    statements.clear()
    again = [changed(2, f"web-{number}", uid=f"uid-{number}", namespace=f"team-{number % 7}") for number in range(size)]
    take(session, *again)
    assert len(statements) == 1 + SWEEP_ASKED_FOR  # everything is in memory; sightings are written
    statements.clear()
    take(session, *batch, resync(3, epoch=2))
    # Parked tenants, what was not shown, what was refused and what is to be removed already are read; parts of sweeps
    # and complete lists are written. Of the part: what of it was not shown is read; deployments, audit_records (four
    # times), engine resources and the part are written.
    assert len(statements) <= (4 + 2) + SWEEP_ASKED_FOR + (1 + 7) + SWEEP_ASKED_FOR


# Offsets and effects are one transaction


def test_offsets_when_nothing_is_stored_then_they_begin_at_the_beginning(session: DatabaseSession) -> None:
    assert session.claim_partitions([(TOPIC, 0), (TOPIC, 1)]) == {(TOPIC, 0): 0, (TOPIC, 1): 0}


def test_offsets_when_a_batch_is_saved_then_they_move_with_its_effects(
    session: DatabaseSession, database: Database
) -> None:
    session.claim_partitions([(TOPIC, 0)])
    take(session, changed(1), spans=[Span(TOPIC, 0, 0, 17)])
    assert session.claim_partitions([(TOPIC, 0)]) == {(TOPIC, 0): 17}
    assert len(contents(database)["deployments"]) == 1


def test_planner_when_another_has_taken_over_then_it_is_fenced_and_writes_nothing(
    session: DatabaseSession, database: Database
) -> None:
    session.claim_partitions([(TOPIC, 0), (TOPIC, 1)])
    with closing(DatabaseSession(database.planner_url, ENGINES)) as successor:
        successor.claim_partitions([(TOPIC, 1)])
        take(successor, spans=[Span(TOPIC, 1, 0, 5)])
    with pytest.raises(Fenced):
        take(session, changed(1), spans=[Span(TOPIC, 0, 0, 3), Span(TOPIC, 1, 0, 3)])
    assert contents(database)["deployments"] == []
    assert (next_offset(database, 0), next_offset(database, 1)) == (0, 5)


def test_planner_when_fenced_then_its_next_batch_begins_anew(session: DatabaseSession, database: Database) -> None:
    session.claim_partitions([(TOPIC, 0)])
    with pytest.raises(Fenced):
        take(session, changed(1), spans=[Span(TOPIC, 0, 99, 100)])
    take(session, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    assert next_offset(database) == 1


@pytest.mark.parametrize(
    "crash_at", range(len(STATEMENTS)), ids=lambda number: f"statement-{number}-{STATEMENTS[number].table}"
)
def test_planner_when_it_crashes_between_two_steps_then_neither_effects_nor_offsets_remain(
    session: DatabaseSession, database: Database, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    die = "WITH given AS (SELECT $1::text) SELECT pg_terminate_backend(pg_backend_pid()) FROM given"
    broken = list(STATEMENTS)
    broken[crash_at] = save_module.Statement("deployments", "crash", die)
    monkeypatch.setattr(save_module, "STATEMENTS", tuple(broken))
    session.claim_partitions([(TOPIC, 0)])
    before = contents(database)
    with pytest.raises(Retry):
        take(session, changed(1), changed(2, "api", uid="uid-2"), spans=[Span(TOPIC, 0, 0, 2)])
    assert contents(database) == before
    assert next_offset(database) == 0


def test_planner_when_it_crashes_before_the_commit_then_the_same_batch_makes_the_same_rows_later(
    session: DatabaseSession, database: Database
) -> None:
    session.claim_partitions([(TOPIC, 0)])
    with psycopg.connect(database.planner_url) as dying:
        changes = plan_batch([changed(1)], session, Policy(), NOW)
        save_module.prepare(dying)
        save_module.save(dying, changes.written, [Span(TOPIC, 0, 0, 1)], session.owner)
        dying.pgconn.finish()
        session.close()
        with pytest.raises(psycopg.Error):
            dying.commit()
    assert next_offset(database) == 0
    take(session, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    assert next_offset(database) == 1


def test_planner_when_it_crashes_after_the_commit_then_the_next_one_goes_on_behind_the_batch(
    session: DatabaseSession, database: Database
) -> None:
    session.claim_partitions([(TOPIC, 0)])
    take(session, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    with closing(DatabaseSession(database.planner_url, ENGINES)) as successor:
        assert successor.claim_partitions([(TOPIC, 0)]) == {(TOPIC, 0): 1}
        with pytest.raises(Fenced):
            take(successor, changed(1), spans=[Span(TOPIC, 0, 0, 1)])


def test_planner_when_another_has_taken_up_its_partition_then_it_is_fenced_though_no_offset_has_moved(
    session: DatabaseSession, database: Database
) -> None:
    session.claim_partitions([(TOPIC, 0)])
    with closing(DatabaseSession(database.planner_url, ENGINES)) as successor:
        successor.claim_partitions([(TOPIC, 0)])
        with pytest.raises(Fenced):
            take(session, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
        take(successor, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    assert next_offset(database) == 1


# Tenants in memory


def test_tenant_when_it_is_in_memory_then_nothing_is_read(
    session: DatabaseSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(session, changed(1))

    def read(*_: Any) -> Any:
        raise AssertionError("read")

    monkeypatch.setattr(store_module, "load", read)
    assert take(session, changed(2, generation=2, content=spec(source={"path": "new"}))).engine != ()


@pytest.mark.parametrize("event", ["taken up", "refused", "fenced", "cut"])
def test_tenants_when_it_is_not_known_what_the_database_holds_then_they_are_read_again(
    session: DatabaseSession, database: Database, event: str
) -> None:
    session.claim_partitions([(TOPIC, 0)])
    take(session, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE deployments SET generation = 7")
    match event:
        case "taken up":
            session.claim_partitions([(TOPIC, 0)])
        case "refused":
            with pytest.raises(Poison):
                take(session, changed(2, "api", uid="uid-2", generation=2**70))
        case "fenced":
            with pytest.raises(Fenced):
                take(session, changed(2, "api", uid="uid-2"), spans=[Span(TOPIC, 0, 99, 100)])
        case "cut":
            with psycopg.connect(database.planner_url, autocommit=True) as same_role:
                same_role.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'planner' AND datname = current_database()"
                )
            with pytest.raises(Retry):
                take(session, changed(2, "api", uid="uid-2"))
    (known,) = only(session).deployments.values()
    assert known.generation == 7


def test_uid_when_another_tenants_resource_has_it_then_it_is_poison_and_nothing_changes(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(1))
    before = contents(database)
    with pytest.raises(Poison, match="another tenant's"):
        take(session, changed(2, namespace="team-b"))
    assert contents(database) == before


def test_tenant_when_nothing_of_a_resource_is_in_force_then_a_rebuild_takes_no_object_of_it_for_unwanted(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(1, content="{}"))
    assert uncertain_tenants(database.owner_url) == {"local/team-a"}
    take(session, changed(2, generation=2))
    assert uncertain_tenants(database.owner_url) == set()


def test_tenant_when_a_rule_fails_on_it_then_its_events_are_kept_until_that_is_mended(
    session: DatabaseSession, database: Database
) -> None:
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        take(session, changed(1))
        take(session, changed(2, generation=2))
    take(session, changed(3, generation=3))
    with session.connection() as connection:
        assert periodic_queries.parked_tenants(connection, [5]) == []
        assert [parked.tenant_id for parked in periodic_queries.parked_tenants(connection, [0])] == [TENANT]
        rows = periodic_queries.parked_events(connection, TENANT)
    ((name, _, error, kept),) = parked_tenants(database.owner_url)
    assert (name, error.partition(" ")[0], kept) == ("local/team-a", "ZeroDivisionError", len(rows))
    assert uncertain_tenants(database.owner_url) == {"local/team-a"}
    assert contents(database)["deployments"] == []
    session.write_changes(BatchChanges(other=Changes(unparked=(TENANT,))), [])
    session.save_changes(plan_batch([kept_event(row) for row in rows], session, Policy(), NOW), [])
    assert [row["generation"] for row in contents(database)["deployments"]] == [3]
    assert take(session, changed(4, generation=4)).deployments != ()
    with session.connection() as connection:
        assert (
            periodic_queries.parked_tenants(connection, [0]),
            periodic_queries.parked_events(connection, TENANT),
        ) == ([], [])


def test_resource_when_its_tenant_is_parked_then_it_shows_that_until_the_tenant_goes_on(
    session: DatabaseSession, database: Database
) -> None:
    def told() -> dict[str, Any]:
        return {
            row["name"]: json.loads(row["status"])["conditions"] for row in contents(database)["workspace_statuses"]
        }

    take(session, changed(1), environment(1), secret(1))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        take(session, changed(2, "api", uid="uid-2"), changed(2, "brief", uid="uid-3"))
    assert set(told()) == {"web", "prod", "api", "brief"}
    assert all(TENANT_PARKED.message in json.dumps(conditions) for conditions in told().values())
    with session.connection() as connection:
        (parked,) = periodic_queries.parked_tenants(connection, [0])
        kept = [kept_event(row) for row in periodic_queries.parked_events(connection, TENANT)]
        shown = periodic_queries.events_of_parked(connection, TENANT)
    assert {event.message.id for event in shown if isinstance(event.message, Due)} == {
        resource_id(WORKSPACE, uid) for uid in ("uid-1", "uid-prod")
    }
    session.write_changes(BatchChanges(other=Changes(unparked=(TENANT,))), [])
    session.write_changes(plan_batch([*kept[:1], *shown], session, Policy(), NOW), [])
    left = session.find_parked_statuses(parked)
    assert sorted((key[1], exists) for key, _, exists in left) == [("api", True), ("brief", False)]
    session.save_changes(resolved(parked, left, NOW), [])
    assert set(told()) == {"web", "prod", "api"}
    assert {each["reason"] for conditions in told().values() for each in conditions} == {
        "ErrorOccurredResolved", "Checking"
    }  # fmt: skip


def test_events_when_much_has_happened_to_a_parked_tenant_then_those_that_count_take_their_place(
    session: DatabaseSession,
) -> None:
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        for generation in range(1, 5):
            take(session, changed(generation, generation=generation))
        take(session, changed(5, "api", uid="uid-2"))
    with session.connection() as connection:
        ((parked, count),) = periodic_queries.count_parked_events(connection, [0]).items()
        rows = periodic_queries.parked_events(connection, TENANT)
        assert periodic_queries.count_parked_events(connection, [5]) == {}
    kept, _ = compacted(rows)
    written = Changes(unparked=(TENANT,), parked=(parked,), parked_events=tuple(kept))
    session.save_changes(BatchChanges(other=written), [])
    with session.connection() as connection:
        assert (count, periodic_queries.count_parked_events(connection, [0])) == (5, {parked: 2})
        assert periodic_queries.parked_events(connection, TENANT) == [rows[3], rows[4]] == kept


def test_tenant_when_it_was_in_memory_and_is_parked_then_no_event_overtakes_those_that_are_kept(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(1))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        take(session, changed(2, "x", uid="uid-x"))
    take(session, gone(3, "x", uid="uid-x"), changed(4, "y", uid="uid-y"))
    assert [row["name"] for row in contents(database)["deployments"]] == ["web"]
    with session.connection() as connection:
        assert len(periodic_queries.parked_events(connection, TENANT)) == 3


def test_upkeep_when_a_tenant_is_parked_then_what_is_due_of_it_takes_nobodys_place(session: DatabaseSession) -> None:
    take(session, changed(1, held_back_ms=3000))
    take(session, changed(2, "api", uid="uid-2", namespace="team-b", held_back_ms=3000))
    assert len(due(session, 10_000)) == 2
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        take(session, changed(3, generation=2))
    assert [event.message.namespace for event in due(session, 10_000)] == ["team-b"]


def test_marker_when_it_comes_twice_in_a_batch_then_each_resource_is_counted_once(session: DatabaseSession) -> None:
    take(session, *(changed(1, f"w-{number}", uid=f"uid-{number}") for number in range(3)))
    scope = SweepScope(WORKSPACE, GITOPS_DEPLOYMENT.kind, 0, 9)
    assert session.find_unseen([scope, scope])[scope].known == 3


def test_marker_when_a_tenant_is_parked_then_it_is_not_counted_and_told_of_the_marker(session: DatabaseSession) -> None:
    take(session, changed(1), changed(1, "api", uid="uid-2", namespace="team-b"))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        take(session, changed(2, generation=2))
    scope = SweepScope(WORKSPACE, GITOPS_DEPLOYMENT.kind, 0, 9)
    found = session.find_unseen([scope])[scope]
    assert (found.known, set(found.unseen)) == (1, {resource_id(WORKSPACE, "uid-2")})
    assert found.parked == ((WORKSPACE, "team-a"),)


def test_marker_when_its_batch_made_a_resource_that_it_does_not_show_then_that_is_swept(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(1), resync(2, epoch=2))
    assert [row["present"] for row in contents(database)["deployments"]] == [False]


def test_tenant_when_an_engine_fails_on_its_objects_then_only_that_one_is_parked(
    session: DatabaseSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(session, environment(1), secret(1))
    session.tenants.forget_tenants()
    monkeypatch.setattr(type(ENGINES["argocd"]), "objects", lambda *_, **__: 1 / 0)
    take(session, changed(2), secret(2), changed(3, "api", uid="uid-2", namespace="team-b"))
    assert [row["name"] for row in contents(database)["deployments"]] == ["api"]
    with session.connection() as connection:
        assert [parked.tenant_id for parked in periodic_queries.parked_tenants(connection, [0])] == [TENANT]


def test_tenant_when_this_build_does_not_know_its_engine_then_only_that_one_is_parked_and_that_is_told_once(
    session: DatabaseSession, database: Database
) -> None:
    take(session, environment(1), secret(1))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(
            "UPDATE engine_instances SET engine = 'newer'"
            " WHERE id = (SELECT engine_instance_id FROM tenants WHERE id = %s)",
            [TENANT],
        )
    session.tenants.forget_tenants()
    with capture_logs() as lines:
        take(session, changed(2), changed(3, "api", uid="uid-2", namespace="team-b"))
        session.refresh_fleet()
    assert [row["name"] for row in contents(database)["deployments"]] == ["api"]
    with session.connection() as connection:
        assert [parked.tenant_id for parked in periodic_queries.parked_tenants(connection, [0])] == [TENANT]
    assert [line["engine"] for line in lines if "does not know" in line["event"]] == ["newer"]


def test_rows_when_two_of_a_statement_are_the_same_then_it_is_poison(session: DatabaseSession) -> None:
    changes = plan_batch([changed(1)], session, Policy(), NOW)
    with pytest.raises(Poison):
        session.save_changes(BatchChanges((*changes.tenants, *changes.tenants)), [])


STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")
SUBQUERY = fleet_queries.DEPLOYMENTS
"""Names ``i``, an instance of the statement around it."""


def statements_of(package: ModuleType) -> dict[str, str]:
    """The public constants of its modules that are whole statements, by module and name."""
    names = (each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    return {
        f"{module.__name__.removeprefix('services.')}.{name}": text
        for module in map(importlib.import_module, names)
        for name, text in vars(module).items()
        if name.isupper() and name[0] != "_" and isinstance(text, str) and STATEMENT.match(text) and text != SUBQUERY
    }


SQL_TEXTS = statements_of(services.planner.database)


@pytest.mark.parametrize("statement", SQL_TEXTS)
def test_statement_when_postgresql_prepares_it_then_tables_columns_and_types_are_right(
    database: Database, statement: str
) -> None:
    numbers = itertools.count(1)
    text = re.sub(r"%(\(\w+\))?[bs]", lambda _: f"${next(numbers)}", SQL_TEXTS[statement])
    with psycopg.connect(database.planner_url) as planner:
        planner.execute(f"PREPARE checked AS {text}")  # type: ignore[arg-type]


# Failures


def test_connection_when_it_is_cut_then_the_batch_can_be_retried(session: DatabaseSession, database: Database) -> None:
    session.load_tenants([NAME])
    with psycopg.connect(database.planner_url, autocommit=True) as same_role:
        same_role.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'planner' AND datname = current_database()"
        )
    with pytest.raises(Retry):
        session.save_changes(BatchChanges(), [Span(TOPIC, 0, 0, 1)])
    assert len(take(session, changed(1)).engine) == 2


def test_value_when_the_database_refuses_it_then_it_is_poison_and_the_store_goes_on(
    session: DatabaseSession, database: Database
) -> None:
    with pytest.raises(Poison):
        take(session, changed(1, generation=2**70))
    assert len(take(session, changed(1)).engine) == 2
    assert len(contents(database)["deployments"]) == 1


def test_planner_when_it_writes_what_is_not_its_own_then_it_may_not(database: Database) -> None:
    with psycopg.connect(database.planner_url, autocommit=True) as planner:
        for statement in (
            "INSERT INTO debezium_signals VALUES ('x', 'y', 'z')",
            "UPDATE alembic_version SET version_num = 'x'",
            "CREATE TABLE mine (id int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                planner.execute(statement)  # type: ignore[arg-type]


def test_project_when_refused_then_all_deployments_of_its_tenant_that_wait_are_found(session: DatabaseSession) -> None:
    changes = take(session, changed(1), changed(2, "api", uid="uid-2"))
    project = changes.engine[0]
    refused = observed(
        3,
        Failed(project.digest, permanent=True, message="denied"),
        instance=project.engine_instance_id,
        kind="AppProject",
        name=project.name,
    )
    assert sorted(row.name for row in take(session, refused).workspace) == ["api", "web"]


# PeriodicTasks


def due(session: DatabaseSession, now: float, partition: int = 0) -> list[Event]:
    with session.connection() as connection:
        return periodic_queries.find_due(connection, at(now), [partition], limit=10)


def test_deployment_when_the_limit_was_raised_then_a_planner_that_takes_up_the_partition_finds_it(
    session: DatabaseSession,
) -> None:
    few, more = (Policy(limits=REGISTRY.limits({GITOPS_DEPLOYMENT.kind: number})) for number in (1, 2))
    take(session, changed(1), changed(2, "api", uid="uid-2"), changed(3, "db", uid="uid-3"), policy=few)
    with session.connection() as connection:
        assert periodic_queries.find_over_quota(connection, [5]) == []
        (oldest,) = periodic_queries.find_over_quota(connection, [0])
    assert take(session, oldest, policy=few).engine == ()
    changes = take(session, oldest, policy=more)
    assert [row.name for row in changes.engine if row.kind == "Application"] == ["gitopsdepl-uid-2"]


def test_deletion_when_forced_then_operators_can_list_what_may_be_left_behind(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(1), changed(2, "api", uid="uid-2"))
    take(session, gone(3), gone(4, "api", uid="uid-2"))
    instance = only(session).tenant.engine_instance_id
    take(session, observed(5, Removed(forced=True), instance=instance))
    take(session, observed(6, Removed(forced=False), instance=instance, name="gitopsdepl-uid-2"))
    (found,) = left_behind(database.owner_url)
    assert (found.tenant, found.resource) == ("local/team-a", "GitOpsDeployment/web")
    assert "gitopsdepl-uid-1" in found.message
    assert (found.is_there_again, found.resources) == (False, None)


def test_deletion_when_forced_then_what_may_be_left_is_told_by_the_next_planner_until_it_is_due(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(1))
    instance = only(session).tenant.engine_instance_id
    seen = [{"kind": "ConfigMap", "namespace": "team-a", "name": name} for name in ("one", "two")]
    take(session, observed(2, status(2, resources=seen), instance=instance))
    take(session, gone(3))
    (project,) = (key for key in only(session).objects)
    take(session, observed(4, Removed(forced=True), instance=instance))
    take(session, observed(5, Removed(forced=False), instance=instance, kind=project[0], name=project[1]))
    assert {name for name, rows in contents(database).items() if rows} == {
        "tenants",
        "forced_deletions",
        "audit_records",
    }
    with closing(DatabaseSession(database.planner_url, ENGINES)) as restarted:
        take(restarted, changed(6, uid="uid-2"))
        assert "ConfigMap team-a/one, ConfigMap team-a/two" in shown(database)[0]["status"]
        take(restarted, observed(7, status(7, resources=seen[:1]), instance=instance, name="gitopsdepl-uid-2"))
        with restarted.connection() as connection:
            assert [periodic_queries.count_left_behind(connection, [n]) for n in (0, 1)] == [1, 0]
        (found,) = left_behind(database.owner_url)
        assert (found.is_there_again, found.resources) == (True, '[["","ConfigMap","team-a","two"]]')
        later = 4 + SHOWN_FOR.total_seconds()
        assert due(restarted, later - 1) == []
        (event,) = due(restarted, later)
        take(restarted, event, now=at(later))
        assert due(restarted, later) == []
    assert "ResourcesLeftBehindResolved" in shown(database)[0]["status"]
    assert contents(database)["forced_deletions"] == []


def test_operations_when_old_then_they_are_pruned_a_bounded_number_at_a_time(session: DatabaseSession) -> None:
    changes = take(session, *(changed(number, f"w-{number}", uid=f"uid-{number}") for number in range(5)))
    take(session, *(gone(10, f"w-{number}", uid=f"uid-{number}") for number in range(5)))
    after = changes.audit_records[-1].created_at.replace(year=2999)
    assert [_prune(session, after) for _ in range(4)] == [4, 4, 3, 0]  # where their tenant was placed, too


def _prune(session: DatabaseSession, before: datetime) -> int:
    with session.connection() as connection:
        return periodic_queries.delete_audit_records(connection, before, limit=4)


def test_change_when_held_back_then_it_is_found_once_that_is_long_past(session: DatabaseSession) -> None:
    take(session, changed(1, held_back_ms=3000), sync_run(1, held_back_ms=3000))
    assert due(session, 60) == []
    assert due(session, 61, partition=5) == []
    found = due(session, 61)
    assert len(found) == 2
    take(session, *found, now=at(61))
    assert due(session, 90) == []


def test_run_when_its_cr_is_long_gone_then_it_is_forgotten(session: DatabaseSession, database: Database) -> None:
    take(session, changed(1, content=spec(type="manual")), sync_run(2))
    take(session, resource_gone(3, SYNC_RUN, "now"))
    instance = only(session).tenant.engine_instance_id
    ended = SyncMoved("uid-now", "Failed", "", "", "", "")
    take(session, observed(5, ended, instance=instance, kind="SyncOperation", name="gitopsdepl-uid-1"))
    assert _forget(session, at(1)) == 0
    assert len(contents(database)["sync_runs"]) == 1
    assert _forget(session, at(60)) == 1
    assert contents(database)["sync_runs"] == []


def _forget(session: DatabaseSession, before: datetime) -> int:
    with session.connection() as connection:
        return periodic_queries.delete_ended_runs(connection, before, limit=10)


def test_tenant_when_it_still_has_a_secret_then_it_is_not_deleted(session: DatabaseSession, database: Database) -> None:
    take(session, secret(1))
    changes = take(session, changed(2))
    take(session, gone(3))
    for row in reversed(changes.engine):
        gone_too = observed(4, Removed(forced=False), instance=row.engine_instance_id, kind=row.kind, name=row.name)
        take(session, gone_too)
    assert len(contents(database)["tenants"]) == 1
    assert contents(database)["engine_resources"] == []


def test_deletion_when_overdue_then_it_is_found_in_its_partition_only_and_the_cr_says_so(
    session: DatabaseSession,
) -> None:
    take(session, changed(1))
    take(session, changed(2, deleting=True, finalizers=(FINALIZER,)))
    assert due(session, 7, partition=5) == []
    assert due(session, 6) == []
    overdue = due(session, 7)
    (row,) = take(session, *overdue, now=at(7)).workspace
    assert "Deleting" in row.status
    assert due(session, 60) == []


def test_statement_when_it_fails_then_the_log_of_the_server_does_not_repeat_it(session: DatabaseSession) -> None:
    with session.connection() as connection:
        assert connection.execute("SHOW log_min_error_statement").fetchall() == [("panic",)]


def test_store_when_idle_in_between_then_no_transaction_is_left_open(session: DatabaseSession) -> None:
    take(session, changed(1))
    with session.connection() as connection:
        assert connection.info.transaction_status == TransactionStatus.IDLE


def test_namespace_when_it_is_made_again_then_neither_dormant_rows_nor_statuses_of_before_stay(
    database: Database, session: DatabaseSession
) -> None:
    policy = Policy(limits=REGISTRY.limits({MANAGED_ENVIRONMENT.kind: 1}))
    crowd = (environment(number, f"e-{number:03d}") for number in range(1, WAITING_KEPT + 20))
    take(session, *in_namespace(("former", 1000), *crowd, changed(1)), policy=policy)
    found = contents(database)
    assert any(row["dormant"] for row in found["resources"])
    assert found["workspace_statuses"]
    take(session, *in_namespace(("latter", 60_000), changed(70, "other", uid="uid-other")), policy=policy)
    found = contents(database)
    assert [row["name"] for row in found["deployments"] if row["present"]] == ["other"]
    assert not [row for row in found["resources"] if row["present"] or row["dormant"]]
    assert not found["workspace_statuses"]
    assert {row["namespace_uid"]: row["former_since"] for row in found["tenants"]} == {"former": 60_000, "latter": 0}


def test_namespace_when_it_is_made_again_then_both_tenants_are_read_and_each_keeps_what_is_shown_of_it(
    database: Database, session: DatabaseSession
) -> None:
    take(session, *in_namespace(("former", 1000), changed(1), environment(2)))
    both = [changed(70, uid="uid-latter"), environment(71, uid="uid-prod-latter")]
    take(session, *in_namespace(("latter", 60_000), *both))
    former, latter = (tenant_id(*NAME, uid) for uid in ("former", "latter"))
    for _ in ("in memory", "read again"):
        found = {state.tenant.id: state for state in session.load_tenants([NAME]).tenants[NAME]}
        assert [row.present for row in found[former].deployments.values()] == [False]
        assert {key: row.uid for key, row in found[latter].statuses.items()} == {
            (ENVIRONMENT, "prod"): "uid-prod-latter"
        }
        assert not found[former].statuses
        session.tenants.forget_tenants()
    assert {row["uid"] for row in contents(database)["workspace_statuses"]} == {"uid-prod-latter"}
    instance, project = found[former].tenant.engine_instance_id, f"app-project-{former}"
    for kind, name in (("Application", "gitopsdepl-uid-1"), ("AppProject", project)):
        take(session, observed(80, Removed(forced=False), instance=instance, kind=kind, name=name))
    assert [state.tenant.id for state in session.load_tenants([NAME]).tenants[NAME]] == [latter]
    assert [row["id"] for row in contents(database)["tenants"]] == [latter]


def test_namespace_when_a_resource_of_the_one_before_survives_in_it_then_its_row_stays_the_former_tenants(
    database: Database, session: DatabaseSession
) -> None:
    take(session, *in_namespace(("former", 1000), changed(1)))
    take(session, *in_namespace(("latter", 60_000), changed(70, epoch=2)))
    take(session, *in_namespace(("latter", 60_000), changed(71, epoch=2), changed(72, "other", uid="uid-other")))
    found = contents(database)
    assert {row["namespace_uid"]: row["former_since"] for row in found["tenants"]} == {"former": 60_000, "latter": 0}
    assert {(row["uid"], row["tenant_id"], row["present"]) for row in found["deployments"]} == {
        ("uid-1", tenant_id(*NAME, "former"), False),
        ("uid-other", tenant_id(*NAME, "latter"), True),
    }


def test_namespace_when_its_tenant_is_parked_and_it_is_made_again_then_only_the_former_one_stays_parked(
    database: Database, session: DatabaseSession
) -> None:
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", lambda *_: 1 / 0)
        take(session, *in_namespace(("former", 1000), changed(1)))
    take(session, *in_namespace(("latter", 60_000), changed(70, uid="uid-latter")))
    take(session, *in_namespace(("latter", 60_000), changed(71, uid="uid-latter", generation=2)))
    found = contents(database)
    assert [(row["uid"], row["generation"]) for row in found["deployments"]] == [("uid-latter", 2)]
    assert not found["workspace_statuses"]
    with session.connection() as connection:
        (parked,) = periodic_queries.parked_tenants(connection, [0])
        kept = [kept_event(row) for row in periodic_queries.parked_events(connection, parked.tenant_id)]
    assert parked.tenant_id == tenant_id(*NAME, "former")
    session.write_changes(BatchChanges(other=Changes(unparked=(parked.tenant_id,))), [])
    session.write_changes(plan_batch(kept, session, Policy(), NOW), [])
    session.save_changes(resolved(parked, session.find_parked_statuses(parked), NOW), [])
    after = contents(database)
    assert [row["namespace_uid"] for row in after["tenants"]] == ["latter"]
    assert after["deployments"] == found["deployments"]


def test_tenants_when_the_database_is_built_anew_then_they_are_where_they_were_and_not_where_their_hash_says(
    session: DatabaseSession, database: Database
) -> None:
    by_hash = place(Tenant(TENANT, *NAME, 0, ""), FLEET, {}).id
    elsewhere = next(instance.id for instance in FLEET if instance.id != by_hash)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("INSERT INTO placements VALUES (%s, %s)", (TENANT, elsewhere))
    session.claim_partitions([])
    take(session, changed(1))
    assert only(session).tenant.engine_instance_id == elsewhere


def test_deployments_when_the_database_is_built_anew_then_each_is_where_it_was(
    session: DatabaseSession, database: Database
) -> None:
    one, two = (instance.id for instance in FLEET)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("INSERT INTO placements VALUES (%s, %s)", (TENANT, one))
        owner.execute("INSERT INTO deployment_placements VALUES (%s, %s)", (resource_id(WORKSPACE, "uid-2"), two))
    session.claim_partitions([])
    take(session, changed(1), changed(2, "api", uid="uid-2"))
    assert {each.name: each.engine_instance_id for each in only(session).deployments.values()} == {
        "web": "",
        "api": two,
    }
