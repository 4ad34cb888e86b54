from __future__ import annotations

from typing import Any

import orjson
import pytest

from services.common.errors import Poison
from services.common.messages import ChildKind
from services.watcher.rows.child_manifest import SecretSource, manifest_of, require_known_child, wave_of
from tests.unit.watcher.manifests import COPY_TYPE, LABELS, SPEC, child


def text(**parts: Any) -> str:
    return orjson.dumps({"labels": {}, "annotations": {}, "spec": {}} | parts).decode()


def test_manifest_when_of_a_custom_resource_then_it_has_labels_and_the_spec() -> None:
    manifest = manifest_of(child())
    assert (manifest.labels, manifest.content) == (LABELS, SPEC)


def test_manifest_when_of_a_copied_secret_then_it_says_of_which_one_and_of_what_type() -> None:
    assert manifest_of(child(kind=ChildKind.SECRET_COPY)).content == SecretSource("login", COPY_TYPE)


COPY: dict[str, Any] = {"kind": "SecretCopy"}
POISONS: dict[str, tuple[dict[str, Any], str]] = {
    "kind-of-the-future": ({"kind": "Component"}, "applies no object of kind 'Component'"),
    "kind-beyond-the-list": ({"kind": "RoleBinding"}, "RoleBinding"),
    "secret-by-value": ({"kind": "Secret"}, "applies no object of kind 'Secret'"),
    "owner-of-another-version": ({"owner_api_version": "managed-gitops.redhat.com/v2"}, "knows no owner"),
    "owner-of-an-unknown-kind": ({"owner_kind": "Deployment"}, "knows no owner"),
    "owner-without-uid": ({"owner_uid": ""}, "knows no owner"),
    "neither-present-nor-absent": ({"desired": "patched"}, "'patched'"),
    "no-json": ({"manifest": "{"}, "not the manifest of a GitOpsDeployment"),
    "no-object": ({"manifest": "[]"}, "not the manifest"),
    "no-spec": ({"manifest": '{"labels": {}, "annotations": {}}'}, "'spec'"),
    "labels-that-are-no-texts": ({"manifest": text(labels={"a": 1})}, "are texts"),
    "another-label": ({"manifest": text(labels={"a": "b"})}, "gives a GitOpsDeployment no labels a$"),
    "label-of-a-copy": (
        {"kind": "SecretCopy", "manifest": text(spec={"from": "a", "type": COPY_TYPE}, labels=LABELS)},
        "no labels appstudio.openshift.io/application",
    ),
    "an-annotation": ({"manifest": text(annotations={"a": "b"})}, "no annotations a$"),
    "another-field": ({"manifest": text(spec={"type": "manual", "project": "x"})}, "no spec project$"),
    "another-field-of-a-field": (
        {"manifest": text(spec={"source": {"path": "a", "helm": {"values": "a"}}})},
        "no spec source.helm.values$",
    ),
    "a-field-that-is-an-object": ({"manifest": text(spec={"source": {"path": {"a": 1}}})}, "no spec source.path.a$"),
    "copy-of-nothing": (COPY | {"manifest": text(spec={"type": COPY_TYPE})}, "'from'"),
    "copy-of-another-type": (
        COPY | {"manifest": text(spec={"from": "a", "type": "kubernetes.io/service-account-token"})},
        "one of the types managed-gitops",
    ),
    "copy-of-itself": (
        COPY | {"name": "login", "manifest": text(spec={"from": "login", "type": COPY_TYPE})},
        "copy of itself",
    ),
}


@pytest.mark.parametrize(("columns", "reason"), POISONS.values(), ids=POISONS)
def test_row_when_it_cannot_be_applied_then_it_is_poison(columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(Poison, match=reason):
        require_known_child(child(**columns))


def test_row_when_of_something_absent_then_it_needs_no_manifest() -> None:
    row = child(desired="absent", manifest="")
    assert require_known_child(row) is row


def test_rows_when_in_waves_then_objects_are_made_after_what_they_name_and_go_before_it() -> None:
    kinds = (ChildKind.SECRET_COPY, ChildKind.MANAGED_ENVIRONMENT, ChildKind.DEPLOYMENT)
    made = [wave_of(child(kind=kind)) for kind in kinds]
    removed = [wave_of(child(kind=kind, desired="absent", manifest="")) for kind in reversed(kinds)]
    assert made + removed == sorted({*made, *removed})
