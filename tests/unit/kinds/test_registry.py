"""What the types do not say of a kind; and a row's kind is known to who compiles and who applies it."""

from __future__ import annotations

import re

import pytest

from devstack.paths import ROOT
from services.agent.objects.managed_kinds import ROW_KINDS
from services.common.kubernetes import APP_PROJECT, APPLICATION
from services.common.messages import RowKind
from services.kinds.registry import REGISTRY
from services.kinds.shared.definition import structural
from services.kinds.shared.kind import CustomKind
from services.planner.engines.argocd.implementation import WAVES


def by_name(kind: CustomKind) -> str:
    return kind.name


@pytest.mark.parametrize("kind", [kind for kind in REGISTRY.custom if kind.reference], ids=by_name)
def test_reference_when_a_kind_has_one_then_it_is_a_field_of_its_spec_and_leads_to_a_kind(kind: CustomKind) -> None:
    assert kind.reference is not None
    schema = structural(kind.spec)
    for member in kind.reference.field.split("."):
        schema = schema["properties"][member]
    assert schema["type"] == "string"
    assert kind.reference.to in {known.resource for known in (*REGISTRY.kinds, *REGISTRY.looked_up)}


def test_row_kind_when_compiled_then_it_has_a_wave_and_an_agent_knows_it() -> None:
    assert set(WAVES) == set(RowKind)
    assert set(ROW_KINDS) == set(RowKind)
    assert {RowKind.APPLICATION, RowKind.APP_PROJECT} == {APPLICATION.kind, APP_PROJECT.kind}


def test_sql_when_it_names_a_kind_then_there_is_one() -> None:
    clause = re.compile(r"\bkind\s*(?:=|<>|IN\s*\()\s*((?:'\w+'[,\s]*)+)")
    texts = [path.read_text() for path in sorted((ROOT / "services").rglob("*.py"))]
    named = {kind for text in texts for part in clause.findall(text) for kind in re.findall(r"'(\w+)'", part)}
    assert clause.findall("WHERE kind IN ('Secret', 'Other')") == ["'Secret', 'Other'"]
    assert named <= {kind.name for kind in REGISTRY.kinds} | set(RowKind)
