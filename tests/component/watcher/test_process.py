"""The process as an operator meets it: what it asks for, what it says when it does not get it, how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from typer.testing import CliRunner

from devstack.harness.hosted import HostedStack
from services.cli.installation import workspaces
from services.cli.kafka.topics import password_variable
from services.common.errors import InvalidConfiguration, NoPermission
from services.common.kafka import count_partitions
from services.common.kubernetes import ApiResource, KubeClient, connect, require_access
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.watcher.commands.epochs import newest_timestamp
from services.watcher.followed_kinds import CUSTOM_KINDS, SECRETS, FollowedKind, access_to, access_to_lease
from tests.component.rights import SERVICE_ACCOUNT, kubeconfig_with, token_of, until_granted
from tests.component.watcher.rig import KeyFiles, Rig, Tenant, until

ENDS_WITHIN_SECONDS = 25
CLUSTER_ROLE = ApiResource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
CLUSTER_ROLE_BINDING = ApiResource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")

DEPLOYMENTS = CUSTOM_KINDS[0]
EVERYTHING = {
    GITOPS_DEPLOYMENT.plural: ["get", "list", "watch", "create", "patch", "delete"],
    f"{GITOPS_DEPLOYMENT.plural}/status": ["patch"],
}


async def with_rights(
    kube: KubeClient, namespace: str, rights: dict[str, list[str]], group: str = GITOPS_DEPLOYMENT.group
) -> str:
    """Make an account with exactly these verbs by resource; returns its token."""
    name = f"watcher-{uuid.uuid4().hex[:8]}"
    rules = [{"apiGroups": [group], "resources": [what], "verbs": verbs} for what, verbs in rights.items()]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": CLUSTER_ROLE.group, "kind": "ClusterRole", "name": name}
    manifests: list[tuple[ApiResource, dict[str, Any]]] = [
        (SERVICE_ACCOUNT, {"metadata": {"name": name, "namespace": namespace}}),
        (CLUSTER_ROLE, {"metadata": {"name": name}, "rules": rules}),
        (CLUSTER_ROLE_BINDING, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}),
    ]
    for kind, manifest in manifests:
        typed = {"apiVersion": kind.api_version, "kind": kind.kind} | manifest
        await kube.create_object(kind, typed, field_manager="tests")
    await until_granted(kube, f"system:serviceaccount:{namespace}:{name}", rules)
    return await token_of(kube, namespace, name)


@pytest.fixture
def as_account(kubeconfig: Path, tmp_path: Path) -> Any:
    """Writes a kubeconfig for a token."""

    return lambda token: kubeconfig_with(token, kubeconfig, tmp_path)


LACKS = {
    "list": (GITOPS_DEPLOYMENT.plural, "list", "cannot list resource"),
    "watch": (GITOPS_DEPLOYMENT.plural, "watch", "may not watch gitopsdeployments.managed"),
    "patch": (GITOPS_DEPLOYMENT.plural, "patch", "may not patch gitopsdeployments.managed"),
    "patch-status": (f"{GITOPS_DEPLOYMENT.plural}/status", "patch", "may not patch gitopsdeployments.*/status in all"),
}


@pytest.mark.parametrize(("resource", "verb", "text"), LACKS.values(), ids=LACKS)
async def test_right_when_missing_then_it_is_named_with_what_to_grant(
    kube: KubeClient, namespace: str, as_account: Any, resource: str, verb: str, text: str
) -> None:
    rights = EVERYTHING | {resource: [item for item in EVERYTHING[resource] if item != verb]}
    path = as_account(await with_rights(kube, namespace, {what: verbs for what, verbs in rights.items() if verbs}))
    async with await connect(path) as limited:
        with pytest.raises(NoPermission, match=text) as refusal:
            await require_access(limited, access_to(DEPLOYMENTS), 1)
    assert "grant" in str(refusal.value)


async def test_rights_when_exactly_those_asked_for_are_there_then_the_watcher_starts(
    kube: KubeClient, namespace: str, as_account: Any
) -> None:
    path = as_account(await with_rights(kube, namespace, EVERYTHING))
    async with await connect(path) as limited:
        await require_access(limited, access_to(DEPLOYMENTS), 5)


async def test_secrets_when_they_may_be_read_and_copied_then_that_is_all_that_is_asked_for(
    kube: KubeClient, namespace: str, as_account: Any
) -> None:
    copying = {"secrets": ["get", "list", "watch", "create", "patch", "delete"]}
    async with await connect(as_account(await with_rights(kube, namespace, copying, group=""))) as limited:
        await require_access(limited, access_to(SECRETS), 5)


async def test_secrets_when_they_may_not_be_read_one_by_one_then_it_is_named(
    kube: KubeClient, namespace: str, as_account: Any
) -> None:
    token = await with_rights(kube, namespace, {"secrets": ["list", "watch"]}, group="")
    async with await connect(as_account(token)) as limited:
        with pytest.raises(NoPermission, match="may not get secrets in all namespaces"):
            await require_access(limited, access_to(SECRETS), 1)


async def test_lease_when_it_may_not_be_held_then_what_to_grant_is_named(
    kube: KubeClient, namespace: str, as_account: Any
) -> None:
    async with await connect(as_account(await with_rights(kube, namespace, {}))) as limited:
        with pytest.raises(NoPermission, match=r"may not get leases\.coordination\.k8s\.io in namespace"):
            await require_access(limited, access_to_lease(namespace), 1)


async def test_crd_when_missing_then_the_command_that_installs_it_is_named(kube: KubeClient) -> None:
    unknown = ApiResource(GITOPS_DEPLOYMENT.group, "v1alpha1", "Unknown", "unknowns")
    with pytest.raises(InvalidConfiguration, match="gitopsctl crds apply"):
        await require_access(kube, access_to(FollowedKind(unknown)), 0.5)


@pytest.mark.parametrize(
    ("topic", "command"), [("no.such", "topics apply"), ("gitops.workspace.no-such", "workspaces add")]
)
def test_topic_when_missing_then_the_command_that_makes_it_is_named(
    kafka_bootstrap: str, topic: str, command: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=rf"no topic {re.escape(topic)}; run 'gitopsctl {command}'"):
        count_partitions(kafka_bootstrap, [topic])


async def test_newest_timestamp_when_the_topic_is_empty_and_when_it_is_not_then_it_is_that_of_its_newest_message(
    rig: Rig, kafka_bootstrap: str
) -> None:
    assert await asyncio.to_thread(newest_timestamp, kafka_bootstrap, rig.topics.commands) == 0
    async with rig.watcher():
        pass
    epoch = (await rig.commands.until("a marker", lambda sent: sent))[0].event.epoch
    assert await asyncio.to_thread(newest_timestamp, kafka_bootstrap, rig.topics.commands) >= epoch


@contextmanager
def process(stack: HostedStack, log: Path, keys: KeyFiles, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    workspace = environment.setdefault("WORKSPACE", f"ws-{uuid.uuid4().hex[:8]}")
    given = {password_variable(f"watcher-{workspace}"): uuid.uuid4().hex}
    added = CliRunner().invoke(workspaces.app, ["add", workspace], env=stack.environment | given)
    assert added.exit_code == 0, added.output
    settings = stack.environment_of("watcher") | {
        "KAFKA_USERNAME": f"watcher-{workspace}",
        "KAFKA_PASSWORD": given.popitem()[1],
        "SEALING_PUBLIC_KEYS": str(keys.public),
    }
    with log.open("wb") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "services.watcher"],
            env=inherited | settings | environment,
            stderr=output,
        )
        try:
            yield started
        finally:
            started.kill()
            started.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_process_when_told_to_end_then_it_ends_in_order_within_seconds(
    stack: HostedStack, tmp_path: Path, keys: KeyFiles, number: signal.Signals
) -> None:
    log = tmp_path / "watcher.log"
    with process(stack, log, keys) as watcher:
        await until(lambda: b"partitions assigned" in log.read_bytes() and b"resync completed" in log.read_bytes())
        watcher.send_signal(number)
        assert await asyncio.to_thread(watcher.wait, ENDS_WITHIN_SECONDS) == 0
    assert b"partitions revoked" in log.read_bytes()


STATUS = """
INSERT INTO workspace_statuses (workspace, namespace, kind, name, uid, generation, status, release_finalizer,
                                digest, trace_id, seen_at, updated_at)
