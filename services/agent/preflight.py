"""What must be there before an agent starts: brokers and the topic, the API server, and permission for every call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from services.agent.kinds import KINDS, VERBS
from services.common.backoff import Backoff
from services.common.errors import InvalidConfiguration, NoPermission, Retry, Wait
from services.common.kafka import Brokers, Topic, client_properties
from services.common.kube import KubeClient, NotFound, Refused, Resource, connect
from services.common.kube.access import ACCESS_REVIEW, is_allowed

BROKER_SECONDS = 5.0
DOUBT_SECONDS = 15.0
"""An API server answers 403 in the first moments after its start, before it has loaded who may do what."""
FORBIDDEN = 403


def check_topic(brokers: Brokers, topic: Topic) -> None:
    """Raises Retry if no broker answers, InvalidConfiguration if the topic is not as declared."""
    admin = AdminClient(client_properties(brokers) | {"log_level": 0})
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


def check_cluster(kubeconfig: Path | None, namespaces: Iterable[str], patience: float) -> None:
    """Raises NoPermission naming what is missing, Retry if the API server does not answer or lacks Argo CD's CRDs.

    ``patience``: how many seconds the start may take at most.
    """
    asyncio.run(_check_cluster(kubeconfig, tuple(namespaces), min(DOUBT_SECONDS, patience)))


async def _check_cluster(kubeconfig: Path | None, namespaces: tuple[str, ...], doubt: float) -> None:
    async with await connect(kubeconfig) as client:
        for namespace in namespaces:
            await believed(partial(check_namespace, client, namespace), doubt)


async def believed(check: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Call ``check`` until it finds nothing missing; what is still missing after ``seconds`` is raised."""
    deadline, delays = time.monotonic() + seconds, Backoff(first=0.25, limit=1)
    while True:
        try:
            return await check()
        except NoPermission:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(delays.next())


async def check_namespace(client: KubeClient, namespace: str) -> None:
    """The same, of one engine namespace."""
    for kind in KINDS.values():
        await _check_served(client, kind.resource, namespace)
        await _check_rights(client, kind.resource, namespace)


async def _check_served(client: KubeClient, resource: Resource, namespace: str) -> None:
    try:
        async for _ in client.pages(resource, namespace, limit=1):
            break
    except Refused as error:
        if error.status != FORBIDDEN:
            raise Retry(str(error)) from error
        raise _no_permission("list", resource, namespace) from error
    except NotFound as error:
        raise Retry(f"{_name(resource)} is not served; are Argo CD's CRDs installed?") from error
    except Wait as error:
        raise Retry(str(error)) from error


async def _check_rights(client: KubeClient, resource: Resource, namespace: str) -> None:
    for verb in VERBS:
        try:
            allowed = await is_allowed(client, verb, resource, namespace=namespace)
        except Refused as error:
            if error.status != FORBIDDEN:
                raise Retry(str(error)) from error
            raise NoPermission(
                f"may not create {_name(ACCESS_REVIEW)}, so it cannot be told what else is missing; "
                "bind the agent's account to the ClusterRole system:basic-user"
            ) from error
        except Wait as error:
            raise Retry(str(error)) from error
        if not allowed:
            raise _no_permission(verb, resource, namespace)


def _no_permission(verb: str, resource: Resource, namespace: str) -> NoPermission:
    return NoPermission(
        f"may not {verb} {_name(resource)} in namespace {namespace}; grant it to the agent's account by a Role"
    )


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
