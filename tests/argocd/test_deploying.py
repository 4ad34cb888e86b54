"""From a commit to what is deployed, and back to the user's resource."""

from __future__ import annotations

import pytest

from devstack.harness.mirror import Mirror
from services.common.kubernetes import CONFIG_MAP, ApiResource, Manifest
from services.kinds.shared.api_group import FINALIZER
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import NAME, Sources, config_map, service, workload
from tests.e2e.tenant import USER, Tenant, condition, find

DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments")
REFUSED_KEY = "a valid config key must consist of alphanumeric characters"
UNREADABLE = "apiVersion: v1\nkind: ConfigMap\n  metadata: {name: [settings\n"


async def test_commit_when_it_is_there_or_follows_then_it_is_deployed_and_the_status_names_it(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    repository = source()
    await tenant.create(source=repository.spec())
    await tenant.until_status("the first commit", sync__revision=repository.repository.head(), **HEALTHY)
    assert deployed.value(tenant.namespace) == "first"
    second = repository.commit(config_map("second"))
    await tenant.until_status("the second commit", sync__revision=second, **HEALTHY)
    await deployed.until(tenant.namespace, "second")


async def test_resources_when_deployed_then_the_status_names_each_with_its_health(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    """Nobody rolls a Deployment out here, so its health waits for its status, which the test writes."""
    repository = source(config_map("first"), workload("web"), service("web"))
    await tenant.create(source=repository.spec())
    await tenant.until_status("rolling out", sync__status="Synced", health__status="Progressing")
    shared = {"version": "v1", "namespace": tenant.namespace, "status": "Synced"}
    expected = {
        "ConfigMap": shared | {"kind": "ConfigMap", "name": NAME},
        "Service": shared | {"kind": "Service", "name": "web", "health": {"status": "Healthy"}},
        "Deployment": shared | {"kind": "Deployment", "group": "apps", "name": "web"},
    }
    found = resources_of(tenant)
    health = found["Deployment"].pop("health")
    assert (found, health["status"]) == (expected, "Progressing")
    assert "Waiting for rollout to finish" in health["message"]
    status = {"status": {"observedGeneration": 1}}
    identity = (tenant.namespace, "web")
    await deployed.kube.patch_object(DEPLOYMENT, *identity, status, field_manager=USER, subresource="status")
    await tenant.until_status("rolled out", **HEALTHY)
    expected["Deployment"] |= {"health": {"status": "Healthy"}}
    assert resources_of(tenant) == expected


def resources_of(tenant: Tenant) -> dict[str, Manifest]:
    """What the status says of each, by kind."""
    return {item["kind"]: dict(item) for item in tenant.status()["resources"]}


async def test_manifest_when_it_is_removed_from_git_then_what_it_made_is_removed(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    extra = config_map("extra", "extra")
    repository = source(config_map("first"), extra)
    await tenant.create(source=repository.spec())
    await deployed.until(tenant.namespace, "extra", "extra")
    commit = repository.remove(extra)
    await deployed.until(tenant.namespace, None, "extra")
    await tenant.until_status("it is so", sync__revision=commit, **HEALTHY)
    assert deployed.value(tenant.namespace) == "first"


async def test_resource_when_somebody_changes_or_deletes_it_then_it_is_as_git_says_again(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    await tenant.create(source=source().spec())
    await tenant.until_status("deployed", **HEALTHY)
    identity = (tenant.namespace, NAME)
    edited = await deployed.kube.patch_object(CONFIG_MAP, *identity, {"data": {"value": "edited"}}, field_manager=USER)
    await deployed.config_maps.until(
        "the edit is undone",
        lambda objects: version(objects[identity]) > version(edited) and deployed.value(*identity) == "first",
    )
    await deployed.kube.delete_object(CONFIG_MAP, *identity)
    await deployed.config_maps.until(
        "it is there again",
        lambda objects: identity in objects and objects[identity]["metadata"]["uid"] != edited["metadata"]["uid"],
    )
    assert deployed.value(*identity) == "first"


def version(item: Manifest) -> int:
    """Order of an object's changes."""
    return int(item["metadata"]["resourceVersion"])


async def test_manifest_when_it_cannot_be_read_then_the_status_says_so_until_it_is_mended(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    repository = source()
    repository.write("settings.yaml", UNREADABLE)
    await tenant.create(source=repository.spec())
    error = await tenant.until_condition("ComparisonError", "True")
    assert 'Failed to unmarshal "settings.yaml"' in error["message"]
    assert tenant.status()["sync"]["status"] == "Unknown"
    assert deployed.value(tenant.namespace) is None
    repository.repository.commit({"app/settings.yaml": None})
    await tenant.until_status("deployed", **HEALTHY)
    resolved = condition(tenant.status(), "ComparisonError")
    assert (resolved["status"], resolved["reason"], resolved["message"]) == ("False", "ComparisonErrorResolved", "")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"path": "nowhere"}, "nowhere: app path does not exist"),
        ({"targetRevision": "no-such-branch"}, "unable to resolve 'no-such-branch' to a commit SHA"),
        ({"repoURL": "https://127.0.0.1:9/nobody/listens.git"}, "connection refused"),
    ],
    ids=["path", "revision", "server"],
)
async def test_source_when_it_is_not_there_then_the_status_has_argocds_own_words(
    tenant: Tenant, source: Sources, part: dict[str, str], message: str
) -> None:
    await tenant.create(source=source().spec(**part))
    error = await tenant.until_condition("ComparisonError", "True")
    assert message in error["message"]


async def test_manifest_when_the_cluster_refuses_it_then_a_sync_error_says_why_until_a_mended_one_is_deployed(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    bad = config_map("bad") | {"data": {"key with blanks": "refused"}}
    repository = source(bad)
    await tenant.create(source=repository.spec())
    error = await tenant.until_condition("SyncError", "True")
    assert (error["reason"], REFUSED_KEY in error["message"]) == ("SyncError", True)
    assert tenant.status()["operationState"]["phase"] == "Running"  # Argo CD tries again, and has no such condition
    mended = repository.commit(config_map("mended"))
    await tenant.until_status("the mended commit", sync__revision=mended, **HEALTHY)
    await deployed.until(tenant.namespace, "mended")
    resolved = await tenant.until_condition("SyncError", "False")
    assert (resolved["reason"], resolved["message"]) == ("SyncErrorResolved", "")


@pytest.mark.parametrize("finalizers", [(), (FINALIZER,)], ids=["without finalizer", "with finalizer"])
async def test_deployment_when_deleted_then_nothing_is_left_in_the_cluster(
    tenant: Tenant, source: Sources, deployed: Deployed, projects: Mirror, finalizers: tuple[str, ...]
) -> None:
    created = await tenant.create(source=source().spec(), finalizers=finalizers)
    await tenant.until_status("deployed", **HEALTHY)
    project = (await tenant.application_of(created))["spec"]["project"]
    await tenant.delete()
    await tenant.deployments.until("the CR is gone", lambda objects: (tenant.namespace, "web") not in objects)
    if finalizers:
        assert deployed.value(tenant.namespace) is None
    await deployed.until(tenant.namespace, None)
    await tenant.until_application_gone(created)
    await projects.until("its project is gone", lambda objects: find(objects, project) is None)
