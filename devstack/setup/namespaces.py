"""The namespaces in which the stack's engine instances live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from services.common.errors import GitOpsError, Unavailable
from services.common.kubernetes import NAMESPACE, AlreadyExists, connect
from services.common.settings import parse_engine_namespaces

FIELD_MANAGER = "gitopsctl"


def create(kubeconfig: Path, engine_namespaces: str) -> None:
    """Create those that do not exist, as written in ``ENGINE_NAMESPACES``. Raises Unavailable."""
    asyncio.run(_create(kubeconfig, parse_engine_namespaces(engine_namespaces).values()))


async def _create(kubeconfig: Path, names: Iterable[str]) -> None:
    async with await connect(kubeconfig) as kube:
        for name in names:
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                with suppress(AlreadyExists):
                    await kube.create_object(NAMESPACE, manifest, field_manager=FIELD_MANAGER)
            except GitOpsError as error:
                raise Unavailable(f"cannot create namespace {name}: {error}") from error
