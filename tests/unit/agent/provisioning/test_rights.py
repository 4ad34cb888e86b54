"""The manifest of the provisioner's rights grants what it asks the API server for, and nothing else."""

from __future__ import annotations

from devstack.paths import ROOT
from services.agent.provisioning.installation import CLUSTER_ROLE_BINDING, NAMESPACED, ROLE
from services.cli.installation.crds import read_manifests
from services.common.kubernetes import APPLICATION, NAMESPACE

MADE = (*NAMESPACED, CLUSTER_ROLE_BINDING)
CONTROLLERS = ["gitops-service-argocd", "gitops-service-tenant", "gitops-service-impersonator"]


def test_provisioner_when_granted_then_exactly_what_it_needs() -> None:
    (role,) = [each for each in read_manifests(ROOT / "k8s/provisioner/rights.yaml") if each["kind"] == "ClusterRole"]
    granted = {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    wanted = [(each, verb) for each in MADE for verb in ("list", "create", "patch", "delete")]
    wanted += [(NAMESPACE, verb) for verb in ("get", "create", "delete")]
    wanted += [(ROLE, verb) for verb in ("escalate", "bind")]
    wanted += [(APPLICATION, "list")]
    binds = (ROLE.group, "clusterroles", "bind", tuple(CONTROLLERS))
    assert granted == {(each.group, each.plural, verb, ()) for each, verb in wanted} | {binds}
