"""One service at a time against real components: PostgreSQL, Kafka, the schema registry, the Kubernetes API server.

PostgreSQL and Kafka come from the local stack, which also serves the registry and the API server; with
``--testcontainers`` they are containers, from the images that users pull, and the tests that take neither are left out.
It is an option, and not what is found: a Docker engine that happens to run would change what is tested.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import docker
import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from devstack.components.postgres import ROLES, passwords
from devstack.containers.base_images import NAMES
from devstack.harness.hosted import HostedStack, hosted
from devstack.paths import COMPOSE
from devstack.stack.identities import WORKSPACE
from services.common.kafka.topics import load_topics
from services.common.kubernetes import NAMESPACE, KubeClient, connect
from tests.component.databases import Databases, fresh_database, in_database

POSTGRES_VARIABLE = re.compile(r"\$\{POSTGRES_IMAGE:-(\S+)\}")
KAFKA_IMAGE = NAMES["KAFKA_IMAGE"]  # without its digest, which testcontainers would take for the version
BROKER_SETTING = re.compile(r"^((?:auto|default|group|min|offsets|share|transaction)\.[\w.]+)=(.+)$", re.MULTILINE)
"""Those that say nothing of listeners and principals: without them a lone broker has no transactions, say."""
CONTAINER_SECONDS = 180
"""Until a broker answers, on a busy machine, too."""
OUR_SERVICES = ("watcher", "planner", "agent-1", "agent-2", "argocd-simulator")


@dataclass(frozen=True)
class Database:
    """A database of one test's own, migrated to the newest revision."""

    owner_url: str
    planner_url: str


@dataclass(frozen=True)
class Servers:
    """Where PostgreSQL and Kafka are."""

    postgres_admin_url: str
    """As superuser: only it may create databases."""
    postgres_owner_url: str
    postgres_planner_url: str
    kafka: str

    def database(self, name: str) -> Database:
        return Database(in_database(self.postgres_owner_url, name), in_database(self.postgres_planner_url, name))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--testcontainers`` run what takes PostgreSQL or Kafka."""
    if not config.getoption("testcontainers"):
        return
    here = Path(__file__).parent
    others = [item for item in items if item.path.is_relative_to(here) and not takes_servers(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def takes_servers(item: pytest.Item) -> bool:
    """By the fixtures that a test asks for, directly or not."""
    return isinstance(item, pytest.Function) and "servers" in item.fixturenames


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The infrastructure, without our services, and without Connect: nothing here streams, and at rest it computes."""
    with hosted(stacks_folder / "component", "--infra", output=stacks_folder / "component.out") as running:
        running.kill("connect")
        yield running


@pytest.fixture(scope="session")
def with_containers(request: pytest.FixtureRequest) -> bool:
    """Whether they were asked for; without an engine to run them there is no point in going on."""
    wanted: bool = request.config.getoption("testcontainers")
    if wanted:
        require_engine()
    return wanted


@pytest.fixture(scope="package")
def servers(with_containers: bool, request: pytest.FixtureRequest) -> Iterator[Servers]:
    """PostgreSQL and Kafka: the local stack's processes, or containers, beside which its own serve nobody."""
    if with_containers:
        with containers() as started:
            yield started
    else:
        stack: HostedStack = request.getfixturevalue("stack")
        environment = stack.environment
        owner, password = environment["DATABASE_OWNER_URL"], stack.state.secrets()["postgres"]
        address = urlsplit(owner).netloc.rpartition("@")[2]
        yield Servers(
            f"postgresql://postgres:{password}@{address}/postgres",
            owner,
            environment["DATABASE_URL"],
            environment["KAFKA_BOOTSTRAP_SERVERS"],
        )


def require_engine() -> None:
    """End the run with one line if no Docker engine answers."""
    try:
        docker.from_env(timeout=20).ping()
    except docker.errors.DockerException:
        pytest.exit("--testcontainers: no Docker engine answers at DOCKER_HOST: run 'make containers'", returncode=2)


