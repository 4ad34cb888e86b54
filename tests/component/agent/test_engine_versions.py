"""An Argo CD that lacks fixes, seen through a real API server: nothing new is deployed by it, and by others it is."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

from services.agent.instances.crd_schemas import OPTIONAL, REQUIRED, RETRY_REFRESH, dropped
from services.agent.instances.engine_inspection import EngineInspection
from services.agent.instances.engine_requirements import UNREADABLE, Acceptance
from services.agent.objects.engine_state import EngineState
from services.agent.objects.fleet import Fleet
from services.cli.installation.rbac import KINDS, placed
from services.common.argocd_names import APPLICATION, GROUP, VERSION
from services.common.kubernetes import DEPLOYMENT, NAMESPACE, KubeClient, Manifest, NotFound, connect
from services.common.kubernetes.access import GRACE_SECONDS
from services.common.kubernetes.builtin_kinds import APPLICATION as APPLICATIONS
from services.common.kubernetes.builtin_kinds import CUSTOM_RESOURCE_DEFINITION
from services.common.messages import Applied, Failed
from services.common.package_data import RBAC
from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import EngineLog, Observations, app_project, application, row
from tests.component.rights import kubeconfig_with, token_of
from tests.unit.agent.instances_of_fleet import HERE, instance_row
from tests.unit.fake_clock import FakeClock

PROJECT = "app-project-t"


async def engine_of(kube: KubeClient, image: str) -> str:
    """A namespace with a repo server as Argo CD ships it."""
    name, labels = f"engine-{uuid.uuid4().hex[:8]}", {"app": "repo-server"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.create_object(NAMESPACE, namespace, field_manager="tests")
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "argocd-repo-server", "image": image}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    metadata = {"name": "argocd-repo-server", "namespace": name}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    await kube.create_object(DEPLOYMENT, deployment, field_manager="tests")
    return name


async def test_engine_when_it_lacks_fixes_and_settings_then_it_deploys_nothing_new_and_others_do(
    start_agent: StartAgent, kube: KubeClient, engine_log: EngineLog, observations: Observations
) -> None:
    old = await engine_of(kube, "quay.io/argoproj/argocd:v3.2.11")
    new = await engine_of(kube, "quay.io/argoproj/argocd:v3.4.13@sha256:" + "0" * 64)
    other = f"{INSTANCE}-2"
    start_agent({INSTANCE: old, other: new})
    for instance, namespace, name in ((INSTANCE, old, "here"), (other, new, "there")):
        engine_log.write(row(instance, app_project(PROJECT, namespace)), row(instance, application(name, namespace)))
    there = row(other, application("there", new))["digest"]
    here = row(INSTANCE, application("here", old))["digest"]
    until(lambda: observations.has("there", Applied(there)))
    until(
        lambda: observations.has(
            "here", Failed(here, permanent=True, message=ENGINE_NOT_ACCEPTED.text(), for_user=True)
        )
    )
    try:
        await kube.get_object(APPLICATIONS, old, "here")
    except NotFound:
        return
    raise AssertionError("it was made")


async def test_engine_when_it_may_not_be_read_for_half_a_minute_then_it_is_refused_until_it_may(
    kube: KubeClient, kubeconfig: Path, tmp_path: Path
) -> None:
    engine = await engine_of(kube, "quay.io/argoproj/argocd:v3.4.13")
    role = await agent_account(kube, engine)
    account = kubeconfig_with(await token_of(kube, engine, "agent"), kubeconfig, tmp_path)
    state, clock = EngineState(), FakeClock()
    fleet, states = Fleet(HERE, [instance_row(INSTANCE, namespace=engine)]), defaultdict(EngineState, {INSTANCE: state})
    async with asyncio.timeout(120), await connect(account) as agent:
        inspection = EngineInspection(agent, fleet, states, clock, Acceptance(unisolated=True))
        while not await inspection.inspect_engines():
            pass
        assert state.refusal == ""
        blind = role | {"rules": [rule for rule in role["rules"] if rule["apiGroups"] != ["apps"]]}
        await kube.apply_object(KINDS["Role"], blind, field_manager="tests")
        while await inspection.inspect_engines():
            pass
        assert state.refusal == "", "it may be an API server that does not know all rights yet"
        await clock.advance(GRACE_SECONDS)
        await inspection.inspect_engines()
        assert state.refusal == UNREADABLE
        await kube.apply_object(KINDS["Role"], role, field_manager="tests")
        while not await inspection.inspect_engines():
            pass
        assert state.refusal == ""


async def agent_account(kube: KubeClient, engine: str) -> Manifest:
    """Make account "agent" in an engine namespace; returns its role, which is the one that is shipped."""
    shipped = {item["kind"]: item for item in placed(RBAC, [engine]) if item["metadata"].get("namespace") == engine}
    binding = shipped["RoleBinding"]
    (subject,) = binding["subjects"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": subject["name"], "namespace": engine}}
    for item in (account, shipped["Role"], binding | {"subjects": [subject | {"namespace": engine}]}):
        await kube.apply_object(KINDS[item["kind"]], item, field_manager="tests")
    return shipped["Role"]


async def test_schemas_when_read_from_the_api_server_then_they_tell_what_it_would_drop(kube: KubeClient) -> None:
    fields = {kind: (*REQUIRED[kind], *OPTIONAL.get(kind, ())) for kind in REQUIRED}
    assert [*dropped(await kube.read_schemas(GROUP, VERSION), fields)] == []
    group = f"{uuid.uuid4().hex[:8]}.example"
    retry = nested({"limit": {"type": "integer"}})
    spec = nested({"project": {"type": "string"}, "syncPolicy": nested({"retry": retry})})
    schema = {"openAPIV3Schema": nested({"spec": spec})}
    names = {"kind": APPLICATION, "plural": "applications"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"applications.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }  # fmt: skip
    await kube.create_object(CUSTOM_RESOURCE_DEFINITION, definition, field_manager="tests")
    try:
        while not await is_served(kube, group):
            pass
        wanted = {APPLICATION: (RETRY_REFRESH, (*RETRY_REFRESH[:-1], "limit"), ("spec", "project"))}
        assert [*dropped(await kube.read_schemas(group, "v1"), wanted)] == [(APPLICATION, RETRY_REFRESH)]
    finally:
        await kube.delete_object(CUSTOM_RESOURCE_DEFINITION, None, f"applications.{group}")


def nested(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


async def is_served(kube: KubeClient, group: str) -> bool:
    try:
        document = await kube.read_schemas(group, "v1")
    except NotFound:
        return False
    return not [*dropped(document, {APPLICATION: (("spec", "project"),)})]
