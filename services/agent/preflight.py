"""What must be there before an agent starts: brokers and the topic, the API server, and permission for every call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from services.agent.objects.managed_kinds import KINDS, VERBS
from services.common.errors import InvalidConfiguration
from services.common.kafka import Brokers, Topic, count_partitions
from services.common.kubernetes import Access, connect, require_access


def check_topic(brokers: Brokers, topic: Topic) -> None:
    """Raises as :func:`count_partitions`, and InvalidConfiguration if the topic is not as declared."""
    partitions = count_partitions(brokers, [topic.name])[topic.name]
    if partitions != topic.partitions:
        raise InvalidConfiguration(
            f"topic {topic.name} has {partitions} partitions, topics.yaml says {topic.partitions}; "
            "run 'gitopsctl topics apply'"
        )


def check_cluster(kubeconfig: Path | None, namespaces: Iterable[str], timeout_seconds: float) -> None:
    """Raises NoPermission naming what is missing, InvalidConfiguration without Argo CD's CRDs, Unavailable."""
    asyncio.run(_check_cluster(kubeconfig, tuple(namespaces), timeout_seconds))


async def _check_cluster(kubeconfig: Path | None, namespaces: tuple[str, ...], timeout_seconds: float) -> None:
    async with await connect(kubeconfig) as client:
        for namespace in namespaces:
            for access in accesses(namespace):
                await require_access(client, access, timeout_seconds)


def accesses(namespace: str) -> list[Access]:
    """What an agent does in an engine namespace."""
    return [
        Access(
            kind.resource,
            VERBS,
            remedy="grant it to the agent's account by a Role",
            not_served="are Argo CD's CRDs installed?",
            namespace=namespace,
        )
        for kind in KINDS.values()
    ]
