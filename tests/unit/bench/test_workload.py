"""The floor writes what the product would."""

from __future__ import annotations

import json
from typing import Any

from bench.workload import application, deployment
from services.common.argocd_names import application_name, uid_of
from services.common.ownership import MANAGED_BY, MANAGER
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.planner.domain.ids import resource_id, tenant_id
from services.planner.engines.argocd import applications
from services.planner.engines.interface import Placement
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant


def compiled(tenant: str, uid: str) -> dict[str, Any]:
    placement = Placement(
        Tenant(tenant_id("bench", tenant), "bench", tenant, 0, "argocd-1"),
        PlacementCandidate("argocd-1", "argocd-1", True, DEFAULT_ENGINE),
    )
    spec = GitOpsDeploymentSpec.model_validate(deployment(tenant, "app")["spec"])
    made: dict[str, Any] = json.loads(applications.application(placement, resource_id("bench", uid), uid, spec))
    return made


def test_application_when_written_by_a_bare_client_then_it_is_the_compiled_one_with_another_mark() -> None:
    written = application("argocd-1", "bench-000", "app")
    expected = compiled("bench-000", uid_of(written["metadata"]["name"]))
    assert written["metadata"]["labels"].pop(MANAGED_BY) != MANAGER
    assert expected["metadata"]["labels"].pop(MANAGED_BY) == MANAGER
    assert written == expected


def test_applications_when_of_two_deployments_then_their_names_differ_and_are_as_long_as_real_ones() -> None:
    names = {application("argocd-1", tenant, name)["metadata"]["name"] for tenant in "ab" for name in "cd"}
    assert {len(name) for name in names} == {len(application_name("0d9c9a9e-0000-4000-8000-000000000000"))}
    assert len(names) == 4
