"""What the streamed topics hold: the fleet, and what each key of the compiled tables' topics stands for.

The rows of these tables are read here, too, as values of the same form: :mod:`table_comparison` compares both, and
:mod:`unknown_rows` finds the keys that no row has. Nothing is written.

The newest message of each key stands for it; a deleted row's key stands for nothing. A key of a topic that no row has
stays there for ever, desired, though nobody asks for it any more: a database that was built anew does not know it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, get_type_hints

from psycopg import Connection

from services.cli.rebuild.placements import Claim, Placements, placements_claimed
from services.cli.sending import CLIENT
from services.common.argocd_names import uid_of
from services.common.avro import SchemaRegistry, decode_record
from services.common.errors import Poison
from services.common.kafka import (
    FLEET,
    PLACEMENT,
    PROVISIONING,
    Brokers,
    ConsumedMessage,
    PartitionReader,
    TopicPartition,
    engine_topic,
    objects_topic,
    workspace_topic,
)
from services.common.messages import EngineResource, PendingClaim, RowKind, WorkspaceObject, WorkspaceResource
from services.common.startup import one_line
from services.planner.domain.fleet.placement.assignments import TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool, PoolKey
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow
from services.planner.domain.ids import resource_id
from services.planner.engines.argocd.names import tenant_of
from services.planner.rows.tenants import TenantName

Row = TypeVar("Row", EngineResource, WorkspaceResource, WorkspaceObject, PendingClaim)
PlacementRow = WorkspaceAssignment | TenantPin | EngineClusterRow | EnginePool
FleetRow = TypeVar("FleetRow", bound=EngineInstanceRow | PlacementRow)
Value = TypeVar("Value")
Key = tuple[str, str, str, str]
"""The primary key of a row of any of the compiled tables."""

ENGINE_ROWS = "SELECT engine_instance_id, kind, namespace, name, desired || ' ' || digest FROM engine_resources"
STATUS_ROWS = "SELECT workspace, namespace, kind, name, digest FROM workspace_statuses WHERE workspace = %s"

CHILD_ROWS = """
SELECT workspace, namespace, kind, name, desired || ' ' || digest FROM workspace_objects WHERE workspace = %s
"""
CLAIM_ROWS = """
SELECT workspace, namespace, name, uid, concat_ws(' ', state, generation, class_name, provisioner, parameters)
  FROM pending_claims
"""


@dataclass(frozen=True, slots=True)
class PlacementTopic:
    """What the topic of placement holds of engine clusters, their pools, assignments and pins."""

    assignments: tuple[WorkspaceAssignment, ...] = ()
    pins: tuple[TenantPin, ...] = ()
    unassigned: tuple[str, ...] = ()
    """Workspaces of which the newest message says that they are assigned to nothing."""
    unpinned: tuple[TenantName, ...] = ()
    """Tenants of which the newest message says that they are not pinned."""
    clusters: tuple[EngineClusterRow, ...] = ()
    pools: tuple[EnginePool, ...] = ()
    removed_pools: tuple[PoolKey, ...] = ()
    """Pools of which the newest message says that they were removed."""


PLACEMENT_KEYS: Mapping[tuple[str, ...], type[PlacementRow]] = {
    ("workspace",): WorkspaceAssignment,
    ("workspace", "namespace"): TenantPin,
    ("id",): EngineClusterRow,
    ("engine_cluster", "ring"): EnginePool,
}
"""What a message of the topic of placement is of, by the columns of its key."""


class Unreadable(NamedTuple):
    """A message of a compiled table's topic that cannot be decoded, so nobody knows what it says of its row."""

    source: TopicPartition
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source.topic}/{self.source.partition} at {self.offset}: {self.reason}"


