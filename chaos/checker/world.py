"""All that there is, as the API server lists it, and where the fleet has whom."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg
import yaml

from chaos.api import (
    ACCOUNT,
    ACCOUNT_NAMESPACE,
    ACCOUNT_PREFIX,
    APP_ENVIRONMENT,
    BINDING,
    CLAIM,
    CREDENTIAL,
    DEPLOYMENT,
    ENVIRONMENT,
    HEARTBEAT,
    KUBECONFIG_TYPE,
    LOGIN_TYPE,
    PROMOTION_RUN,
    SECRET_TYPE,
    SNAPSHOT,
    SPACE_REQUEST,
    SYNC_RUN,
    TARGET,
    TARGET_CLASS,
)
from services.common.errors import Retry
from services.common.kubernetes import APP_PROJECT, APPLICATION, NAMESPACE, SECRET, ApiResource, KubeClient, Manifest

PLACEMENTS = """
SELECT tenants.namespace, engine_instances.namespace
  FROM tenants JOIN engine_instances ON engine_instances.id = engine_instance_id
 WHERE former_since = 0
"""
MOVES = "SELECT namespace, step FROM moves ORDER BY ordered_at, id"
JWT_PARTS = 3
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checker has to be told of what is outside of the clusters."""

    prefix: str
    """Of tenants' namespaces."""
    engine_namespaces: tuple[str, ...]
    tokens: frozenset[str]
    """That the cluster of environments accepts."""
    login: tuple[str, str]
    """That private repositories accept: how the user names of tenants begin, and their password."""
    key_of: Callable[[str], str]
    """The private key that they accept over ssh, by user name."""
    database_url: str = ""
    """Of planners' database, as its owner."""

    def is_tenant(self, namespace: str) -> bool:
        """Whether a namespace is a tenant's own: others that begin so were made on demand."""
        return re.fullmatch(rf"{self.prefix}-\d+", namespace) is not None

    def login_of(self, tenant: str) -> tuple[str, str]:
        """User name and password; each tenant has a name of its own, so whose login is where can be told."""
        username, password = self.login
        return f"{username}-{tenant}", password


@dataclass(frozen=True, slots=True)
class Move:
    """Of a tenant, from one engine instance to another."""

    tenant: str
    """The namespace."""
    step: str

    @property
    def is_over(self) -> bool:
        """It goes nowhere any more."""
        return self.step in {"done", "cancelled"}


@dataclass(frozen=True, slots=True)
class World:
    """Objects of one moment, or nearly."""

    namespaces: Sequence[Manifest] = ()
    deployments: Sequence[Manifest] = ()
    environments: Sequence[Manifest] = ()
    credentials: Sequence[Manifest] = ()
    runs: Sequence[Manifest] = ()
    app_environments: Sequence[Manifest] = ()
    """Of AppStudio."""
    snapshots: Sequence[Manifest] = ()
    bindings: Sequence[Manifest] = ()
    promotions: Sequence[Manifest] = ()
    classes: Sequence[Manifest] = ()
    """DeploymentTargetClasses."""
    targets: Sequence[Manifest] = ()
    claims: Sequence[Manifest] = ()
    space_requests: Sequence[Manifest] = ()
    spaces: Sequence[Manifest] = ()
    """Namespaces that were made for these."""
    secrets: Sequence[Manifest] = ()
    """Of users, and copies that were made for AppStudio's Environments."""
    logins_of_spaces: Sequence[Manifest] = ()
    """Secrets that open them."""
    accounts: Sequence[Manifest] = ()
    """That environments have created on their cluster."""
    applications: Sequence[Manifest] = ()
    projects: Sequence[Manifest] = ()
    engine_secrets: Sequence[Manifest] = field(default=())
    """That Argo CD takes for a cluster or a repository."""
    placements: Mapping[str, str] = field(default_factory=dict)
    """By tenant the engine namespace of the instance that it is on: both are namespaces."""
    moves: Sequence[Move] = ()
    """In the order in which they were ordered."""
    read_at: datetime = EPOCH

    @property
    def of_engines(self) -> Sequence[Manifest]:
        """All that an engine holds."""
        return (*self.applications, *self.projects, *self.engine_secrets)


