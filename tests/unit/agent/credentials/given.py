"""Rows, sealed Secrets and servers of strangers, for the tests of credentials."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from devstack.stack.pki import Pki
from services.agent.credentials.credential_checker import CredentialChecker, CredentialSettings
from services.common.addresses import AddressPolicy
from services.common.messages import EngineResource
from services.common.sealing import OpeningKeys, SealingKeys, SecretContext, generate_key, write_keys
from services.common.secret_use import SecretUse
from services.kinds.managed_environment.validation import cluster_use
from services.kinds.repository_credential.validation import repository_use
from tests.unit.fake_clock import EPOCH, FakeClock

WORKSPACE, TENANT = "local", "team-a"
ENVIRONMENT_TYPE = "managed-gitops.redhat.com/managed-environment"
CREDENTIAL_TYPE = "managed-gitops.redhat.com/repository-credential"
TOKEN = "PLANTED-TOKEN"
UID = "0f1e2d3c-0000-4000-8000-000000000001"
LOCAL = AddressPolicy.parse("127.0.0.0/8")
SETTINGS = CredentialSettings(
    known_hosts=None, git_authorities=None, token_lifetime=timedelta(hours=24), checks=16, checks_per_tenant=2
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Keys:
    """A pair of keys in files."""

    folder: Path

    def __post_init__(self) -> None:
        key = generate_key()
        keys = {str(key.kid): key}
        write_keys(self.folder / "public.json", keys, private=False)
        write_keys(self.folder / "private.json", keys, private=True)
        self.sealing = SealingKeys.load(self.folder / "public.json")
        self.opening = OpeningKeys.load(self.folder / "private.json")

    def seal(self, values: Mapping[str, str | bytes], context: SecretContext) -> str:
        return self.sealing.seal_secret(_encoded(values), context)

    def bind(self, values: Mapping[str, str | bytes], use: SecretUse, context: SecretContext) -> str:
        return self.sealing.seal_binding(_encoded(values), use, context)


def _encoded(values: Mapping[str, str | bytes]) -> dict[str, str]:
    data = {name: value.encode() if isinstance(value, str) else value for name, value in values.items()}
    return {name: base64.b64encode(value).decode() for name, value in data.items()}


@dataclass
class Given:
    """An agent's checker, and rows for them."""

    keys: Keys
    policy: AddressPolicy = LOCAL
    settings: CredentialSettings = SETTINGS
    clock: FakeClock = field(default_factory=FakeClock)

    def checker(self) -> CredentialChecker:
        return CredentialChecker(self.keys.opening, self.policy, self.settings, self.clock)

    def cluster_row(self, api_url: str, values: Mapping[str, str | bytes], **recipe: Any) -> EngineResource:
        context = SecretContext(WORKSPACE, TENANT, "kube", ENVIRONMENT_TYPE)
        body = {
            "uid": UID,
            "apiURL": api_url,
            "server": f"{api_url}?managedEnvironment=e1",
            "insecure": False,
            "createServiceAccount": False,
            "namespaces": [],
            "clusterResources": False,
            "project": "app-project-a",
        } | recipe
        secret = {"name": "kube", "version": "1", "sealed": self.keys.seal(values, context)}
        secret["binding"] = self.keys.bind(values, self.use_of_cluster(body), context)
        return _row("ClusterSecret", "managed-env-e1", "cluster", {"secret": secret} | body)

    def use_of_cluster(self, recipe: Mapping[str, Any]) -> SecretUse:
        """What such a recipe uses its Secret for."""
        return cluster_use(
            recipe["apiURL"],
            recipe["namespaces"],
            skips_tls_verification=recipe["insecure"],
            creates_account=recipe["createServiceAccount"],
            cluster_resources=recipe["clusterResources"],
        )

    def recipe_of(self, row: EngineResource) -> dict[str, Any]:
        """What ``row`` asks for."""
        recipe: dict[str, Any] = json.loads(row.manifest)["recipe"]
        return recipe

    def with_recipe(self, row: EngineResource, **changed: Any) -> EngineResource:
        """``row``, asking for something else; what its Secret may be used for stays."""
        manifest = json.loads(row.manifest)
        return replace(row, manifest=json.dumps(manifest | {"recipe": manifest["recipe"] | changed}))

    def repository_row(self, url: str, values: Mapping[str, str | bytes]) -> EngineResource:
        context = SecretContext(WORKSPACE, TENANT, "login", CREDENTIAL_TYPE)
        body = {
            "uid": UID,
            "repository": url,
            "project": "app-project-a",
            "secret": {
                "name": "login",
                "version": "1",
                "sealed": self.keys.seal(values, context),
                "binding": self.keys.bind(values, repository_use(url), context),
            },
        }
        return _row("RepositorySecret", "repo-cred-r1", "repository", body)


def _row(kind: str, name: str, secret_type: str, recipe: dict[str, Any]) -> EngineResource:
    metadata = {
        "name": name,
        "namespace": "argocd",
        "labels": {"argocd.argoproj.io/secret-type": secret_type, "databaseID": name[-2:]},
    }
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "recipe": recipe}
    return EngineResource(
        engine_instance_id="argocd",
        kind=kind,
        namespace="argocd",
        name=name,
        workspace=WORKSPACE,
        tenant_namespace=TENANT,
        lane="app-project-a",
        wave=0,
        desired="present",
        manifest=json.dumps(manifest),
        digest="d1",
        trace_id="",
        seen_at=EPOCH,
        deleted=False,
    )


def kubeconfig(server: str, *, authority: bytes | None = None, token: str | None = TOKEN, **changed: Any) -> str:
    """A kubeconfig as kubectl writes it; ``changed``: top-level fields that differ."""
    cluster: dict[str, Any] = {"server": server}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token} if token is not None else {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        | changed
    )


def data_of(secret: Mapping[str, Any]) -> dict[str, str]:
    """A Secret's data in clear."""
    return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}


@dataclass
class Stranger:
    """An https server of somebody else."""

    url: str
    authority: bytes
    requests: list[web.Request]


@asynccontextmanager
async def stranger(folder: Path, handler: Handler) -> AsyncIterator[Stranger]:
    """Serve ``handler`` by https on the loopback."""
    pki = Pki(folder)
    pki.ensure("127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki.server_certificate, pki.server_key)
    requests: list[web.Request] = []

    async def record(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return await handler(request)

    runner = web.ServerRunner(web.Server(record), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield Stranger(f"https://127.0.0.1:{port}", pki.authority.read_bytes(), requests)
    finally:
        await runner.cleanup()


def answers(body: Any, status: int = 200, content_type: str = "application/json", **headers: str) -> Handler:
    """A handler that always says the same."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=text, status=status, content_type=content_type, headers=headers)

    return handle


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