@dataclass(frozen=True, slots=True)
class StreamedTopics:
    """Reads the streamed topics; writes nothing."""

    brokers: Brokers
    registry: SchemaRegistry
    _unreadable: dict[str, dict[bytes | None, Unreadable]] = field(default_factory=dict)
    """By topic, and by key of the message: a newer message of the key makes up for it."""

    @property
    def unreadable(self) -> list[Unreadable]:
        """What could not be decoded when topics were last read, in order."""
        return sorted(each for found in self._unreadable.values() for each in found.values())

    def placements(self) -> Placements:
        """Where tenants and their deployments are; one that is being moved is where its deployments still are."""
        return placements_claimed(claim for claim in self._newest_objects(claim_of).values() if claim is not None)

    def fleet(self) -> dict[str, EngineInstanceRow]:
        """The engine instances by id. Raises Retry if the brokers do not answer, Poison if a row is not ours."""
        rows = (decode_record(self.registry, message.value) for message in self._messages(FLEET) if message.value)
        return {row["id"]: row_of(EngineInstanceRow, row) for row in rows}

    def placement(self) -> PlacementTopic:
        """What the topic of placement holds. Raises Retry if the brokers do not answer, Poison if a row is not ours."""
        newest: dict[tuple[tuple[str, Any], ...], dict[str, Any] | None] = {}
        for message in self._messages(PLACEMENT):
            key = tuple(decode_record(self.registry, message.key).items())
            newest[key] = decode_record(self.registry, message.value) if message.value else None
        rows, gone = defaultdict[type, list[Any]](list), defaultdict[type, list[tuple[Any, ...]]](list)
        for key, row in newest.items():
            columns, values = zip(*key, strict=True)
            if (kind := PLACEMENT_KEYS.get(columns)) is None:
                raise Poison(f"{PLACEMENT}: no row is known by {', '.join(columns)}")
            if row is None:
                gone[kind].append(values)
            else:
                rows[kind].append(row_of(kind, row))
        return PlacementTopic(
            assignments=tuple(rows[WorkspaceAssignment]),
            pins=tuple(rows[TenantPin]),
            unassigned=tuple(workspace for (workspace,) in gone[WorkspaceAssignment]),
            unpinned=tuple((workspace, namespace) for workspace, namespace in gone[TenantPin]),
            clusters=tuple(rows[EngineClusterRow]),
            pools=tuple(rows[EnginePool]),
            removed_pools=tuple((cluster, ring) for cluster, ring in gone[EnginePool]),
        )

    def engine_digests(self) -> dict[Key, str]:
        """What each key of the engine clusters' topics stands for."""
        return self._newest_objects(lambda row: f"{row.desired} {row.digest}")

    def status_digests(self, workspace: str) -> dict[Key, str]:
        """What each key of a workspace's topic stands for."""
        return self._newest(workspace_topic(workspace), WorkspaceResource, lambda row: row.digest)

    def child_digests(self, workspace: str) -> dict[Key, str]:
        """What each key of a workspace's topic of child objects stands for."""
        return self._newest(objects_topic(workspace), WorkspaceObject, lambda row: f"{row.desired} {row.digest}")

    def claim_contents(self) -> dict[Key, str]:
        """What each key of the topic of pending claims stands for."""
        return self._newest(PROVISIONING, PendingClaim, _claim_content)

    def unknown_objects(self, stored: Mapping[Key, str]) -> dict[Key, EngineResource]:
        """Keys of the engine clusters' topics that are not those of ``stored`` rows."""
        return _unknown_only(self._newest_objects(lambda row: None if row.identity in stored else row))

    def unknown_statuses(self, workspace: str, stored: Mapping[Key, str]) -> dict[Key, WorkspaceResource]:
        """Keys of a workspace's topic that are not those of ``stored`` rows."""
        topic = workspace_topic(workspace)
        return _unknown_only(self._newest(topic, WorkspaceResource, lambda row: None if key_of(row) in stored else row))

    def unknown_children(self, workspace: str, stored: Mapping[Key, str]) -> dict[Key, WorkspaceObject]:
        """Keys of a workspace's topic of child objects that are not those of ``stored`` rows."""
        topic = objects_topic(workspace)
        return _unknown_only(self._newest(topic, WorkspaceObject, lambda row: None if key_of(row) in stored else row))

    def unknown_claims(self, stored: Mapping[Key, str]) -> dict[Key, PendingClaim]:
        """Keys of the topic of pending claims that are not those of ``stored`` rows."""
        return _unknown_only(
            self._newest(PROVISIONING, PendingClaim, lambda row: None if row.identity in stored else row)
        )

    def _newest_objects(self, keep: Callable[[EngineResource], Value]) -> dict[Key, Value]:
        """What ``keep`` makes of the newest row of each key of all engine clusters, whose topics share no key."""
        newest: dict[Key, Value] = {}
        for cluster in sorted({row.engine_cluster for row in self.fleet().values()}):
            newest |= self._newest(engine_topic(cluster), EngineResource, keep)
        return newest

    def _newest(self, topic: str, kind: type[Row], keep: Callable[[Row], Value]) -> dict[Key, Value]:
        """What ``keep`` makes of the newest row of each key. Raises Retry if the brokers do not answer.

        A message that cannot be decoded is passed over, and noted: then an older row counts for its key, or none.
        """
        newest: dict[Key, Value] = {}
        unreadable: dict[bytes | None, Unreadable] = {}
        for message in self._messages(topic):
            try:
                key, row = self._decoded(message, kind)
            except Poison as error:
                unreadable[message.key] = Unreadable(message.tracked.source, message.offset, one_line(error))
                continue
            unreadable.pop(message.key, None)
            if row is None:
                newest.pop(key, None)
            else:
                newest[key] = keep(row)
        self._unreadable[topic] = unreadable
        return newest

    def _messages(self, topic: str) -> Iterator[ConsumedMessage]:
        """All messages that the topic has now."""
        with PartitionReader(self.brokers, CLIENT) as reader:
            yield from reader.read_messages(reader.end_offsets(reader.partitions_of(topic)))

    def _decoded(self, message: ConsumedMessage, kind: type[Row]) -> tuple[Key, Row | None]:
        """The key, and its row; None for a deleted row, which is a tombstone or a row that says so."""
        if message.value is None:
            first, second, third, fourth = decode_record(self.registry, message.key).values()
            return (first, second, third, fourth), None
        row = kind.from_record(decode_record(self.registry, message.value))
        return key_of(row), None if row.deleted else row


