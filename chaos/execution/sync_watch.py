"""Watches Argo CD's Applications: the only witness of a run that took place twice, and of all that was for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaos.record import Gap, Record, version_of
from services.common.kubernetes import (
    APPLICATION,
    Changed,
    Deleted,
    KubeClient,
    ListStarted,
    Manifest,
    Reflection,
    Seen,
    reflect,
)


async def watch_syncs(kube: KubeClient, engine_namespaces: Sequence[str], record: Record) -> None:
    """For ever. What happens between two lists, while the API server is away, is not seen: it is a gap."""
    async with asyncio.TaskGroup() as group:
        for namespace in engine_namespaces:
            group.create_task(_watch(kube, namespace, record))


async def _watch(kube: KubeClient, namespace: str, record: Record) -> None:
    witness = Witness(record)
    async for event in reflect(kube, APPLICATION, namespace):
        witness.note(event)


class Witness:
    """Of one engine namespace."""

    def __init__(self, record: Record) -> None:
        self._record, self._newest = record, 0
        self._gap: Gap | None = None
        self._has_listed = False

    def note(self, event: Reflection) -> None:
        """What a list or the watch has shown."""
        match event:
            case ListStarted():
                if self._has_listed and self._gap is None:
                    self._gap = Gap(self._newest)
                    self._record.witness_gaps.append(self._gap)
                self._has_listed = True
            case Seen(application):
                self._look_at(application)
            case Changed(application) | Deleted(application):
                self._look_at(application)
                self._end_gap(version_of(application))

    def _look_at(self, application: Manifest) -> None:
        self._newest = max(self._newest, version_of(application))
        self._record.starts.note(application)
        self._record.history.note(application)

    def _end_gap(self, version: int) -> None:
        """The watch goes on where the list was made: whatever was missed is older than what it shows first."""
        if self._gap is not None:
            self._gap.until, self._gap = version, None
