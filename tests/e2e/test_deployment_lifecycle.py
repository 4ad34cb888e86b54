"""A GitOpsDeployment from its creation to its end, through every real component."""

from __future__ import annotations

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import APPLICATION, Rejected
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER
from tests.e2e.operators import sole_instance
from tests.e2e.tenant import Tenant, application_name, deployment, find


async def test_deployment_when_created_then_its_application_is_as_documented(tenant: Tenant) -> None:
    created = await tenant.create(source={"targetRevision": "main"})
    application = await tenant.application_of(created)
    assert application["metadata"]["labels"]["databaseID"]
    assert application["spec"]["source"] == {
        "repoURL": f"https://git.example.com/{tenant.namespace}/config.git",
        "path": "apps/web",
        "targetRevision": "main",
    }
    assert application["spec"]["destination"] == {"name": "in-cluster", "namespace": tenant.namespace}
    assert application["spec"]["project"].startswith("app-project-")
    assert application["spec"]["syncPolicy"] == {
        "automated": {"prune": True, "selfHeal": True, "allowEmpty": True},
        "syncOptions": ["PrunePropagationPolicy=background"],
        "retry": {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}, "refresh": True},
    }


async def test_project_when_its_tenant_deploys_then_it_lists_exactly_the_tenants_repository_and_namespace(
    tenant: Tenant, projects: Mirror
) -> None:
    application = await tenant.application_of(await tenant.create())
    name = application["spec"]["project"]
    await projects.until(f"{name} is there", lambda objects: find(objects, name) is not None)
    project = find(projects.objects, name) or {}
    assert project["spec"]["sourceRepos"] == [f"https://git.example.com/{tenant.namespace}/config"]
    assert project["spec"]["destinations"] == [{"name": "in-cluster", "namespace": tenant.namespace}]
    assert project["metadata"]["annotations"]["username"] == application["spec"]["project"].removeprefix("app-project-")


async def test_deployment_when_argocd_has_synced_it_then_its_status_says_so(tenant: Tenant) -> None:
    await tenant.create()
    status = await tenant.until_status("Synced", sync__status="Synced", health__status="Healthy")
    assert status["sync"]["revision"]
    assert status["resources"]
    assert status["operationState"]["phase"] == "Succeeded"
    assert status["reconciledState"]["source"]["path"] == "apps/web"
    assert status["reconciledState"]["destination"] == {"name": "", "namespace": tenant.namespace}


async def test_deployment_when_updated_then_application_and_status_follow(tenant: Tenant) -> None:
    created = await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")
    await tenant.patch("web", {"spec": {"source": {"path": "apps/other"}}})
    await tenant.until_status("compared with the new path", reconciledState__source__path="apps/other")
    application = await tenant.application_of(created)
    assert application["spec"]["source"]["path"] == "apps/other"


async def test_deployment_when_made_manual_then_the_sync_policy_goes(tenant: Tenant) -> None:
    created = await tenant.create()
    await tenant.application_of(created)
    await tenant.patch("web", {"spec": {"type": "manual"}})
    await tenant.applications.until(
        "no sync policy",
        lambda objects: (
            "syncPolicy" not in (find(objects, application_name(created)) or {"spec": {"syncPolicy": 1}})["spec"]
        ),
    )


async def test_deployment_when_deleted_then_its_application_and_the_last_ones_project_go(
    tenant: Tenant, projects: Mirror
) -> None:
    created = await tenant.create()
    application = await tenant.application_of(created)
    await tenant.delete()
    await tenant.until_application_gone(created)
    project = application["spec"]["project"]
    await projects.until("the project is gone", lambda objects: find(objects, project) is None)


async def test_deployment_when_deleted_with_the_finalizer_then_it_stays_until_the_application_is_gone(
    tenant: Tenant,
) -> None:
    created = await tenant.create(finalizers=(FINALIZER,))
    await tenant.application_of(created)
    await tenant.delete()
    await tenant.deployments.until("released", lambda objects: (tenant.namespace, "web") not in objects)
    assert find(tenant.applications.objects, application_name(created)) is None


async def test_deployment_when_recreated_under_its_name_then_it_has_an_application_of_its_own(tenant: Tenant) -> None:
    first = await tenant.create()
    await tenant.application_of(first)
    await tenant.delete()
    second = await tenant.create()
    await tenant.application_of(second)
    await tenant.until_application_gone(first)
    await tenant.until_status("Synced", sync__status="Synced")