def claim_of(row: EngineResource) -> Claim | None:
    """Where a tenant is, according to ``row``; None if the row is of no tenant."""
    tenant = tenant_of(row.lane)
    uid = uid_of(row.name) if row.kind == RowKind.APPLICATION else ""
    deployment = resource_id(row.workspace, uid) if uid else None
    return Claim(row.desired == "present", tenant, row.engine_instance_id, deployment) if tenant is not None else None


def row_of(kind: type[FleetRow], record: Mapping[str, Any]) -> FleetRow:
    """The row that was streamed as ``record``. Raises Poison if a column is missing."""
    hints = get_type_hints(kind)
    try:
        columns = {each.name: _column(record, each) for each in fields(kind)}
        times = {
            name: datetime.fromisoformat(value)
            for name, value in columns.items()
            if hints[name] is datetime or (hints[name] == datetime | None and value is not None)
        }
    except (KeyError, TypeError, ValueError) as error:
        raise Poison(f"not a row of {kind.__name__}: {error!r}") from error
    return kind(**columns | times)


def _column(record: Mapping[str, Any], column: Field[Any]) -> Any:
    """The value of a column; older rows lack columns that may have no value."""
    return record[column.name] if column.default is MISSING else record.get(column.name)


def key_of(row: EngineResource | WorkspaceResource | WorkspaceObject | PendingClaim) -> Key:
    """The primary key of ``row``."""
    if not isinstance(row, WorkspaceResource):
        return row.identity
    return (row.workspace, row.namespace, row.kind, row.name)


def engine_rows(connection: Connection) -> dict[Key, str]:
    """What each row of ``engine_resources`` stands for."""
    return _digests(connection.execute(ENGINE_ROWS))


def status_rows(connection: Connection, workspace: str) -> dict[Key, str]:
    """What each row of ``workspace_statuses`` stands for."""
    return _digests(connection.execute(STATUS_ROWS, [workspace]))


def child_rows(connection: Connection, workspace: str) -> dict[Key, str]:
    """What each row of ``workspace_objects`` stands for."""
    return _digests(connection.execute(CHILD_ROWS, [workspace]))


def claim_rows(connection: Connection) -> dict[Key, str]:
    """What each row of ``pending_claims`` stands for."""
    return _digests(connection.execute(CLAIM_ROWS))


def _claim_content(row: PendingClaim) -> str:
    return f"{row.state} {row.generation} {row.class_name} {row.provisioner} {row.parameters}"


def _digests(rows: Iterable[tuple[str, ...]]) -> dict[Key, str]:
    return {(row[0], row[1], row[2], row[3]): row[4] for row in rows}


def _unknown_only(found: Mapping[Key, Row | None]) -> dict[Key, Row]:
    return {key: row for key, row in found.items() if row is not None}
