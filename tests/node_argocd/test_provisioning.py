"""An instance that is ordered with a version: real Argo CD comes, serves a tenant, and goes with its namespace.

Before it goes its configuration is applied anew: the remedy that its provisioner carries out, not its agent.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from devstack.git.site import site_of
from devstack.harness.hosted import HostedStack
from devstack.harness.run import SERVICES
from devstack.stack.node_addresses import GIT, NODE
from services.agent.provisioning.installation import INSTANCE_LABEL
from services.cli.kafka import topics
from services.common.kubernetes import APPLICATION, KubeClient, Manifest
from tests.argocd.deployed import HEALTHY, SETTLED
from tests.argocd.sources import Source, config_map
from tests.e2e.operators import of_instances, sole_instance, typed
from tests.e2e.remedy_orders import order_reapplication
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant, application_name
from tests.node.kubectl import OURS, Kubectl, is_ready, until
from tests.node_argocd.next_commit import DEPLOYED_SECONDS, deploy_next_commit

VERSION = "3.2.11"
INSTANCE = NAMESPACE = "gitops-service-argocd-ordered"
WITHIN_SECONDS, LOOK_EVERY_SECONDS = 300.0, 1.0
PODS = {"argocd-application-controller", "argocd-redis", "argocd-repo-server"}
CONFIG, REPO_SERVER = "argocd-cm", "argocd-repo-server"
ADDED_SETTING, ADDED_VARIABLE = "resource.inclusions", "SOMEBODY_WAS_HERE"
"""Of no manifest: what the provisioner compares by itself leaves them."""


@pytest.fixture(scope="module")
def provisioner(stack: HostedStack, kubectl: Kubectl) -> Iterator[None]:
    """Deployed as ``k8s/provisioner`` has it, with an account of its own; and agents keep heartbeats."""
    folder = stack.state.root / "node"
    password = secrets.token_urlsafe(24)
    granted = CliRunner(env=stack.environment | {"KAFKA_PASSWORD_PROVISIONER_DEFAULT": password}).invoke(
        topics.app, ["acls"]
    )
    assert granted.exit_code == 0, granted.output
    # A reader's token, as agents have one: the registry tells its readers apart by nothing else.
    token = stack.state.recall(SERVICES)["agent"]["SCHEMA_REGISTRY_TOKEN"]
    kubectl.apply(
        secret(OURS, "kafka-provisioner", password=password), secret(OURS, "registry-provisioner", token=token)
    )
    rendered = yaml.safe_load_all(kubectl.run("kustomize", str(folder / "installation")))
    manifests = [*map(completed(stack), rendered), redis_password()]
    (folder / "provisioner" / f"{VERSION}.yaml").write_text(yaml.safe_dump_all(manifests))
    kubectl.run("apply", "--server-side", "-k", str(folder / "provisioner"))
    heartbeat = f"HEARTBEAT_REPOSITORY=https://{NODE}:{GIT}/public/heartbeat.git"
    kubectl.run("set", "env", f"--namespace={OURS}", "deployment/agent", heartbeat)
    for name in ("provisioner", "agent"):
        rollout = ("rollout", "status", f"--namespace={OURS}", f"deployment/{name}", "--timeout=240s")
        kubectl.run(*rollout, seconds=WITHIN_SECONDS)
    yield
    kubectl.run("delete", "deployment", f"--namespace={OURS}", "provisioner")


def secret(namespace: str, name: str, **data: str) -> Manifest:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}


def redis_password() -> Manifest:
    """No command line of Argo CD's is built here, which would make one when Redis starts."""
    return secret("gitops-service-argocd", "argocd-redis", auth=secrets.token_urlsafe(24))


def completed(stack: HostedStack) -> Callable[[Manifest], Manifest]:
    """With the authority of this machine's git server."""
    authority = site_of(stack.environment).pki.authority.read_text()

    def complete(manifest: Manifest) -> Manifest:
        named = manifest["metadata"]["name"] == "argocd-tls-certs-cm"
        return manifest | {"data": {NODE: authority}} if named else manifest

    return complete


def row(stack: HostedStack) -> dict[str, Any]:
    """The instance, as operators see it."""
    found: dict[str, Any] = json.loads(of_instances(stack, "show", INSTANCE, "-o", "json").stdout)[0]
    return found


async def until_shown(stack: HostedStack, kubectl: Kubectl, **expected: str) -> None:
    over = time.monotonic() + WITHIN_SECONDS
    while not expected.items() <= (shown := await asyncio.to_thread(row, stack)).items():
        log = await asyncio.to_thread(kubectl.attempt, "logs", f"--namespace={OURS}", "deployment/provisioner")
        assert time.monotonic() < over, (shown, log.stdout[-2000:])
        await asyncio.sleep(LOOK_EVERY_SECONDS)


