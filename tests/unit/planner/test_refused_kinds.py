"""Kinds that confine a tenant's namespace are not the tenant's to deploy there."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from services.common.api_resource import GroupKind
from services.planner.domain.policy import CONFINING_KINDS, Policy
from services.planner.settings import PlannerSettings
from tests.unit.planner.given import changed, environment, secret
from tests.unit.planner.tenant import REMOTE, check, manifest
from tests.unit.planner.world import World

REQUIRED: dict[str, Any] = {
    "kafka_bootstrap_servers": "localhost:9092",
    "schema_registry_url": "http://localhost:8080",
    "database_url": "postgresql://planner@localhost/gitops",
}


def refused(world: World) -> Any:
    return manifest(world, "AppProject")["spec"].get("namespaceResourceBlacklist")


def test_project_when_its_tenant_may_deploy_locally_then_it_refuses_what_confines_a_namespace(world: World) -> None:
    world.take(changed(1))
    assert refused(world) == [{"group": "", "kind": "LimitRange"}, {"group": "", "kind": "ResourceQuota"}]


def test_project_when_the_operator_names_other_kinds_then_it_refuses_those(world: World) -> None:
    world.policy = Policy(refused_kinds=frozenset({GroupKind("networking.k8s.io", "NetworkPolicy")}))
    world.take(changed(1))
    assert refused(world) == [{"group": "networking.k8s.io", "kind": "NetworkPolicy"}]


def test_project_when_its_tenant_has_environments_only_then_it_refuses_nothing(world: World) -> None:
    world.policy = Policy(local_workspaces={})
    world.take(secret(1), environment(2), changed(3, content=REMOTE))
    check(world, 4)
    assert manifest(world, "AppProject")["spec"]["destinations"][0]["name"] != "in-cluster"
    assert refused(world) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ResourceQuota, LimitRange", CONFINING_KINDS),
        ("", frozenset()),
        ("apps/Deployment,,Pod ", {GroupKind("apps", "Deployment"), GroupKind("", "Pod")}),
    ],
)
def test_setting_when_it_lists_kinds_then_they_are_read_with_their_groups(text: str, expected: set[GroupKind]) -> None:
    assert PlannerSettings(**REQUIRED, refused_kinds=text).refused_kinds == expected


@pytest.mark.parametrize("text", ["resourcequotas", "v1/", "/Pod", "a/b/Pod", "*", "Apps/Pod", "Pod LimitRange"])
def test_setting_when_it_lists_what_is_no_kind_then_the_error_names_it(text: str) -> None:
    with pytest.raises(ValidationError, match=r"refused_kinds\n.*is no kind; write Kind"):
        PlannerSettings(**REQUIRED, refused_kinds=text)
