"""A database of one command's own: the planner's tables, empty, as temporary tables of one connection.

Nobody else sees them, nothing of them is streamed or kept in the write-ahead log, and they end with the connection,
however the command ends. They alone are on the search path: no statement finds a table of the database itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import Connection
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from services.common.errors import Unavailable
from services.planner.database.columns import names
from services.planner.database.connection import DatabaseConnection, connect
from services.planner.database.session import DatabaseSession
from services.planner.database.tables.metadata import METADATA
from services.planner.domain.fleet.placement.assignments import TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow
from services.planner.engines.available import ENGINES

ONLY_TEMPORARY = "SET search_path = pg_temp"
PARTITIONS = (
    "CREATE TABLE workspace_resources PARTITION OF workspace_statuses DEFAULT",
    "CREATE TABLE other_workspace_objects PARTITION OF workspace_objects DEFAULT",
)
CLUSTERS = f"""
INSERT INTO engine_clusters ({names(EngineClusterRow)})
SELECT {names(EngineClusterRow)} FROM public.engine_clusters
"""  # noqa: S608 - of constants
INSTANCES = f"""
INSERT INTO engine_instances ({names(EngineInstanceRow)})
SELECT {names(EngineInstanceRow)} FROM public.engine_instances
"""  # noqa: S608 - of constants
ASSIGNMENTS = f"""
INSERT INTO workspace_assignments ({names(WorkspaceAssignment)})
SELECT {names(WorkspaceAssignment)} FROM public.workspace_assignments
"""  # noqa: S608 - of constants
PINS = f"""
INSERT INTO tenant_pins ({names(TenantPin)})
SELECT {names(TenantPin)} FROM public.tenant_pins
"""  # noqa: S608 - of constants
PLACEMENTS = """
INSERT INTO placements (tenant_id, engine_instance_id)
SELECT id, engine_instance_id FROM public.tenants
 UNION
SELECT tenant_id, engine_instance_id FROM public.placements
    ON CONFLICT DO NOTHING
"""
DEPLOYMENT_PLACEMENTS = """
INSERT INTO deployment_placements (deployment_id, engine_instance_id)
SELECT id, engine_instance_id FROM public.deployments WHERE engine_instance_id <> ''
 UNION
SELECT deployment_id, engine_instance_id FROM public.deployment_placements
    ON CONFLICT DO NOTHING
"""
PLACED = (PLACEMENTS, DEPLOYMENT_PLACEMENTS)


class ScratchSession(DatabaseSession):
    """A planner's session on such a database. It knows the fleet, and where tenants are; nothing else."""

    def __init__(self, url: str) -> None:
        """``url``: of the database as its owner, who alone may make temporary tables in it."""
        super().__init__(url, ENGINES, connection_type=ScratchConnection)


class ScratchConnection(DatabaseConnection):
    """The one connection to it: the tables end with it."""

    _was_opened = False

    def open_connection(self) -> Connection[Any]:
        """Open it, once. Raises Unavailable if the connection was lost, and all tables with it."""
        if self._was_opened:
            raise Unavailable("the connection to the database was lost, and what was replayed with it; run it again")
        connection = connect(self.url)
        self._was_opened = True
        for statement in (ONLY_TEMPORARY, *_definitions(), CLUSTERS, INSTANCES, ASSIGNMENTS, PINS, *PLACED):
            connection.execute(statement.encode())
        return connection

    def end_transaction(self) -> None:
        """End an open transaction. The connection stays, with all that was committed before."""
        if self._connection is not None and not self._connection.closed:
            try:
                self._connection.rollback()
            except psycopg.Error:  # it is lost, and so is what was committed
                self.disconnect()


def _definitions() -> Iterator[str]:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in METADATA.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            yield str(CreateIndex(index).compile(dialect=dialect))
    yield from PARTITIONS
