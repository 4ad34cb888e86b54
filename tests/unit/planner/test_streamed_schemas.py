"""Schemas of the compiled topics follow from the tables: a migration that changes one has to release it, readable."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_one
from sqlalchemy import BigInteger, Boolean, Column, DateTime, Integer, SmallInteger, String, Table, Text, Uuid

from services.cli.installation.connector import DEFINITION
from services.common.avro import COMPILED_SUBJECTS, local_schemas
from services.common.errors import Poison
from services.common.messages import (
    EngineResource,
    FleetInstance,
    PendingClaim,
    TenantClusters,
    WorkspaceObject,
    WorkspaceResource,
)
from services.common.package_data import AVRO_SCHEMAS
from services.planner.database.tables.compiled import (
    engine_resources,
    pending_claims,
    tenant_clusters,
    workspace_objects,
    workspace_statuses,
)
from services.planner.database.tables.fleet import (
    engine_clusters,
    engine_instances,
    engine_pools,
    tenant_pins,
    workspace_assignments,
)
from tests.unit.planner.given import at

RELEASED = AVRO_SCHEMAS / "released"
ROWS = {
    EngineResource: engine_resources,
    FleetInstance: engine_instances,
    PendingClaim: pending_claims,
    TenantClusters: tenant_clusters,
    WorkspaceObject: workspace_objects,
    WorkspaceResource: workspace_statuses,
}
NAMESPACES = {
    engine_clusters: "gitops.public.engine_clusters",
    engine_instances: "gitops.public.engine_instances",
    engine_pools: "gitops.public.engine_pools",
    engine_resources: "gitops.public.engine_resources",
    pending_claims: "gitops.public.pending_claims",
    tenant_clusters: "gitops.public.tenant_clusters",
    tenant_pins: "gitops.public.tenant_pins",
    workspace_assignments: "gitops.public.workspace_assignments",
    workspace_objects: "gitops.public.workspace_objects",
    workspace_statuses: "gitops.public.workspace_resources",
}
"""Of their schemas. All partitions have one: Connect names it."""
CONNECTOR = json.loads(DEFINITION.read_text())
EXCLUDED = [re.compile(each) for each in CONNECTOR["column.exclude.list"].split(",")]
PARTITIONS = {workspace_objects: ("other_workspace_objects", "workspace_objects_A.b_c")}
"""Of a table that is streamed by its partitions, if not all of its columns are."""
ROUTED_BY = CONNECTOR["transforms.engine.route.by.field"]
"""Which is the topic, and so not in its messages."""
TIME = {"type": "string", "connect.version": 1, "connect.name": "io.debezium.time.ZonedTimestamp"}
UUID = {"type": "string", "connect.version": 1, "connect.name": "io.debezium.data.Uuid"}
TYPES: list[tuple[type, Any]] = [
    (SmallInteger, {"type": "int", "connect.type": "int16"}),
    (BigInteger, "long"),
    (Integer, "int"),
    (Boolean, "boolean"),
    (DateTime, TIME),
    (Text, "string"),
    (String, "string"),
    (Uuid, UUID),
]
"""What Debezium and the converter make of a column; the narrower type first."""


def field(column: Column[Any]) -> dict[str, Any]:
    assert column.server_default is None, "its default would be in the schema: say here how"
    kind = next(avro for sql, avro in TYPES if isinstance(column.type, sql))
    return (
        {"name": column.name, "type": ["null", kind], "default": None}
        if column.nullable
        else {
            "name": column.name,
            "type": kind,
        }
    )


def record(namespace: str, name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": fields,
        "connect.name": f"{namespace}.{name}",
    }


@pytest.mark.parametrize(("table", "namespace"), NAMESPACES.items(), ids=NAMESPACES.values())
def test_schema_when_its_table_is_streamed_then_it_is_the_released_one(table: Table, namespace: str) -> None:
    columns = [
        item
        for item in table.columns
        if not is_excluded(table, item.name) and not (table is engine_resources and item.name == ROUTED_BY)
    ]
    deleted = {"name": "__deleted", "type": ["null", "string"], "default": None}
    local = local_schemas()
    key = [field(column) for column in key_columns(table)]
    assert local[f"{namespace}.Key"] == record(namespace, "Key", key)
    value = [*(field(column) for column in columns), deleted]
    assert local[f"{namespace}.Value"] == record(namespace, "Value", value)


def is_excluded(table: Table, column: str) -> bool:
    """Of each of its partitions alike."""
    names = [f"public.{name}.{column}" for name in PARTITIONS.get(table, (table.name,))]
    (found,) = {any(each.fullmatch(name) for each in EXCLUDED) for name in names}
    return found


def key_columns(table: Table) -> list[Column[Any]]:
    """Those that the connector makes a message's key of."""
    name, _, columns = CONNECTOR["message.key.columns"].partition(":")
    return (
        [table.columns[each] for each in columns.split(",")]
        if name == f"public.{table.name}"
        else [*table.primary_key.columns]
    )


def versions(file: str) -> list[Path]:
    stem = Path(file).stem
    return sorted(RELEASED.glob(f"{stem}.v*.avsc"), key=lambda path: int(path.stem.rpartition(".v")[2]))


@pytest.mark.parametrize("file", COMPILED_SUBJECTS.values())
def test_schema_when_it_differs_from_the_last_release_then_it_was_released_anew(file: str) -> None:
    assert (AVRO_SCHEMAS / file).read_text() == versions(file)[-1].read_text(), (
        "copy it to released/, as its next version"
    )