async def read_world(kube: KubeClient, facts: Facts) -> World:
    """List everything. Raises Retry."""

    async def everything(resource: ApiResource) -> list[Manifest]:
        # Items of a list do not say what they are.
        kind = {"kind": resource.kind}
        return [item | kind async for page in kube.list_pages(resource) for item in page.items]

    def of_users(items: list[Manifest]) -> list[Manifest]:
        return [item for item in items if item["metadata"]["namespace"].startswith(facts.prefix)]

    def of_engines(items: list[Manifest]) -> list[Manifest]:
        ours = [item for item in items if item["metadata"]["namespace"] in facts.engine_namespaces]
        return [item for item in ours if item["metadata"]["name"] != HEARTBEAT]

    placements, moves = await _read_fleet(facts)
    secrets = await everything(SECRET)
    namespaces = [item for item in await everything(NAMESPACE) if item["metadata"]["name"].startswith(facts.prefix)]
    classes = await everything(TARGET_CLASS)
    return World(
        namespaces=[item for item in namespaces if facts.is_tenant(item["metadata"]["name"])],
        deployments=of_users(await everything(DEPLOYMENT)),
        environments=of_users(await everything(ENVIRONMENT)),
        credentials=of_users(await everything(CREDENTIAL)),
        runs=of_users(await everything(SYNC_RUN)),
        app_environments=of_users(await everything(APP_ENVIRONMENT)),
        snapshots=of_users(await everything(SNAPSHOT)),
        bindings=of_users(await everything(BINDING)),
        promotions=of_users(await everything(PROMOTION_RUN)),
        classes=[item for item in classes if item["metadata"]["name"].startswith(facts.prefix)],
        targets=of_users(await everything(TARGET)),
        claims=of_users(await everything(CLAIM)),
        space_requests=of_users(await everything(SPACE_REQUEST)),
        spaces=[item for item in namespaces if not facts.is_tenant(item["metadata"]["name"])],
        secrets=[item for item in of_users(secrets) if item.get("type") in {KUBECONFIG_TYPE, LOGIN_TYPE}],
        logins_of_spaces=[item for item in of_users(secrets) if item.get("type") == "Opaque"],
        accounts=[item for item in await everything(ACCOUNT) if _is_account(item["metadata"])],
        applications=of_engines(await everything(APPLICATION)),
        projects=[item for item in of_engines(await everything(APP_PROJECT)) if item["metadata"]["name"] != "default"],
        engine_secrets=[item for item in of_engines(secrets) if SECRET_TYPE in (item["metadata"].get("labels") or {})],
        placements=placements,
        moves=moves,
        read_at=datetime.now(UTC),
    )


async def _read_fleet(facts: Facts) -> tuple[Mapping[str, str], Sequence[Move]]:
    try:
        async with await psycopg.AsyncConnection.connect(facts.database_url) as database:
            placements = dict[str, str](await (await database.execute(PLACEMENTS)).fetchall())
            moves = [Move(*row) for row in await (await database.execute(MOVES)).fetchall()]
    except psycopg.OperationalError as error:
        raise Retry(str(error)) from error
    return placements, [move for move in moves if facts.is_tenant(move.tenant)]


def _is_account(meta: Manifest) -> bool:
    is_ours: bool = meta["namespace"] == ACCOUNT_NAMESPACE and meta["name"].startswith(ACCOUNT_PREFIX)
    return is_ours


def decoded(data: Manifest | None) -> dict[str, str]:
    """A Secret's data, in clear."""
    return {name: base64.b64decode(value).decode() for name, value in (data or {}).items()}


def account_of(token: str) -> str:
    """The name of the account that an environment has created, if the token is of one; else the token."""
    parts = token.split(".")
    if len(parts) != JWT_PARTS:
        return token
    content = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    _, _, account = content.get("sub", "").partition(f"system:serviceaccount:{ACCOUNT_NAMESPACE}:")
    return account if account.startswith(ACCOUNT_PREFIX) else token


def token_of(data: Manifest) -> str:
    """The token in the data of a Secret with a kubeconfig."""
    token: str = yaml.safe_load(decoded(data)["kubeconfig"])["users"][0]["user"]["token"]
    return token


def authority_of(data: Manifest) -> str:
    """The authority in it."""
    cluster = yaml.safe_load(decoded(data)["kubeconfig"])["clusters"][0]["cluster"]
    authority: str = cluster["certificate-authority-data"]
    return authority
