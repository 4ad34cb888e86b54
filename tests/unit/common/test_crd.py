"""The CRDs are what the models say, and structural."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from services.common.api.crd import KINDS, custom_resource_definition, structural
from services.common.api.gitops_deployment import GitOpsDeploymentSpec
from services.common.paths import CRDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_crd_file_when_compared_with_the_models_then_it_is_up_to_date(kind: Any) -> None:
    written = yaml.safe_load((CRDS / f"{kind.plural}.yaml").read_text())
    assert written == custom_resource_definition(kind), "run 'make generate'"


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for member in schema.get("properties", {}).values():
        yield from nodes(member)
    if "items" in schema:
        yield from nodes(schema["items"])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_crd_when_generated_then_every_part_has_a_type_and_no_reference(kind: Any) -> None:
    for model in (kind.spec, kind.status):
        for node in nodes(structural(model)):
            assert node.get("type"), node
            assert not {"$ref", "anyOf", "allOf", "default", "title"} & (node.keys() - {"properties"}), node


def test_spec_when_a_string_or_list_is_part_of_it_then_it_is_bounded() -> None:
    for node in nodes(structural(GitOpsDeploymentSpec)):
        if node["type"] == "string":
            assert "maxLength" in node, node
        if node["type"] == "array":
            assert "maxItems" in node, node
