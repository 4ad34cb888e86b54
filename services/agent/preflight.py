"""What must be there before an agent starts: brokers and the topic, the API server, and permission for every call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from services.agent.kinds import KINDS
from services.common.errors import InvalidConfiguration, NoPermission, Retry, Wait
from services.common.kafka import Topic
from services.common.kube import KubeClient, NotFound, Refused, Resource, connect
from services.common.kube.access import is_allowed

VERBS = ("list", "watch", "get", "create", "patch", "delete")
BROKER_SECONDS = 5.0
FORBIDDEN = 403


def check_topic(bootstrap_servers: str, topic: Topic) -> None:
    """Raises Retry if no broker answers, InvalidConfiguration if the topic is not as declared."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        found = admin.list_topics(topic.name, timeout=BROKER_SECONDS).topics[topic.name]
    except KafkaException as error:
        raise Retry(str(error.args[0])) from error
    partitions = len(found.partitions)
    if found.error is not None or partitions != topic.partitions:
        raise InvalidConfiguration(
            f"topic {topic.name} has {partitions} partitions, compose/topics.yaml says {topic.partitions}; "
            "run 'gitopsctl topics apply'"
        )


def check_cluster(kubeconfig: Path | None, namespaces: Iterable[str]) -> None:
    """Raises NoPermission naming what is missing, Retry if the API server does not answer or lacks Argo CD's CRDs."""
    asyncio.run(_check_cluster(kubeconfig, tuple(namespaces)))


async def _check_cluster(kubeconfig: Path | None, namespaces: tuple[str, ...]) -> None:
    async with await connect(kubeconfig) as client:
        for namespace in namespaces:
            for kind in KINDS.values():
                await _check_kind(client, kind.resource, namespace)


async def _check_kind(client: KubeClient, resource: Resource, namespace: str) -> None:
    try:
        async for _ in client.pages(resource, namespace, limit=1):
            break
        for verb in VERBS:
            if not await is_allowed(client, verb, resource, namespace=namespace):
                raise _no_permission(verb, resource, namespace)
    except Refused as error:
        if error.status != FORBIDDEN:
            raise Retry(str(error)) from error
        raise _no_permission("list", resource, namespace) from error
    except NotFound as error:
        raise Retry(f"{resource.plural}.{resource.group} is not served; are Argo CD's CRDs installed?") from error
    except Wait as error:
        raise Retry(str(error)) from error


def _no_permission(verb: str, resource: Resource, namespace: str) -> NoPermission:
    what = f"{resource.plural}.{resource.group}"
    return NoPermission(f"may not {verb} {what} in namespace {namespace}; grant it to the agent's account by a Role")
