"""The objects of Argo CD, as documented."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from uuid import UUID

import pytest

from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.kinds.shared.resource import Cause
from services.planner.engines.argocd import applications
from services.planner.engines.argocd.implementation import ArgoCD
from services.planner.engines.interface import Confinement, Destination, Placement, engine_row
from services.planner.rows.compiled import Owner
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant
from tests.unit.planner.given import START, spec

TENANT = Tenant(UUID(int=1), "local", "team-a", 3, "engine-1")
PLACEMENT = Placement(TENANT, PlacementCandidate("engine-1", "argocd", accepting=True, engine=DEFAULT_ENGINE))
DEPLOYMENT = UUID(int=2)
AUTOMATED = {
    "automated": {"prune": True, "selfHeal": True, "allowEmpty": True},
    "syncOptions": ["PrunePropagationPolicy=background"],
    "retry": {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}, "refresh": True},
}


def application(**changes: Any) -> dict[str, Any]:
    parsed = GitOpsDeploymentSpec.model_validate(spec(**changes))
    manifest: dict[str, Any] = json.loads(applications.application(PLACEMENT, DEPLOYMENT, "uid-1", parsed))
    return manifest


def test_application_when_automated_then_it_is_exactly_as_documented() -> None:
    assert application(source={"targetRevision": "main"}) == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": "gitopsdepl-uid-1",
            "namespace": "argocd",
            "labels": {"databaseID": str(DEPLOYMENT), "app.kubernetes.io/managed-by": "gitops-service"},
        },
        "spec": {
            "project": f"app-project-{TENANT.id}",
            "source": {
                "repoURL": "https://git.example.com/team-a/config.git",
                "path": "apps/web",
                "targetRevision": "main",
            },
            "destination": {"name": "in-cluster", "namespace": "team-a"},
            "syncPolicy": AUTOMATED,
        },
    }


@pytest.mark.parametrize(
    ("changes", "sync_policy"),
    [
        pytest.param({"type": "AUTOMATED"}, AUTOMATED, id="case-does-not-matter"),
        pytest.param(
            {"syncPolicy": {"syncOptions": ["CreateNamespace=true"]}},
            AUTOMATED | {"syncOptions": ["PrunePropagationPolicy=background", "CreateNamespace=true"]},
            id="automated-with-options",
        ),
        pytest.param({"type": "manual"}, None, id="manual"),
        pytest.param(
            {"type": "manual", "syncPolicy": {"syncOptions": ["CreateNamespace=false"]}},
            {"syncOptions": ["CreateNamespace=false"]},
            id="manual-with-options",
        ),
    ],
)
def test_application_when_the_type_varies_then_the_sync_policy_does(
    changes: dict[str, Any], sync_policy: dict[str, Any] | None
) -> None:
    assert application(**changes)["spec"].get("syncPolicy") == sync_policy


def test_application_when_there_is_no_revision_then_the_field_is_left_out() -> None:
    assert "targetRevision" not in application()["spec"]["source"]


def test_project_when_compiled_then_it_confines_the_tenant_to_its_namespace() -> None:
    own = Destination(None, ("team-a",))
    (project,) = ArgoCD().projects(PLACEMENT, Confinement({"https://b", "https://a"}, (own,)))
    assert json.loads(project.text) == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {
            "name": f"app-project-{TENANT.id}",
            "namespace": "argocd",
            "labels": {"app.kubernetes.io/managed-by": "gitops-service"},
            "annotations": {"username": str(TENANT.id)},
        },
        "spec": {
            "sourceRepos": ["https://a", "https://b"],
            "destinations": [{"name": "in-cluster", "namespace": "team-a"}],
            "destinationServiceAccounts": [
                {
                    "server": "https://kubernetes.default.svc",
                    "namespace": "team-a",
                    "defaultServiceAccount": "gitops-service-sync",
                }
            ],
        },
    }


def test_row_when_compiled_then_its_manifest_is_canonical_and_its_digest_that_of_the_manifest() -> None:
    (project,) = ArgoCD().projects(PLACEMENT, Confinement((), ()))
    row = engine_row(ArgoCD(), PLACEMENT, project, Owner("Tenant", TENANT.id), "present", Cause(START, "trace"))
    assert row.manifest == json.dumps(json.loads(row.manifest), sort_keys=True, separators=(",", ":"))
    assert row.digest == hashlib.sha256(row.manifest.encode()).hexdigest()
    assert (row.lane, row.wave, row.name) == (f"app-project-{TENANT.id}", 0, f"app-project-{TENANT.id}")
