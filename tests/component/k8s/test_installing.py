"""What k8s/README.md tells an operator to type, typed: each command, in order, on the components of this machine."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx2
import psycopg
import pytest
from psycopg import sql

from devstack.harness.hosted import HostedStack
from devstack.paths import ROOT
from services.common.kubernetes import SECRET
from tests.component.conftest import Servers
from tests.component.k8s.manifests import Rendered, containers, workloads
from tests.component.k8s.readme import carry_out, commands, secrets_of_the_table
from tests.component.plain_http import plain_client

OURS = "gitops-service"
EXAMPLE = {"O": "k8s/overlays/example"}
NOT_TYPED = {
    "kubectl -n gitops-service create secret generic …": "an ellipsis: here those of the README's table are made",
    "kubectl -n gitops-service wait --for condition=complete job/database-upgrade": "no kubelet: here its command runs",
}
"""Commands that cannot be typed on this machine, and what takes their place."""


@pytest.fixture(scope="module")
def empty_database(servers: Servers) -> Iterator[str]:
    """The owner's URL of a database as ``init.sql`` leaves it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(servers.postgres_admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER gitops_owner").format(sql.Identifier(name)))
        yield urlunsplit(urlsplit(servers.postgres_owner_url)._replace(path=f"/{name}"))
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the operator stands: beside the manifests."""
    folder = tmp_path_factory.mktemp("operator")
    (folder / "k8s").symlink_to(ROOT / "k8s")
    return folder


def test_installation_when_every_command_is_typed_then_all_that_the_pods_name_is_there(
    stack: HostedStack, kubeconfig: Path, rendered: Rendered, kubectl: Path, empty_database: str, folder: Path
) -> None:
    environment = stack.environment | {"DATABASE_OWNER_URL": empty_database} | EXAMPLE
    typed = commands("Installing")
    assert set(NOT_TYPED) <= set(typed)
    with plain_client(kubeconfig) as api:
        for command in typed:
            if "create secret generic …" in command:
                make_secrets(api, empty_database)
            elif "wait --for" in command:
                run_migration(api, rendered)
            else:
                carry_out(command, folder, environment, kubectl)
        found = {item["metadata"]["name"] for item in api.get(SECRET.path(OURS)).json()["items"]}
        deployed = api.get(f"/apis/apps/v1/namespaces/{OURS}/deployments").json()["items"]
    assert named_secrets(rendered) <= found
    assert {item["metadata"]["name"] for item in deployed} >= {"watcher", "planner", "agent", "connector-keeper"}


def test_upgrade_when_every_command_is_typed_then_each_succeeds(
    stack: HostedStack, kubectl: Path, empty_database: str, folder: Path
) -> None:
    environment = stack.environment | {"DATABASE_OWNER_URL": empty_database} | EXAMPLE
    for command in commands("Upgrading"):
        if command not in NOT_TYPED:
            carry_out(command, folder, environment, kubectl)


def make_secrets(api: httpx2.Client, database: str) -> None:
    """Those of the table, but for the keys, which have commands of their own."""
    for name, keys in secrets_of_the_table().items():
        if not name.startswith("sealing-keys"):
            content = {key: database if key == "url" else "a password" for key in keys}
            answer = api.post(SECRET.path(OURS), json={"metadata": {"name": name}, "stringData": content})
            assert answer.is_success, answer.text


def run_migration(api: httpx2.Client, rendered: Rendered) -> None:
    """As a kubelet would: the container's arguments, with what the Secret says."""
    (container,) = containers(workloads(rendered.migration)["database-upgrade"])
    variables = {}
    for item in container["env"]:
        reference = item["valueFrom"]["secretKeyRef"]
        data = api.get(SECRET.path(OURS, reference["name"])).json()["data"]
        variables[item["name"]] = base64.b64decode(data[reference["key"]]).decode()
    command = [sys.executable, "-m", *container["args"]]
    subprocess.run(command, env=os.environ | variables, check=True, capture_output=True)


def named_secrets(rendered: Rendered) -> set[str]:
    """All that pods take from Secrets."""
    named: set[str] = set()
    for template in workloads(rendered.everything).values():
        volumes = template["spec"]["volumes"]
        named |= {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
        projected = [source for volume in volumes for source in volume.get("projected", {}).get("sources", [])]
        named |= {source["secret"]["name"] for source in projected}
        for container in containers(template):
            sources = [item.get("valueFrom", {}) for item in container.get("env", [])]
            named |= {source["secretKeyRef"]["name"] for source in sources if "secretKeyRef" in source}
    return named
