"""The engine instances of gitops.fleet, and which of them belong to this agent's cluster. No I/O.

Written by ``fleet_follower``, read on the same event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.common.messages import FleetInstance


class Fleet:
    """The newest row of every instance, including retired ones: their ids are never used again."""

    def __init__(self, engine_cluster: str, rows: Iterable[FleetInstance] = ()) -> None:
        """``engine_cluster``: the cluster whose instances are ours."""
        self._cluster = engine_cluster
        self._rows: dict[str, FleetInstance] = {}
        self.namespaces: Mapping[str, str] = {}
        """Namespaces by instance id, of our cluster's instances that are not retired. Replaced, never changed."""
        self.store_rows(rows)

    def store_rows(self, rows: Iterable[FleetInstance]) -> bool:
        """Store newer rows, oldest first. Returns whether :attr:`namespaces` has changed."""
        for row in rows:
            if row.deleted:
                self._rows.pop(row.id, None)
            else:
                self._rows[row.id] = row
        before = self.namespaces
        self.namespaces = {row.id: row.namespace for row in self._ours() if not row.is_retired}
        return self.namespaces != before

    def knows(self, instance: str) -> bool:
        """Whether any cluster has, or had, this instance."""
        return instance in self._rows

    def is_elsewhere(self, instance: str) -> bool:
        """Whether the instance belongs to another cluster, whose agents serve it."""
        row = self._rows.get(instance)
        return row is not None and row.engine_cluster != self._cluster

    def wanted_version(self, instance: str) -> str:
        """The version that the instance was ordered with; empty: others manage its version."""
        row = self._rows.get(instance)
        return row.wanted_version if row is not None else ""

    def is_in_service(self, instance: str) -> bool:
        """Whether tenants may be on the instance. An unknown instance may have had tenants."""
        row = self._rows.get(instance)
        return row is None or row.is_in_service

    def installations(self) -> list[FleetInstance]:
        """Our cluster's instances that a provisioner installs, or had installed before they were retired.

        Retired ones come last: their number only grows.
        """
        return sorted((row for row in self._ours() if row.wanted_version), key=lambda row: (row.is_retired, row.id))

    def is_engine_namespace(self, namespace: str) -> bool:
        """Whether an instance of our cluster uses the namespace, or did: a retired one may have left Secrets."""
        return any(row.namespace == namespace for row in self._ours())

    def _ours(self) -> Iterable[FleetInstance]:
        return (row for row in self._rows.values() if row.engine_cluster == self._cluster)