def is_gone(kubectl: Kubectl) -> bool:
    """The namespace, with all that was in it, and the bindings of its accounts."""
    bindings = kubectl.get("clusterrolebindings", f"--selector={INSTANCE_LABEL}={INSTANCE}")["items"]
    namespaces = kubectl.get("namespaces", f"--selector={INSTANCE_LABEL}={INSTANCE}")["items"]
    return not bindings and not namespaces


@pytest.fixture(scope="module")
async def installed(stack: HostedStack, kubectl: Kubectl, provisioner: None) -> None:
    """The instance may be used."""
    await typed(stack, "add", INSTANCE, "--version", VERSION, "--namespace", NAMESPACE)
    await until_shown(stack, kubectl, state="accepting", installation="Applied", health="Healthy", version=VERSION)


def uids(kubectl: Kubectl) -> set[str]:
    """Of the instance's pods."""
    found = (kubectl.pods_of(name, NAMESPACE) for name in PODS)
    return {pod["metadata"]["uid"] for pods in found for pod in pods}


def meddle(kubectl: Kubectl) -> None:
    """Somebody adds a setting, and a variable that the repo server's pods begin with."""
    setting = json.dumps({"data": {ADDED_SETTING: "[]"}})
    kubectl.run("patch", "configmap", CONFIG, f"--namespace={NAMESPACE}", "--type=merge", f"--patch={setting}")
    workload = (f"--namespace={NAMESPACE}", f"deployment/{REPO_SERVER}")
    kubectl.run("set", "env", *workload, f"{ADDED_VARIABLE}=yes")
    kubectl.run("rollout", "status", *workload, "--timeout=240s", seconds=WITHIN_SECONDS)


def is_as_rendered(kubectl: Kubectl) -> bool:
    """Whether nothing is left of what was added; what is made anew is not there for a moment."""
    names = f"--field-selector=metadata.name={CONFIG}", f"--field-selector=metadata.name={REPO_SERVER}"
    configs = kubectl.get("configmaps", f"--namespace={NAMESPACE}", names[0])["items"]
    workloads = kubectl.get("deployments", f"--namespace={NAMESPACE}", names[1])["items"]
    containers = [each for found in workloads for each in found["spec"]["template"]["spec"]["containers"]]
    variables = {each["name"] for container in containers for each in container.get("env", [])}
    return bool(configs and variables) and ADDED_SETTING not in configs[0]["data"] and ADDED_VARIABLE not in variables


def are_new(kubectl: Kubectl, before: set[str]) -> bool:
    """Whether other pods are ready than those of ``before``, of each workload."""
    found = [kubectl.pods_of(name, NAMESPACE) for name in PODS]
    return all(found) and all(is_ready(pod) and pod["metadata"]["uid"] not in before for pods in found for pod in pods)


@pytest.mark.usefixtures("installed")
async def test_configuration_when_applied_anew_then_what_somebody_has_added_is_gone_and_other_pods_go_on_unnoticed(
    stack: HostedStack, kubectl: Kubectl, tenant: Tenant, source: Callable[..., Source]
) -> None:
    repository = source(config_map("before"))
    with sole_instance(stack, INSTANCE):
        await tenant.create(source=repository.spec())
        await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    await asyncio.to_thread(meddle, kubectl)
    before = await asyncio.to_thread(uids, kubectl)
    async with seen_by_user(tenant) as seen:
        await order_reapplication(stack, INSTANCE)
        await until("the configuration is as it was rendered", lambda: is_as_rendered(kubectl))
        await until("other pods are ready", lambda: are_new(kubectl, before))
        assert await seen.changes() == []
    await deploy_next_commit(tenant, repository)


@pytest.mark.usefixtures("installed")
async def test_instance_when_ordered_with_a_version_then_argocd_comes_deploys_for_a_tenant_and_goes_again(
    stack: HostedStack, kubectl: Kubectl, tenant: Tenant, kube: KubeClient, source: Callable[..., Source]
) -> None:
    pods = await asyncio.to_thread(kubectl.get, "pods", f"--namespace={NAMESPACE}")
    assert {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in pods["items"] if is_ready(each)} == PODS

    with sole_instance(stack, INSTANCE):
        created = await tenant.create(source=source().spec())
        await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
    get = ("get", f"{APPLICATION.plural}.{APPLICATION.group}", f"--namespace={NAMESPACE}", "--output=name")
    names = await asyncio.to_thread(kubectl.run, *get)
    assert application_name(created) in names
    refused = await asyncio.to_thread(of_instances, stack, "retire", INSTANCE)
    assert "still has" in refused.output

    await tenant.leave(DEPLOYED_SECONDS)
    over = time.monotonic() + WITHIN_SECONDS
    while (await asyncio.to_thread(of_instances, stack, "retire", INSTANCE)).exit_code != 0:
        assert time.monotonic() < over
        await asyncio.sleep(LOOK_EVERY_SECONDS)
    await until("the namespace and its bindings are gone", lambda: is_gone(kubectl))
    await until_shown(stack, kubectl, state="retired", installation="Removed")
