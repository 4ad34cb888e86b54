"""The engine instances that gitops.fleet tells of, and which of them are of this agent's cluster. No I/O.

Written by ``fleet_follower``, read by whoever needs to know what there is, on one event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.common.messages import FleetInstance


class Fleet:
    """The newest row of every instance, also of those that are retired: their ids are never given out again."""

    def __init__(self, engine_cluster: str, rows: Iterable[FleetInstance] = ()) -> None:
        """``engine_cluster``: whose instances are ours."""
        self._cluster = engine_cluster
        self._rows: dict[str, FleetInstance] = {}
        self.namespaces: Mapping[str, str] = {}
        """By instance id, of our cluster's instances that are not retired. Never changed, but replaced."""
        self.store_rows(rows)

    def store_rows(self, rows: Iterable[FleetInstance]) -> bool:
        """These rows are news, the oldest first; returns whether :attr:`namespaces` is another thereby."""
        for row in rows:
            if row.deleted:
                self._rows.pop(row.id, None)
            else:
                self._rows[row.id] = row
        before = self.namespaces
        self.namespaces = {row.id: row.namespace for row in self._ours() if not row.is_retired}
        return self.namespaces != before

    def knows(self, instance: str) -> bool:
        """Whether there is, or was, such an instance in any cluster."""
        return instance in self._rows

    def is_elsewhere(self, instance: str) -> bool:
        """Whether it is another cluster's, whose agents serve it."""
        row = self._rows.get(instance)
        return row is not None and row.engine_cluster != self._cluster

    def wanted_version(self, instance: str) -> str:
        """That of its engine that it was ordered with; empty: somebody else looks after what it runs."""
        row = self._rows.get(instance)
        return row.wanted_version if row is not None else ""

    def is_in_service(self, instance: str) -> bool:
        """Whether tenants may be on it. One that is not known may have been before its row was."""
        row = self._rows.get(instance)
        return row is None or row.is_in_service

    def installations(self) -> list[FleetInstance]:
        """Instances of our cluster whose engine a provisioner installs, or has installed until they were retired.

        Those come last: there are ever more of them.
        """
        return sorted((row for row in self._ours() if row.wanted_version), key=lambda row: (row.is_retired, row.id))

    def is_engine_namespace(self, namespace: str) -> bool:
        """Whether an instance of our cluster is in it, or was: one that is retired may have left Secrets there."""
        return any(row.namespace == namespace for row in self._ours())

    def _ours(self) -> Iterable[FleetInstance]:
        return (row for row in self._rows.values() if row.engine_cluster == self._cluster)