@contextmanager
def containers() -> Iterator[Servers]:
    """PostgreSQL and Kafka from testcontainers, with the settings of ``compose/`` and the database's roles."""
    from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415 - slow, and rarely wanted
    from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415

    settings = COMPOSE / "postgres"
    with ExitStack() as running:
        postgres = PostgresContainer(postgres_image(), dbname="postgres", driver=None)
        postgres.with_command("postgres -c config_file=/etc/postgresql/postgresql.conf -c listen_addresses='*'")
        postgres.with_volume_mapping(str(settings / "postgresql.conf"), "/etc/postgresql/postgresql.conf")
        postgres.with_volume_mapping(str(settings / "init.sql"), "/docker-entrypoint-initdb.d/init.sql")
        for name, value in passwords({role: role for role in ROLES}).items():
            postgres.with_env(name, value)
        running.enter_context(postgres)
        kafka = KafkaContainer(KAFKA_IMAGE).with_kraft()
        for name, value in BROKER_SETTING.findall((COMPOSE / "kafka" / "server.properties").read_text()):
            kafka.with_env(f"KAFKA_{name.upper().replace('.', '_')}", value)
        running.callback(kafka.stop)
        kafka.start(timeout=CONTAINER_SECONDS)
        _gitopsctl("topics", "apply", KAFKA_BOOTSTRAP_SERVERS=kafka.get_bootstrap_server())
        make_topics_of_workspace(kafka.get_bootstrap_server())
        host = f"{postgres.get_container_host_ip()}:{postgres.get_exposed_port(5432)}"
        yield Servers(
            f"postgresql://{postgres.username}:{postgres.password}@{host}/postgres",
            f"postgresql://gitops_owner:owner@{host}/gitops",
            f"postgresql://gitops_planner:planner@{host}/gitops",
            kafka.get_bootstrap_server(),
        )


def make_topics_of_workspace(kafka: str) -> None:
    """What ``gitopsctl workspaces add`` makes; it would want a migrated database, too."""
    topics = [NewTopic(topic.name, topic.partitions, 1) for topic in load_topics(workspace=WORKSPACE)]
    admin = AdminClient({"bootstrap.servers": kafka})
    for outcome in admin.create_topics(topics).values():
        outcome.result(timeout=CONTAINER_SECONDS)


def postgres_image() -> str:
    """The one of compose.yaml."""
    pinned = POSTGRES_VARIABLE.search((COMPOSE / "compose.yaml").read_text())
    assert pinned is not None
    return os.environ.get("POSTGRES_IMAGE", pinned[1])


@pytest.fixture(scope="package")
def postgres_admin(servers: Servers) -> Iterator[psycopg.Connection]:
    """A superuser's connection: only one of these may create databases."""
    with psycopg.connect(servers.postgres_admin_url, autocommit=True) as admin:
        yield admin


@pytest.fixture(scope="package")
def databases(servers: Servers, postgres_admin: psycopg.Connection) -> Iterator[Databases]:
    """Copies of one that is migrated: to migrate each takes seconds."""
    with fresh_database(postgres_admin) as template:
        _gitopsctl("database", "upgrade", DATABASE_OWNER_URL=servers.database(template).owner_url)
        copies = Databases(postgres_admin, template)
        yield copies
        copies.drop()


@pytest.fixture
def database(servers: Servers, databases: Databases) -> Iterator[Database]:
    """A migrated database of one test's own."""
    with databases.taken() as name:
        yield servers.database(name)


@pytest.fixture(scope="package")
def kafka_bootstrap(servers: Servers) -> str:
    """Address of the broker."""
    return servers.kafka


@pytest.fixture(scope="package")
def registry_url(stack: HostedStack) -> str:
    """Base of the schema registry's Confluent-compatible API, with every schema registered."""
    return stack.environment["SCHEMA_REGISTRY_URL"]


@pytest.fixture(scope="package")
def kubeconfig(stack: HostedStack) -> Path:
    """Credentials of the API server's administrator; the CRDs are installed."""
    return Path(stack.environment["KUBECONFIG"])


@pytest.fixture
async def kube(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    """A client of the API server."""
    async with await connect(kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> str:
    """A namespace of one test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.create_object(NAMESPACE, manifest, field_manager="tests")
    return name


@pytest.fixture
def topic_factory(kafka_bootstrap: str) -> Iterator[Callable[[str, int], str]]:
    """Makes topics with unique names, ``topic_factory(stem, partitions)``; they are deleted afterwards."""
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    made: list[str] = []

    def make(stem: str, partitions: int = 1) -> str:
        name = f"{stem}.{uuid.uuid4().hex[:8]}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=10)
        made.append(name)
        return name

    yield make
    for outcome in (admin.delete_topics(made) if made else {}).values():
        outcome.result(timeout=10)


def _gitopsctl(*arguments: str, **settings: str) -> None:
    command = [sys.executable, "-m", "services.cli", *arguments]
    outcome = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
