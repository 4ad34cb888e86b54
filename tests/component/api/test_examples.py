"""What the documentation shows can be applied as it is."""

from __future__ import annotations

import pytest
import yaml

from services.common.api.kinds import KINDS
from services.common.kube import KubeClient
from services.common.kube.resources import (
    GITOPS_DEPLOYMENT,
    MANAGED_ENVIRONMENT,
    REPOSITORY_CREDENTIAL,
    SECRET,
    SYNC_RUN,
)
from services.common.paths import USER_DOCS

EXAMPLES = {kind.kind: (USER_DOCS / "examples" / f"{kind.page}.yaml").read_text() for kind in KINDS}
RESOURCES = {
    resource.kind: resource
    for resource in (GITOPS_DEPLOYMENT, MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL, SYNC_RUN, SECRET)
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
async def test_example_when_it_is_applied_then_the_api_server_keeps_every_field(
    kube: KubeClient, namespace: str, example: str
) -> None:
    for manifest in yaml.safe_load_all(example):
        manifest["metadata"]["namespace"] = namespace
        stored = await kube.create(RESOURCES[manifest["kind"]], manifest, field_manager="tests")
        assert manifest.get("spec", {}).items() <= stored.get("spec", {}).items()