@pytest.mark.parametrize("file", COMPILED_SUBJECTS.values())
def test_schema_when_an_older_one_wrote_then_it_is_backward_compatible(file: str) -> None:
    reader = fastavro.parse_schema(json.loads((AVRO_SCHEMAS / file).read_text()))
    for path in versions(file):
        writer = fastavro.parse_schema(json.loads(path.read_text()))
        written = io.BytesIO()
        fastavro.schemaless_writer(written, writer, generate_one(writer))
        written.seek(0)
        assert fastavro.schemaless_reader(written, writer, reader)


@pytest.mark.parametrize(("row", "table"), ROWS.items(), ids=lambda item: getattr(item, "__name__", ""))
def test_row_when_any_released_schema_wrote_it_then_its_reader_finds_all_that_it_needs(row: type, table: Table) -> None:
    others = [item.name for item in dataclasses.fields(row) if item.default is dataclasses.MISSING]
    needed = {*others} - {"deleted"} | {"__deleted"}
    for path in versions(COMPILED_SUBJECTS[f"{NAMESPACES[table]}.Value"]):
        assert needed <= {item["name"] for item in json.loads(path.read_text())["fields"]}, path.name


def test_instance_when_a_schema_of_before_wrote_it_or_it_has_no_value_then_it_is_not_installed_by_us() -> None:
    row: dict[str, Any] = dict.fromkeys((item.name for item in dataclasses.fields(FleetInstance)), "")
    row["reapply_ordered_at"] = "2026-05-04T12:00:03Z"
    installed = {"wanted_version", "profile", "reapply_ordered_at"}
    before = {name: value for name, value in row.items() if name not in installed}
    for record in (before, before | dict.fromkeys(installed)):
        read = FleetInstance.from_record(record | {"__deleted": "false"})
        assert (read.wanted_version, read.profile, read.reapply_ordered_at) == ("", "", None)
    assert FleetInstance.from_record(row | {"__deleted": "false"}).reapply_ordered_at == at(3)
    assert (
        FleetInstance.from_record(row | {"wanted_version": "3.2.11", "__deleted": "false"}).wanted_version == "3.2.11"
    )


def test_tombstone_when_any_released_schema_wrote_its_key_then_it_tells_which_row_is_deleted() -> None:
    for path in versions(COMPILED_SUBJECTS[f"{NAMESPACES[engine_resources]}.Key"]):
        key = generate_one(fastavro.parse_schema(json.loads(path.read_text())))
        row = EngineResource.from_tombstone(key)
        assert (row.identity, row.deleted) == (
            tuple(key[column.name] for column in key_columns(engine_resources)),
            True,
        )


def test_engine_row_when_it_is_routed_then_its_column_is_of_the_key_that_the_log_has_of_a_deletion() -> None:
    """Replica identity DEFAULT: of a deleted row the write-ahead log has the primary key alone."""
    assert ROUTED_BY in engine_resources.primary_key.columns
    assert CONNECTOR["transforms.engineColumns.exclude"] == ROUTED_BY


def test_tombstone_when_any_released_schema_wrote_its_key_then_it_tells_which_instance_is_deleted() -> None:
    for path in versions(COMPILED_SUBJECTS[f"{NAMESPACES[engine_instances]}.Key"]):
        key = generate_one(fastavro.parse_schema(json.loads(path.read_text())))
        row = FleetInstance.from_tombstone(key)
        assert (row.id, row.deleted) == (key["id"], True)


def test_tombstone_when_any_released_schema_wrote_its_key_then_it_tells_which_child_object_is_deleted() -> None:
    for path in versions(COMPILED_SUBJECTS[f"{NAMESPACES[workspace_objects]}.Key"]):
        key = generate_one(fastavro.parse_schema(json.loads(path.read_text())))
        row = WorkspaceObject.from_tombstone(key)
        assert (row.identity, row.deleted) == (tuple(key[each.name] for each in key_columns(workspace_objects)), True)


def test_tombstone_when_any_released_schema_wrote_its_key_then_it_tells_which_claim_waits_no_more() -> None:
    for path in versions(COMPILED_SUBJECTS[f"{NAMESPACES[pending_claims]}.Key"]):
        key = generate_one(fastavro.parse_schema(json.loads(path.read_text())))
        row = PendingClaim.from_tombstone(key)
        assert (row.identity, row.deleted) == (tuple(key[each.name] for each in key_columns(pending_claims)), True)


def test_tombstone_when_any_released_schema_wrote_its_key_then_it_tells_which_tenant_is_gone() -> None:
    for path in versions(COMPILED_SUBJECTS[f"{NAMESPACES[tenant_clusters]}.Key"]):
        key = generate_one(fastavro.parse_schema(json.loads(path.read_text())))
        row = TenantClusters.from_tombstone(key)
        assert (row.tenant_id, row.clusters, row.deleted) == (key["tenant_id"], frozenset(), True)


def test_partitioned_table_when_it_is_streamed_then_by_its_partitions_and_not_once_more_as_a_whole() -> None:
    """The snapshot of a table shows the rows of its partitions, too."""
    streamed = [re.compile(each) for each in CONNECTOR["table.include.list"].split(",")]
    for table in (workspace_objects, workspace_statuses):
        assert not any(each.fullmatch(f"public.{table.name}") for each in streamed)
    for name in ("workspace_resources", "workspace_resources_A.b_c", *PARTITIONS[workspace_objects]):
        assert any(each.fullmatch(f"public.{name}") for each in streamed)


@pytest.mark.parametrize("row", [EngineResource, FleetInstance, PendingClaim, TenantClusters, WorkspaceObject])
def test_tombstone_when_its_key_is_of_something_else_then_it_is_poison(
    row: type[EngineResource | FleetInstance | PendingClaim | TenantClusters | WorkspaceObject],
) -> None:
    with pytest.raises(Poison):
        row.from_tombstone({"number": 1})
