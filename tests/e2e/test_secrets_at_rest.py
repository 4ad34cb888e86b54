"""Secrets are sealed end to end: what users plant is nowhere in clear but in the API server, which is theirs."""

from __future__ import annotations

import base64
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zipfile import ZipFile

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from psycopg import sql

from devstack.harness.hosted import HostedStack
from services.cli.backups.archive import write_archive
from tests.e2e.api import Api, Cluster
from tests.e2e.test_telemetry import get

# etcd is the API server's own store. The state folder's own credentials are not secrets of tenants.
NOT_OURS = frozenset({"etcd", "remote-etcd"})


@pytest.fixture
async def planted(api: Api, cluster: Cluster) -> list[str]:
    """Secrets of every sort, taken up by every component: good ones and ones that fail."""
    marks = {name: f"planted-{name}-{secrets.token_hex(12)}" for name in ("token", "password", "username", "key")}
    await api.secret("good", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment("good", apiURL=cluster.url, credentialsSecret="good")
    await api.secret("bad", "managed-environment", kubeconfig=cluster.kubeconfig(token=marks["token"]))
    await api.environment("bad", apiURL=cluster.url, credentialsSecret="bad")
    await api.secret("odd", "managed-environment", kubeconfig=f"{{ {marks['key']}: [")
    await api.environment("odd", apiURL=cluster.url, credentialsSecret="odd")
    await api.secret("login", "repository-credential", username=marks["username"], password=marks["password"])
    await api.credential(repository="https://127.0.0.1:9/private.git")
    await api.secret("key", "repository-credential", sshPrivateKey=f"-----BEGIN {marks['key']}")
    await api.credential("key", repository="ssh://git@127.0.0.1:9/private.git", secret="key")
    await api.until_connection("Succeeded", "good")
    await api.until_connection("UnableToValidateClusterCredentials", "bad")
    await api.until_connection("UnableToParseKubeconfigData", "odd")
    await api.until_credential("InvalidCredentials")
    await api.until_credential("InvalidCredentials", "key")
    return [*marks.values()]


async def test_secrets_when_planted_then_no_byte_of_them_is_in_clear_anywhere(
    stack: HostedStack, planted: list[str]
) -> None:
    needles = [form for mark in planted for form in forms(mark)]
    assert planted
    looked_at = 0
    for place, content in everything(stack):
        looked_at += 1
        found = [needle for needle in needles if needle in content]
        assert not found, f"{place} holds {found}"
    assert looked_at > 100


def forms(mark: str) -> Iterator[bytes]:
    """The text itself, and its base64 at any of the three alignments, less what depends on the neighbours."""
    yield mark.encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + mark.encode())
        yield encoded[4 if shift else 0 : -4]


def everything(stack: HostedStack) -> Iterator[tuple[str, bytes]]:
    """All bytes at rest; because the log and the database compress, all messages and rows; and all metrics."""
    for path in files(stack.state.root):
        with suppress(FileNotFoundError):  # the stack is at work: what goes between listing and reading is gone
            yield str(path), path.read_bytes()
    yield from messages(stack.environment["KAFKA_BOOTSTRAP_SERVERS"])
    yield from rows(stack.environment["DATABASE_OWNER_URL"])
    yield from backup(stack)
    yield from metrics(stack)


def files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):  # which passes over folders that go meanwhile
        for path in (Path(folder, name) for name in sorted(names)):
            if path.is_file() and path.relative_to(root).parts[0] not in NOT_OURS:
                yield path


def messages(brokers: str) -> Iterator[tuple[str, bytes]]:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "at-rest", "enable.partition.eof": True})
    topics = consumer.list_topics(timeout=10).topics
    partitions = [TopicPartition(name, number, 0) for name, topic in topics.items() for number in topic.partitions]
    consumer.assign(partitions)
    unread = {(each.topic, each.partition) for each in partitions}
    try:
        while unread:
            for message in consumer.consume(500, timeout=1):
                if (error := message.error()) is not None:
                    assert not error.fatal(), error
                    if error.code() == KafkaError._PARTITION_EOF:  # told again after whatever is written meanwhile
                        unread.discard((message.topic(), message.partition()))
                    continue
                headers = repr(message.headers()).encode()
                content = b"\n".join(filter(None, (message.key(), message.value(), headers)))
                yield f"{message.topic()}/{message.partition()}/{message.offset()}", content
    finally:
        consumer.close()


def rows(url: str) -> Iterator[tuple[str, bytes]]:
    with psycopg.connect(url) as owner:
        tables = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            query = sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(table))
            for (row,) in owner.execute(query):
                yield table, row.encode()


def backup(stack: HostedStack) -> Iterator[tuple[str, bytes]]:
    """A backup made now, unpacked."""
    archive = io.BytesIO()
    with psycopg.connect(stack.environment["DATABASE_BACKUP_URL"]) as reader:
        write_archive(reader, archive)
    with ZipFile(archive) as saved:
        for name in saved.namelist():
            yield f"backup: {name}", saved.read(name)


def metrics(stack: HostedStack) -> Iterator[tuple[str, bytes]]:
    for service in [item["name"] for item in stack.processes() if "metrics" in item["ports"]]:
        served = get(stack, service, "/metrics").content
        assert b"# HELP gitops_" in served
        yield f"/metrics of {service}", served
