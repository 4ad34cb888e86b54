"""The Application of each GitOpsDeployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chaos.api import APPLICATION_PREFIX, DATABASE_ID
from chaos.checker.difference import differing_parts
from chaos.checker.expected import OURS, Expected, one_of
from chaos.checker.tenants import Deployment, Tenant
from chaos.identity import resource_id
from services.common.kubernetes import Manifest


def applications(tenant: Tenant) -> Iterator[Expected]:
    """All of a tenant's."""
    for deployment in tenant.deployments:
        labels = OURS | {DATABASE_ID: resource_id(deployment.uid)}
        allowed = [{"labels": labels, "spec": spec} for spec in deployment.allowed]
        name = ("Application", f"{APPLICATION_PREFIX}{deployment.uid}")
        problems = _unplaced(deployment, labels) if deployment.has_unknown_past else one_of(allowed, _look)
        yield Expected(name, tenant.name, problems, deployment.is_certain)


def _unplaced(deployment: Deployment, labels: Manifest) -> Callable[[Manifest], list[str]]:
    """What must be true of an Application wherever it was for."""
    wanted = {"labels": labels, "source": deployment.manifest["spec"]["source"]}

    def problems(item: Manifest) -> list[str]:
        return differing_parts(wanted, {"labels": item["metadata"].get("labels"), "source": item["spec"]["source"]})

    return problems


def _look(item: Manifest) -> Manifest:
    # An empty name of a cluster is none.
    destination = {name: value for name, value in item["spec"]["destination"].items() if value}
    return {"labels": item["metadata"].get("labels") or {}, "spec": item["spec"] | {"destination": destination}}
