"""TENANT_QUOTAS: what a tenant may have, by kind."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from services.kinds.registry import REGISTRY
from services.planner.settings import PlannerSettings

REQUIRED: dict[str, Any] = {
    "database_url": "postgresql://planner@localhost/gitops",
    "kafka_bootstrap_servers": "localhost:9092",
    "schema_registry_url": "http://localhost:8081",
}
DEFAULTS = {kind.name: kind.default_quota for kind in REGISTRY.kinds}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", {}),
        ("GitOpsDeployment=5", {"GitOpsDeployment": 5}),
        (" Secret=0 , GitOpsDeploymentSyncRun=7,", {"Secret": 0, "GitOpsDeploymentSyncRun": 7}),
    ],
)
def test_quotas_when_some_are_named_then_the_other_kinds_keep_their_default(text: str, named: dict[str, int]) -> None:
    quotas = PlannerSettings(**REQUIRED, tenant_quotas=text).tenant_quotas
    assert quotas == DEFAULTS | named
    assert REGISTRY.limits(quotas).counts == DEFAULTS | named


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Deployment=5", "there is no kind 'Deployment'; write Kind=number"),
        ("GitOpsDeployment=-1", "greater than or equal to 0"),
        ("GitOpsDeployment", "valid integer"),
        ("GitOpsDeployment=many", "valid integer"),
    ],
)
def test_quotas_when_they_cannot_be_read_then_the_error_says_why(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        PlannerSettings(**REQUIRED, tenant_quotas=text)
