"""Watches Argo CD's Applications for syncs that start: the only witness of a run that took place twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaos.api import RUN_INFO
from chaos.record import Record
from services.common.kubernetes import APPLICATION, Changed, KubeClient, ListStarted, Manifest, Seen, reflect


async def watch_syncs(kube: KubeClient, engine_namespaces: Sequence[str], record: Record) -> None:
    """For ever. What happens between two lists, while the API server is away, is not seen."""
    async with asyncio.TaskGroup() as group:
        for namespace in engine_namespaces:
            group.create_task(_watch(kube, namespace, record))


async def _watch(kube: KubeClient, namespace: str, record: Record) -> None:
    lists = 0
    async for event in reflect(kube, APPLICATION, namespace):
        match event:
            case ListStarted():
                lists += 1
                record.witness_gaps += lists > 1
            case Seen(application) | Changed(application):
                note_start(application, record)


def note_start(application: Manifest, record: Record) -> None:
    """The sync that the Application shows, if it is one of a run."""
    state = (application.get("status") or {}).get("operationState") or {}
    info = (state.get("operation") or {}).get("info") or []
    for run in (entry["value"] for entry in info if entry["name"] == RUN_INFO):
        record.starts[run].add(state["startedAt"])
