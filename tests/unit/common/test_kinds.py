"""A kind of the API is in every table that is by kind; a row's kind is known to who compiles and who applies it."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest
import yaml

from services.agent.kinds import ROW_KINDS
from services.common.api.catalogue import CATALOGUE
from services.common.api.kinds import KINDS, Kind
from services.common.api.names import GROUP, NAMES, SECRET, VERSION
from services.common.kube import APP_PROJECT, APPLICATION, CUSTOM_RESOURCES
from services.common.kube.resources import Resource
from services.common.messages import RowKind
from services.common.paths import CRDS, ROOT, USER_DOCS
from services.planner import audit, decode, statuses
from services.planner.engines.argocd import WAVES
from services.planner.kinds.limits import Limits
from services.planner.kinds.names import GITOPS_DEPLOYMENT, RESOURCE_KINDS
from services.watcher.kinds import BY_NAME, CUSTOM_KINDS

ALL = {kind.kind for kind in KINDS}
BESIDE = {GITOPS_DEPLOYMENT}
"""Whose rules and rows are its own: it is not among the planner's other resources."""

TABLES: dict[str, Collection[str]] = {
    "names": [names.kind for names in NAMES],
    "conditions": CATALOGUE,
    "resources of the Kubernetes client": [resource.kind for resource in CUSTOM_RESOURCES],
    "followed by the watcher": [kind.name for kind in CUSTOM_KINDS],
    "written by the watcher": BY_NAME,
    "understood by the planner": decode.KINDS - {SECRET},
    "ruled by the planner": (RESOURCE_KINDS | BESIDE) - {SECRET},
    "shown by the planner": {*statuses.STATUSES} | BESIDE,
    "audited by the planner": audit.AUDITED | BESIDE,
}


@pytest.mark.parametrize("table", TABLES)
def test_kind_when_of_the_api_then_it_is_in_this_table(table: str) -> None:
    assert sorted(TABLES[table]) == sorted(ALL)


@pytest.mark.parametrize("kind", ALL)
def test_kind_when_counted_then_it_has_a_limit(kind: str) -> None:
    assert Limits().of(kind) > 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_kind_when_spoken_of_to_the_api_server_then_by_the_names_of_its_crd(kind: Kind) -> None:
    assert Resource(GROUP, VERSION, kind.kind, kind.plural) in CUSTOM_RESOURCES
    assert f"{kind.plural}.yaml" in yaml.safe_load((CRDS / "Kustomization").read_text())["resources"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_kind_when_explained_to_users_then_it_has_a_page_an_example_and_a_link(kind: Kind) -> None:
    assert (USER_DOCS / f"{kind.page}.md").is_file()
    assert (USER_DOCS / "examples" / f"{kind.page}.yaml").is_file()
    assert f"({kind.page}.md)" in (USER_DOCS / "README.md").read_text()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.names.reference], ids=lambda kind: kind.kind)
def test_reference_when_a_kind_has_one_then_it_is_a_field_of_its_spec_and_leads_to_a_kind(kind: Kind) -> None:
    assert kind.names.reference in {field.alias or name for name, field in kind.spec.model_fields.items()}
    assert kind.names.refers_to in ALL | {SECRET}


def test_row_kind_when_compiled_then_it_has_a_wave_and_an_agent_knows_it() -> None:
    assert set(WAVES) == set(RowKind)
    assert set(ROW_KINDS) == set(RowKind)
    assert {RowKind.APPLICATION, RowKind.APP_PROJECT} == {APPLICATION.kind, APP_PROJECT.kind}


def test_sql_when_it_names_a_kind_then_there_is_one() -> None:
    clause = re.compile(r"\bkind\s*(?:=|<>|IN\s*\()\s*((?:'\w+'[,\s]*)+)")
    texts = [path.read_text() for path in sorted((ROOT / "services").rglob("*.py"))]
    named = {kind for text in texts for part in clause.findall(text) for kind in re.findall(r"'(\w+)'", part)}
    assert named >= {RowKind.APPLICATION, RowKind.CLUSTER_SECRET, RowKind.REPOSITORY_SECRET}
    assert named <= ALL | {SECRET} | set(RowKind)
