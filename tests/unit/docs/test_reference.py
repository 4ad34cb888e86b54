"""The reference for users is what the API server enforces and what the services say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.generate.markdown import with_block
from devstack.generate.reference import index, page
from devstack.paths import ROOT, USER_DOCS
from services.kinds.registry import REGISTRY
from services.kinds.shared.catalogue import Entry
from services.kinds.shared.kind import DefinedKind

SAYING = ("services/kinds", "services/agent/credentials")
"""Where reasons of conditions are written."""

NO_REASONS = {
    *(kind.name for kind in (*REGISTRY.defined, *REGISTRY.foreign)),
    # Kinds of objects and of compiled rows
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterSecret",
    "CustomResourceDefinition",
    "RepositorySecret",
    "RoleBinding",
    "SelfSubjectAccessReview",
    "ServiceAccount",
    "SyncOperation",
    "TokenRequest",
    # Argo CD's word for a resource that it could not apply
    "SyncFailed",
    # Names of other software
    "OpenShift",
    "OpenSSL",
    # The strategy of an Environment
    "AppStudioAutomated",
}
"""Words of the same form that mean something else."""

NO_PROBLEM = {
    "Succeeded",
    "RepositoryCredentialUpToDate",
    "ValidRepositoryUrl",
    "Reconciled",
    "{reason before}Resolved",
    "CommitsSynced",
}
"""Reasons of conditions that hold when all is well."""

CAMEL = re.compile(r"[A-Z][a-z]+([A-Z][A-Za-z]*)+")
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = [kind.example for kind in REGISTRY.defined]
ENTRIES = [entry for kind in REGISTRY.defined for entry in kind.catalogue]


def by_kind(kind: DefinedKind) -> str:
    return kind.name


@pytest.mark.parametrize("kind", REGISTRY.defined, ids=by_kind)
def test_page_when_compared_with_the_models_then_it_is_up_to_date(kind: DefinedKind) -> None:
    assert (USER_DOCS / f"{kind.page}.md").read_text() == page(kind), "run 'make generate'"


def test_index_when_compared_with_the_kinds_then_it_is_up_to_date() -> None:
    text = (USER_DOCS / "README.md").read_text()
    assert text == with_block(text, "kinds", index(REGISTRY)), "run 'make generate'"


@pytest.mark.parametrize("kind", REGISTRY.with_status, ids=by_kind)
def test_catalogue_when_a_kind_exists_then_it_has_conditions_and_each_only_once(kind: DefinedKind) -> None:
    shown = [(entry.type, entry.status, entry.reason, entry.message) for entry in kind.catalogue]
    assert bool(shown) == bool(kind.status)
    assert len(shown) == len(set(shown))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.type}-{entry.reason}")
def test_catalogue_when_a_condition_tells_of_an_error_then_it_says_what_to_do(entry: Entry) -> None:
    assert entry.meaning
    assert entry.remedy != "Nothing." or entry.status == "False" or entry.reason in NO_PROBLEM


@pytest.mark.parametrize("folder", SAYING)
def test_reason_when_a_service_can_write_it_then_the_catalogue_explains_it(folder: str) -> None:
    known = {word for entry in ENTRIES for word in (entry.type, entry.reason)}
    said = {word for file in sorted((ROOT / folder).rglob("*.py")) for word in _camel_constants(file)}
    assert said - NO_REASONS - known == set()


def documents() -> Iterator[Any]:
    """Every object that the documentation for users shows."""
    texts = [(path, path.read_text()) for path in EXAMPLES]
    texts += [(path, block) for path in sorted(USER_DOCS.glob("*.md")) for block in BLOCK.findall(path.read_text())]
    for path, text in texts:
        for number, document in enumerate(yaml.safe_load_all(text)):
            yield pytest.param(document, id=f"{path.name}-{document['kind']}-{number}")


@pytest.mark.parametrize("document", list(documents()))
def test_example_when_a_user_copies_it_then_the_models_know_every_field(document: dict[str, Any]) -> None:
    assert document["metadata"]["name"]
    if document["kind"] == "Secret":
        assert document["type"] in REGISTRY.secret_types
        return
    foreign = {kind.name: kind for kind in REGISTRY.foreign}
    if document["kind"] in foreign:
        of_another = foreign[document["kind"]]
        assert document["apiVersion"] == of_another.resource.api_version
        assert document["spec"].keys() >= (of_another.projection.spec_members or frozenset())
        return
    kind = next(kind for kind in REGISTRY.defined if kind.name == document["kind"])
    assert document["apiVersion"] == kind.resource.api_version
    spec = kind.spec.model_validate(document["spec"])
    assert spec.model_dump(by_alias=True, exclude_unset=True) == document["spec"]


def _camel_constants(file: Path) -> Iterator[str]:
    """String constants of two words or more written as one, other than exported names and types' names."""
    tree = ast.parse(file.read_text())
    names = {id(node) for skipped in _naming(tree) for node in ast.walk(skipped)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in names else None
        if isinstance(text, str) and CAMEL.fullmatch(text):
            yield text


def _naming(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            yield node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"TypeVar", "NewType"}:
            yield node
