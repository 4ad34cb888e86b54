"""Real Argo CD in the local stack: it deploys, and the facts about it that our agents are built on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.git.site import PRIVATE, USERNAME, site_of
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.mirror import mirrored
from devstack.setup.argocd_requirements import FOLDER, RIGHTS
from devstack.stack.argocd_instance import CONTROLLER_ACCOUNT
from devstack.toolchain.install import ARGOCD_VARIANTS
from services.agent.objects.reconciliation import REFRESH
from services.cli.installation.rbac import GROUP as RBAC_GROUP
from services.cli.installation.rbac import KINDS as RBAC_KINDS
from services.common.kubernetes import APP_PROJECT, APPLICATION, Manifest, NotFound, connect
from services.planner.engines.argocd.applications import SYNC_ACCOUNT, app_projects
from services.planner.engines.interface import Confinement, Destination, Placement
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant
from tests.stack.laboratory import CONFIG_MAP, ENGINE, OPTIONS, USER, Laboratory, add_submodule, config_map, status

HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: endless
  annotations: {argocd.argoproj.io/hook: PreSync}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: nobody-runs-it, image: nothing}]
"""


ROLE_BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: mine}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default}]
"""
IMPERSONATION = FOLDER / "impersonation"

VERSIONS = tuple(ARGOCD_VARIANTS)
"""Of Argo CD, an instance of each."""


@pytest.fixture(scope="module")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """Argo CD without our services."""
    options = (*OPTIONS, *(argument for version in VERSIONS for argument in ("--argocd-version", version)))
    with hosted(stacks_folder / "argocd", *options, output=stacks_folder / "argocd.out") as running:
        yield running


@pytest.fixture(scope="module")
async def lab(stack: HostedStack) -> AsyncIterator[Laboratory]:
    """Everything to make Applications with."""
    own, remote = (Path(stack.environment[name]) for name in ("KUBECONFIG", "REMOTE_KUBECONFIG"))
    async with await connect(own) as kube, await connect(remote) as far, mirrored(kube, APPLICATION) as applications:
        yield Laboratory(kube, far, site_of(stack.environment), applications)


@pytest.mark.parametrize(
    ("number", "engine", "version"), [*zip(count(1), ENGINE_NAMESPACES, VERSIONS, strict=False)], ids=VERSIONS
)
async def test_application_when_created_then_an_argo_cd_of_its_version_deploys_it_until_it_is_deleted(
    stack: HostedStack, lab: Laboratory, number: int, engine: str, version: str
) -> None:
    for component in ("application-controller", "repo-server"):
        assert f"v{version}." in stack.state.log(f"argocd-{component}-{number}").read_text()
    tenant = await lab.tenant()
    await lab.project(tenant, engine=engine)
    _, path = lab.repository()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant, engine=engine)
    await lab.until_healthy(name, engine)
    assert await lab.value_in(tenant) == "first"
    await lab.delete(name, engine)
    await lab.until_gone(name, engine)
    with pytest.raises(NotFound):
        await lab.kube.get_object(CONFIG_MAP, tenant, "settings")


async def test_commit_when_made_then_it_is_deployed(lab: Laboratory) -> None:
    tenant = await lab.tenant()
    await lab.project(tenant)
    repository, path = lab.repository()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant)
    await lab.until_healthy(name)
    commit = repository.commit({"settings.yaml": config_map("second")})
    await lab.until(name, "is at the commit", lambda item: _is_synced_to(item, commit))
    assert await lab.value_in(tenant) == "second"


async def test_repository_when_it_has_a_submodule_then_only_the_repository_itself_is_fetched(lab: Laboratory) -> None:
    """Argo CD cannot deploy from a repository of which it fetches a submodule that is nowhere."""
    tenant = await lab.tenant()
    await lab.project(tenant)
    repository, path = lab.repository()
    add_submodule(repository, f"{lab.site.https_url}/public/nowhere.git")
    await lab.until_healthy(await lab.deploy(f"{lab.site.https_url}/{path}", tenant))
    assert await lab.value_in(tenant) == "first"


async def test_destination_when_the_project_does_not_list_it_then_argocd_refuses(lab: Laboratory) -> None:
    tenant, other = await lab.tenant(), await lab.tenant()
    await lab.project(tenant)
    _, path = lab.repository()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", other, project=tenant)
    await lab.until_trouble(name, "InvalidSpecError", "do not match any of the allowed destinations")


async def test_application_when_it_is_in_the_default_project_then_argocd_refuses(lab: Laboratory) -> None:
    _, path = lab.repository()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", await lab.tenant(), project="default")
    await lab.until_trouble(name, "InvalidSpecError", "is not permitted in project")


async def test_application_when_its_project_permits_it_later_then_argocd_compares_it_again_only_when_asked(
    lab: Laboratory,
) -> None:
    """What an agent reads in the refusal, see ``services/agent/objects/stale_project.py``."""
    tenant = await lab.tenant()
    await lab.permit(await lab.project(tenant))
    url = f"{lab.site.https_url}/{lab.repository()[1]}"
    name, refusal = await lab.deploy(url, tenant), f"application repo {url} is not permitted in project '{tenant}'"
    await lab.until_trouble(name, "InvalidSpecError", refusal)
    # As one that was compared a moment ago: each resync (--app-resync) looks again at one that never was.
    spec = lab.applications.objects[ENGINE, name]["spec"]
    compared = {"source": spec["source"], "destination": spec["destination"]}
    since = {"reconciledAt": "2100-01-01T00:00:00Z", "sync": {"status": "Unknown", "comparedTo": compared}}
    await lab.patch(name, {"status": since})
    # Looks that began before that are over when a later one is.
    await lab.until_trouble(await lab.deploy(url, tenant), "InvalidSpecError", refusal)
    await lab.permit(tenant, url)
    other = await lab.deploy(url, tenant, automated=False)
    await lab.until(other, "is compared with the project as it is now", lambda item: "reconciledAt" in status(item))
    assert [each["message"] for each in status(lab.applications.objects[ENGINE, name])["conditions"]] == [refusal]
    await lab.patch(name, {"metadata": {"annotations": {REFRESH: "normal"}}})
    await lab.until_healthy(name)


async def test_application_when_its_project_is_missing_then_argocd_says_so(lab: Laboratory) -> None:
    tenant = await lab.tenant()
    name = await lab.deploy(f"{lab.site.https_url}/{lab.repository()[1]}", tenant, project=tenant)
    refusal = f"Application referencing project {tenant} which does not exist"
    await lab.until_trouble(name, "InvalidSpecError", refusal)


async def test_private_repository_when_there_are_no_credentials_then_the_application_says_so(lab: Laboratory) -> None:
    tenant = await lab.tenant()
    await lab.project(tenant)
    _, path = lab.repository(PRIVATE)
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant)
    await lab.until_trouble(name, "ComparisonError", "authentication required")


async def test_private_repository_when_a_project_has_credentials_then_it_alone_can_deploy_from_it(
    lab: Laboratory,
) -> None:
    tenant, other = await lab.tenant(), await lab.tenant()
    _, path = lab.repository(PRIVATE)
    url = f"{lab.site.https_url}/{path}"
    login = {"username": USERNAME, "password": lab.site.password}
    await lab.secret("repository", {"type": "git", "url": url, "project": await lab.project(tenant)} | login)
    await lab.project(other)
    await lab.until_healthy(await lab.deploy(url, tenant))
    await lab.until_trouble(await lab.deploy(url, other), "ComparisonError", "authentication required")


async def test_repository_when_reached_by_ssh_then_it_is_deployed_with_the_projects_key(lab: Laboratory) -> None:
    tenant = await lab.tenant()
    _, path = lab.repository(PRIVATE)
    url = f"{lab.site.ssh_url}/{path}"
    key = lab.site.client_key.read_text()
    await lab.secret("repository", {"url": url, "sshPrivateKey": key, "project": await lab.project(tenant)})
    await lab.until_healthy(await lab.deploy(url, tenant))
    assert await lab.value_in(tenant) == "first"


async def test_cluster_when_it_is_another_then_what_is_deployed_there_is_deleted_with_the_application(
    stack: HostedStack, lab: Laboratory
) -> None:
    tenant = await lab.tenant(lab.remote)
    access = _access(Path(stack.environment["REMOTE_KUBECONFIG"]))
    server = f"{access['server']}?managedEnvironment={tenant}"
    project = await lab.project(tenant, server=server)
    await lab.secret("cluster", {"name": tenant, "server": server, "config": access["config"], "project": project})
    _, path = lab.repository()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant, server=server)
    await lab.until_healthy(name)
    assert await lab.value_in(tenant, lab.remote) == "first"
    await lab.delete(name)
    await lab.until_gone(name)
    with pytest.raises(NotFound):
        await lab.remote.get_object(CONFIG_MAP, tenant, "settings")


async def test_operation_when_written_into_a_manual_application_then_it_syncs_and_its_info_comes_back(
    lab: Laboratory,
) -> None:
    tenant = await lab.tenant()
    await lab.project(tenant)
    repository, path = lab.repository()
    commit = repository.head()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant, automated=False)
    await lab.until(name, "is compared", lambda item: "sync" in status(item))
    await lab.patch(name, _operation("run-1", commit))
    ended = await lab.until(name, "ends the run", lambda item: _phase(item, "run-1") == "Succeeded")
    assert "operation" not in ended
    assert ended["status"]["operationState"]["syncResult"]["revision"] == commit
    assert await lab.value_in(tenant) == "first"


async def test_operation_when_its_phase_is_set_to_terminating_then_it_ends_and_others_can_follow(
    lab: Laboratory,
) -> None:
    name = await _stuck(lab)
    async with lab.ending(name):
        ended = await lab.until(name, "ends the run", lambda item: _phase(item, "stuck") == "Failed")
    assert ended["status"]["operationState"]["message"] == "Operation terminated"
    assert "operation" not in ended


async def test_deletion_when_an_operation_runs_then_it_happens_once_that_is_terminated(lab: Laboratory) -> None:
    name = await _stuck(lab)
    await lab.delete(name)
    await lab.until(name, "is being deleted", lambda item: "deletionTimestamp" in item["metadata"])
    async with lab.ending(name):
        await lab.until_gone(name)


@pytest.mark.parametrize("component", ["application-controller", "repo-server", "redis"])
async def test_component_when_killed_and_started_again_then_what_was_created_meanwhile_is_deployed(
    stack: HostedStack, lab: Laboratory, component: str
) -> None:
    tenant = await lab.tenant()
    await lab.project(tenant)
    _, path = lab.repository()
    stack.kill(f"argocd-{component}-1")
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant)
    stack.start(f"argocd-{component}-1")
    await lab.until_healthy(name)


@dataclass(frozen=True)
class Impersonating:
    """A tenant on an instance that impersonates."""

    engine: str
    tenant: str
    project: str
    """As our planner compiles it."""

    def may_not(self, resource: str, group: str, namespace: str) -> str:
        """How the API server refuses it, to read it first."""
        account = f"system:serviceaccount:{self.tenant}:{SYNC_ACCOUNT}"
        what = f'"{resource}" in API group "{group}" in the namespace "{namespace}"'
        return f'User "{account}" cannot get resource {what}'


@pytest.fixture
async def impersonating(lab: Laboratory) -> AsyncIterator[Impersonating]:
    engine, tenant = ENGINE_NAMESPACES[-1], await lab.tenant()
    for manifest in (*_bound_to_impersonate(engine), *_account(tenant)):
        await lab.kube.apply_object(RBAC_KINDS[manifest["kind"]], manifest, field_manager=USER)
    placement = Placement(
        Tenant(uuid4(), "local", tenant, 0, engine), PlacementCandidate(engine, engine, accepting=True, engine="argocd")
    )
    (project,) = map(json.loads, app_projects(placement, Confinement(["*"], (Destination(None, (tenant,)),))).values())
    await lab.kube.create_object(APP_PROJECT, project, field_manager=USER)
    data = yaml.safe_load((IMPERSONATION / "enabled.yaml").read_text())["data"]
    await lab.configure(engine, data)
    yield Impersonating(engine, tenant, project["metadata"]["name"])
    await lab.configure(engine, dict.fromkeys(data))


async def test_instance_when_it_impersonates_then_a_sync_may_do_what_the_account_of_its_tenant_may(
    lab: Laboratory, impersonating: Impersonating
) -> None:
    engine, tenant = impersonating.engine, impersonating.tenant
    _, path = lab.repository()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant, engine=engine, project=impersonating.project)
    await lab.until_healthy(name, engine)
    assert await lab.value_in(tenant) == "first"
    await lab.delete(name, engine)
    await lab.until_gone(name, engine)
    with pytest.raises(NotFound):
        await lab.kube.get_object(CONFIG_MAP, tenant, "settings")


async def test_instance_when_it_impersonates_then_an_account_reaches_no_other_namespace_though_its_project_does(
    lab: Laboratory, impersonating: Impersonating
) -> None:
    engine, tenant, other = impersonating.engine, impersonating.tenant, await lab.tenant()
    widened = [{"op": "add", "path": "/spec/destinations/-", "value": {"name": "in-cluster", "namespace": other}}]
    await lab.kube.patch_object(APP_PROJECT, engine, impersonating.project, widened, field_manager=USER)
    taken = config_map("taken").replace("name: settings", f"name: settings\n  namespace: {other}")
    _, path = lab.repository(taken=taken, role_binding=ROLE_BINDING)
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant, engine=engine, project=impersonating.project)
    for refused in (
        impersonating.may_not("rolebindings", RBAC_GROUP, tenant),
        impersonating.may_not("configmaps", "", other),
    ):
        await lab.until(name, f"is refused: {refused}", lambda item, text=refused: text in _said(item), engine)


async def test_instance_when_it_impersonates_then_it_syncs_nothing_for_a_project_without_accounts(
    lab: Laboratory, impersonating: Impersonating
) -> None:
    """As that of an environment: nothing tells as whom its token comes."""
    engine, tenant = impersonating.engine, await lab.tenant()
    await lab.project(tenant, engine=engine)
    _, path = lab.repository()
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant, engine=engine)
    await lab.until(
        name,
        "is not synced",
        lambda item: "failed to find a matching service account to impersonate" in _said(item),
        engine,
    )


async def _stuck(lab: Laboratory) -> str:
    """An Application with a running operation that never ends by itself: there is nobody to run its hook."""
    tenant = await lab.tenant()
    await lab.project(tenant)
    _, path = lab.repository(settings=config_map("first"), hook=HOOK)
    name = await lab.deploy(f"{lab.site.https_url}/{path}", tenant, automated=False)
    await lab.until(name, "is compared", lambda item: "sync" in status(item))
    await lab.patch(name, _operation("stuck", "HEAD"))
    await lab.until(
        name,
        "waits for its hook",
        lambda item: status(item).get("operationState", {}).get("message", "").startswith("waiting for completion"),
    )
    return name


def _operation(run: str, revision: str) -> Manifest:
    return {"operation": {"info": [{"name": "run", "value": run}], "sync": {"revision": revision}}}


def _phase(application: Manifest, run: str) -> str:
    """Of the operation with this info; empty if it is not the last one."""
    state: dict[str, Any] = status(application).get("operationState", {})
    is_it = {"name": "run", "value": run} in state.get("operation", {}).get("info", [])
    return state["phase"] if is_it else ""


def _said(application: Manifest) -> str:
    """Of the last operation, and of each resource in it."""
    state: dict[str, Any] = status(application).get("operationState", {})
    resources = state.get("syncResult", {}).get("resources") or []
    return "\n".join([state.get("message", ""), *(item.get("message", "") for item in resources)])


def _bound_to_impersonate(engine: str) -> list[Manifest]:
    """The rights of the controller that is in ``engine``."""
    role = yaml.safe_load((RIGHTS / "impersonates.yaml").read_text())
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": role["metadata"],
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER_ACCOUNT, "namespace": engine}],
    }
    return [role, binding]


def _account(tenant: str) -> list[Manifest]:
    """What a platform makes in a tenant's namespace, as kustomize does it."""
    account, binding = yaml.safe_load_all((IMPERSONATION / "tenant" / "account.yaml").read_text())
    for manifest in (account, binding):
        manifest["metadata"]["namespace"] = tenant
    binding["subjects"][0]["namespace"] = tenant
    return [account, binding]


def _is_synced_to(application: Manifest, revision: str) -> bool:
    sync = status(application).get("sync", {})
    return (sync.get("status"), sync.get("revision")) == ("Synced", revision)


def _access(kubeconfig: Path) -> dict[str, str]:
    """Address and credentials of a cluster, as Argo CD's cluster secrets have them."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = {"insecure": False, "caData": cluster["certificate-authority-data"]}
    return {
        "server": cluster["server"],
        "config": json.dumps({"bearerToken": user["token"], "tlsClientConfig": tls}),
    }
