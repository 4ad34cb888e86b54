"""Checks whether the schema registry still has our schemas, and sets a gauge.

Otherwise the loss of a registry would be noticed only by the next process that starts.
"""

from __future__ import annotations

import threading

import structlog

from services.common.avro.schema_registry import SchemaRegistry
from services.common.errors import GitOpsError
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 15.0


class RegistryCheck:
    """Asks the registry again and again on its own thread, so that a slow answer delays nobody."""

    def __init__(self, service: str, registry: SchemaRegistry) -> None:
        self._service, self._registry = service, registry
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registry check", daemon=True)

    def start(self) -> None:
        """Ask repeatedly until :meth:`stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Return at once. A running request ends with the process."""
        self._stopping.set()

    def check_registry(self) -> None:
        """Ask once."""
        lost = False
        try:
            self._registry.require_own_schemas()
        except GitOpsError as error:
            lost = True
            log.warning("schemas not found where they were", error=str(error))
        metrics.REGISTRY_LOST.labels(self._service).set(lost)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.check_registry()
            self._stopping.wait(INTERVAL_SECONDS)
