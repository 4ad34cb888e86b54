"""What the documentation shows can be applied as it is."""

from __future__ import annotations

import pytest
import yaml

from services.common.kubernetes import KubeClient
from services.common.kubernetes.builtin_kinds import SECRET
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.sync_run.model import SYNC_RUN

EXAMPLES = {kind.name: kind.example.read_text() for kind in REGISTRY.custom}
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
        stored = await kube.create_object(RESOURCES[manifest["kind"]], manifest, field_manager="tests")
        assert manifest.get("spec", {}).items() <= stored.get("spec", {}).items()
