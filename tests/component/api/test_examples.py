"""What the documentation shows can be applied as it is."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from devstack.paths import USER_DOCS
from services.common.kubernetes import KubeClient
from services.common.kubernetes.builtin_kinds import SECRET
from services.kinds.registry import REGISTRY
from services.kinds.shared.kind import DefinedKind

NAMESPACED = [kind for kind in REGISTRY.defined if kind.scope == "Namespaced"]
BLOCKS = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
TUTORIAL = "---\n".join(BLOCKS.findall((USER_DOCS / "tutorial.md").read_text()))
EXAMPLES = {kind.name: kind.example.read_text() for kind in NAMESPACED} | {"tutorial": TUTORIAL}
RESOURCES = {
    resource.kind: resource for resource in (*(kind.resource for kind in (*NAMESPACED, *REGISTRY.foreign)), SECRET)
}
CLUSTER_WIDE = [kind for kind in REGISTRY.defined if kind.scope == "Cluster"]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
async def test_example_when_it_is_applied_then_the_api_server_keeps_every_field(
    kube: KubeClient, namespace: str, example: str
) -> None:
    for manifest in yaml.safe_load_all(example):
        manifest["metadata"]["namespace"] = namespace
        stored = await kube.create_object(RESOURCES[manifest["kind"]], manifest, field_manager="tests")
        assert is_within(manifest.get("spec", {}), stored.get("spec", {}))


@pytest.mark.parametrize("kind", CLUSTER_WIDE, ids=lambda kind: kind.name)
async def test_example_when_it_belongs_to_no_namespace_then_the_api_server_keeps_every_field(
    kube: KubeClient, kind: DefinedKind
) -> None:
    (manifest,) = yaml.safe_load_all(kind.example.read_text())
    stored = await kube.create_object(kind.resource, manifest, field_manager="tests")
    await kube.delete_object(kind.resource, None, manifest["metadata"]["name"])
    assert stored["spec"] == manifest["spec"]


def is_within(wanted: Any, stored: Any) -> bool:
    """Whether all of ``wanted`` is stored; the API server adds defaults to it."""
    if isinstance(wanted, dict):
        return all(key in stored and is_within(value, stored[key]) for key, value in wanted.items())
    return bool(wanted == stored)
