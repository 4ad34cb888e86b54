"""Somebody writes on the way between watcher and agent: a login goes nowhere but to where its tenant says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2
import psycopg
import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.stack.identities import ACCOUNTS_NAMESPACE
from services.cli import sending
from services.cli.sealing import sealed_rows
from services.cli.sealing.sealed_rows import SealedRow
from services.common.messages import Command, ResourceChanged
from services.common.settings import KafkaSettings
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from tests.e2e.api import Api

VICTIM = "https://127.0.0.1:9/private.git"
"""Nobody listens there."""
FORGED = "f0" * 32
"""Digest of the forged row."""
DEADLINE_SECONDS = 120


@dataclass
class Attacker:
    """A server, and how often somebody has connected to it."""

    url: str = ""
    connections: int = 0


@pytest.fixture
async def attacker() -> AsyncIterator[Attacker]:
    """A git server of somebody else's."""
    there = Attacker()

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there.connections += 1
        writer.close()

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    async with server:
        there.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/app.git"
        yield there


async def victim(api: Api) -> None:
    """A credential that was tried on its own server, in vain."""
    await api.secret("login", "repository-credential", username="ann", password="PLANTED-PASSWORD")
    await api.credential(repository=VICTIM)
    await api.until_credential("InvalidCredentials")


AGENTS = ("agent-1", "agent-2")
REFUSED = 'gitops_checks_total{kind="RepositorySecret",reason="SecretUseRefused"}'


def refusals(stack: HostedStack) -> int:
    """How often agents have refused to use a login."""
    ports = {item["name"]: item["ports"] for item in stack.processes()}
    texts = [httpx2.get(f"http://127.0.0.1:{ports[agent]['metrics']}/metrics").text for agent in AGENTS]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(REFUSED)]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


async def test_engine_row_when_it_names_another_url_then_the_login_is_not_sent_there_and_others_go_on(
    stack: HostedStack, api: Api, other_api: Api, attacker: Attacker
) -> None:
    """As Connect, Kafka or the owner of the database could."""
    await victim(api)
    url = stack.environment["DATABASE_OWNER_URL"]

    def forge() -> None:
        with psycopg.connect(url) as owner:
            (text,) = owner.execute(
                "SELECT manifest FROM engine_resources WHERE tenant_namespace = %s AND kind = 'RepositorySecret'",
                [api.namespace],
            ).fetchone() or ("",)
            manifest = json.loads(text)
            manifest["recipe"]["repository"] = attacker.url
            owner.execute(
                "UPDATE engine_resources SET manifest = %s, digest = %s"
                " WHERE tenant_namespace = %s AND kind = 'RepositorySecret'",
                [json.dumps(manifest), FORGED, api.namespace],
            )

    before = await asyncio.to_thread(refusals, stack)
    await asyncio.to_thread(forge)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await asyncio.to_thread(refusals, stack) == before:  # noqa: ASYNC110 - a counter tells nobody
            await asyncio.sleep(0.1)
    await victim(other_api)
    assert attacker.connections == 0


async def test_engine_row_when_a_project_leads_to_where_the_sealing_keys_are_then_it_stays_as_it_was(
    stack: HostedStack, api: Api, projects: Mirror
) -> None:
    """With it an Application could put a pod beside them; ``tests/argocd/test_rights.py`` has one made all the same."""
    await victim(api)
    url, platforms = stack.environment["DATABASE_OWNER_URL"], {"name": "in-cluster", "namespace": ACCOUNTS_NAMESPACE}

    def forge() -> tuple[str, str]:
        with psycopg.connect(url) as owner:
            namespace, name, text = owner.execute(
                "SELECT namespace, name, manifest FROM engine_resources"
                " WHERE tenant_namespace = %s AND kind = 'AppProject'",
                [api.namespace],
            ).fetchone() or ("", "", "")
            manifest = json.loads(text)
            manifest["spec"]["destinations"].append(platforms)
            owner.execute(
                "UPDATE engine_resources SET manifest = %s, digest = %s"
                " WHERE tenant_namespace = %s AND kind = 'AppProject'",
                [json.dumps(manifest), FORGED, api.namespace],
            )
        return namespace, name

    namespace, name = await asyncio.to_thread(forge)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await asyncio.to_thread(refused, stack, name):  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.1)
    assert platforms not in projects.objects[namespace, name]["spec"]["destinations"]


def refused(stack: HostedStack, name: str) -> list[str]:
    """What agents have logged of an object that leads to the platform."""
    lines = [line for agent in AGENTS for line in stack.state.log(agent).read_text().splitlines()]
    return [line for line in lines if name in line and "the namespace is the platform's" in line]


async def test_command_when_it_says_another_url_of_the_tenants_credential_then_the_condition_says_why_it_is_not_tried(
    stack: HostedStack, api: Api, attacker: Attacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kafka could: with the tenant's own sealed Secret and its own binding, which is for another URL."""
    await victim(api)
    rows = await asyncio.to_thread(sealed_rows.stored_rows, stack.environment["DATABASE_OWNER_URL"])
    (row,) = [row for row in rows if row.namespace == api.namespace and not row.is_secret]
    for name, value in stack.environment.items():
        monkeypatch.setenv(name, value)
    await asyncio.to_thread(sending.send_commands, KafkaSettings(), [forged(row, attacker.url)])
    condition = await api.until_credential("SecretUseRefused")
    assert "it was given for another URL" in condition["message"]
    assert attacker.connections == 0


def forged(row: SealedRow, url: str) -> Command:
    """A change of the tenant's credential that the tenant has not made."""
    event = ResourceChanged(
        api_version=REPOSITORY_CREDENTIAL.api_version,
        kind=row.kind,
        name=row.name,
        uid=row.uid,
        resource_version=str(int(row.resource_version) + 1),
        generation=row.generation,
        epoch=row.epoch,
        deleting=False,
        finalizers=(),
        actor="attacker",
        spec=json.dumps({"repository": url, "secret": row.refers_to}),
        created_at=row.created_at,
        secret_type=row.secret_type,
        secret_binding=row.secret_binding,
    )
    return Command(
        row.source, row.workspace, row.namespace, row.seen_at, event, row.namespace_uid, row.namespace_created_at
    )