VALUES (%s, %s, 'GitOpsDeployment', %s, %s, 1, %s, false, 'd1', '', now(), now())
"""


async def test_statuses_when_there_are_two_workspaces_then_those_of_each_arrive_by_its_own_watcher(
    stack: HostedStack, tmp_path: Path, keys: KeyFiles, tenant: Tenant
) -> None:
    """From the table to the resource; the status of one is there before its workspace is added."""
    await asyncio.to_thread(stack.start, "connect")  # the one test of this stack for which rows are streamed
    names = [f"ws-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    resources = [await tenant.create(name) for name in names]
    rows = [
        (name, tenant.namespace, name, made["metadata"]["uid"], f'{{"sync":{{"status":"{name}"}}}}')
        for name, made in zip(names, resources, strict=True)
    ]
    with psycopg.connect(stack.environment["DATABASE_URL"], autocommit=True) as planner:
        planner.execute(STATUS, rows[0])
        logs = [tmp_path / name for name in names]
        with (
            process(stack, logs[0], keys, WORKSPACE=names[0]),
            process(stack, logs[1], keys, WORKSPACE=names[1]),
        ):
            await until(
                lambda: all(b"partitions assigned" in log.read_bytes() for log in logs),
                lambda: "\n".join(log.read_text()[-1000:] for log in logs),
            )
            planner.execute(STATUS, rows[1])
            for name in names:
                await tenant.until_status(name, {"sync": {"status": name}})


@pytest.fixture
def nowhere(kubeconfig: Path, tmp_path: Path) -> Path:
    """A kubeconfig of an API server that does not answer."""
    config = yaml.safe_load(kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = "https://127.0.0.1:9"
    path = tmp_path / "nowhere"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_process_when_told_to_end_while_the_api_server_is_awaited_then_it_ends(
    stack: HostedStack, tmp_path: Path, keys: KeyFiles, nowhere: Path
) -> None:
    log = tmp_path / "watcher.log"
    with process(stack, log, keys, KUBECONFIG=str(nowhere), LOG_LEVEL="DEBUG") as watcher:
        await until(lambda: b"awaiting the API server" in log.read_bytes())
        watcher.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(watcher.wait, ENDS_WITHIN_SECONDS) == 0