async def test_deletion_when_argocd_never_finishes_then_it_is_forced_and_others_do_not_wait(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    stuck = await tenant.create(source={"path": "simulate/stuck-deletion"}, finalizers=(FINALIZER,))
    await tenant.until_status("deployed", sync__status="Synced")
    ordinary = await other_tenant.create()
    await other_tenant.application_of(ordinary)
    await tenant.delete()
    await other_tenant.delete()
    await other_tenant.until_application_gone(ordinary)
    assert find(tenant.applications.objects, application_name(stuck)) is not None
    await tenant.until_application_gone(stuck, timeout_seconds=90)
    await tenant.deployments.until("released", lambda objects: (tenant.namespace, "web") not in objects)
    await tenant.create(source={"path": "simulate/silent"})
    told = await tenant.until_condition("ResourcesLeftBehind", "True")
    assert told["message"].endswith(f": in this namespace Deployment.apps {tenant.namespace}/guestbook")
    await tenant.patch("web", {"spec": {"source": {"path": "apps/web"}}})
    await tenant.until_condition("ResourcesLeftBehind", "False")


async def test_application_when_edited_by_somebody_then_it_is_as_before_at_once(tenant: Tenant) -> None:
    created = await tenant.create()
    application = await tenant.application_of(created)
    namespace = application["metadata"]["namespace"]
    edited = await tenant.kube.patch_object(
        APPLICATION, namespace, application_name(created), {"spec": {"project": "default"}}, field_manager="intruder"
    )
    version = int(edited["metadata"]["resourceVersion"])
    await tenant.applications.until(
        "the project is the tenant's again",
        lambda objects: (
            (live := objects.get((namespace, application_name(created)))) is not None
            and live["spec"]["project"] != "default"
            and int(live["metadata"]["resourceVersion"]) > version
        ),
        timeout_seconds=30,
    )


async def test_application_when_deleted_by_somebody_then_it_is_back(tenant: Tenant) -> None:
    created = await tenant.create()
    application = await tenant.application_of(created)
    uid = application["metadata"]["uid"]
    await tenant.kube.delete_object(APPLICATION, application["metadata"]["namespace"], application_name(created))
    await tenant.applications.until(
        "a new Application",
        lambda objects: (
            (live := find(objects, application_name(created))) is not None and live["metadata"]["uid"] != uid
        ),
    )


async def test_argocd_condition_when_it_comes_and_goes_then_the_cr_shows_both(tenant: Tenant) -> None:
    await tenant.create(source={"path": "simulate/comparison-error"})
    shown = await tenant.until_condition("ComparisonError", "True")
    assert shown["reason"] == "ComparisonError"
    assert shown["message"]
    await tenant.patch("web", {"spec": {"source": {"path": "apps/web"}}})
    resolved = await tenant.until_condition("ComparisonError", "False")
    assert resolved["reason"] == "ComparisonErrorResolved"
    assert not resolved.get("message")


@pytest.mark.parametrize("instance", ["gitops-service-argocd", "gitops-service-argocd-2"])
async def test_tenant_when_one_instance_alone_accepts_then_it_is_served_there(
    stack: HostedStack, tenant: Tenant, instance: str
) -> None:
    with sole_instance(stack, instance):
        application = await tenant.application_of(await tenant.create())
    assert application["metadata"]["namespace"] == instance


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"type": "sometimes"}, "spec type must be manual or automated", id="type"),
        pytest.param(
            {"destination": {"namespace": "kube-system"}},
            "the environment field should not be empty when the namespace is non-empty",
            id="namespace-without-environment",
        ),
        pytest.param(
            {"syncPolicy": {"syncOptions": ["Replace=true"]}},
            "is either mispelled or is not supported",
            id="sync-option",
        ),
        pytest.param({"source": {"path": "x" * 2**20}}, "may not be more than", id="one-mebibyte-of-path"),
        pytest.param({"source": {"repoURL": None}}, "repoURL", id="no-repository"),
    ],
)
async def test_api_server_when_a_spec_cannot_be_right_then_it_refuses_with_the_reason(
    tenant: Tenant, spec: dict[str, object], message: str
) -> None:
    with pytest.raises(Rejected) as refusal:
        await tenant.create(**spec)
    assert message in str(refusal.value)


async def test_api_server_when_the_version_is_unknown_then_it_does_not_know_the_resource(tenant: Tenant) -> None:
    manifest = deployment(tenant.namespace) | {"apiVersion": "managed-gitops.redhat.com/v1beta9"}
    with pytest.raises(Rejected, match=r"v1beta9"):
        await tenant.kube.create_object(GITOPS_DEPLOYMENT, manifest, field_manager="e2e")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "spec.source.path is a required field and it cannot be empty"),
        ("/", "spec.source.path cannot be '/'"),
    ],
)
async def test_deployment_when_its_path_is_invalid_then_the_documented_condition_shows_and_goes(
    tenant: Tenant, path: str, message: str
) -> None:
    await tenant.create(source={"path": path})
    shown = await tenant.until_condition("ErrorOccurred", "True")
    assert (shown["reason"], shown["message"]) == ("ErrorOccurred", message)
    await tenant.patch("web", {"spec": {"source": {"path": "apps/web"}}})
    resolved = await tenant.until_condition("ErrorOccurred", "False")
    assert resolved["reason"] == "ErrorOccurredResolved"
    await tenant.until_status("Synced", sync__status="Synced")


async def test_deployment_when_an_update_is_invalid_then_what_runs_stays(tenant: Tenant) -> None:
    created = await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")
    await tenant.patch("web", {"spec": {"source": {"path": "/"}}})
    await tenant.until_condition("ErrorOccurred", "True")
    application = await tenant.application_of(created)
    assert application["spec"]["source"]["path"] == "apps/web"


async def test_deployment_when_its_environment_does_not_exist_then_the_documented_condition_shows(
    tenant: Tenant,
) -> None:
    await tenant.create(destination={"environment": "nowhere", "namespace": "x"})
    shown = await tenant.until_condition("ErrorOccurred", "True")
    assert shown["message"] == (
        "Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly "
        "defined, and have valid credentials"
    )
