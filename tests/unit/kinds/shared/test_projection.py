"""What a kind declares is seen, nothing else is, and of any size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.common.errors import Permanent
from services.kinds.gitops_deployment.kind import KIND as DEPLOYMENTS
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.shared.incarnation import update_resource
from services.kinds.shared.kind import CustomKind
from services.kinds.shared.projection import (
    MAX_METADATA_BYTES,
    MAX_STATUS_BYTES,
    NOTHING,
    NOTHING_PROJECTED,
    OwnerReference,
    Projected,
    ProjectedMetadata,
    Projection,
    metadata_of,
    status_of,
)
from services.kinds.shared.resource import Cause, Origin, PlainResource
from services.watcher.commands.translation import Translator, spec_within
from tests.unit.kinds.given import START, id_of, resource
from tests.unit.kinds.review.kind import KIND, REVIEW, TEAM, TICKET, ReviewStatus, Verdict

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "asks", "uid": "u1", "blockOwnerDeletion": True}


def manifest(status: Any = None, **meta: Any) -> dict[str, Any]:
    described = {"name": "monday", "uid": "u", "resourceVersion": "7"} | meta
    return {"metadata": described} | ({} if status is None else {"status": status})


def projected(*args: Any, **meta: Any) -> Projected:
    return KIND.projection.project(manifest(*args, **meta))


def nested(levels: int) -> dict[str, Any]:
    return {"deeper": nested(levels - 1)} if levels else {}


PARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none": ({}, {"labels": {}, "annotations": {}, "ownerReferences": []}),
    "declared": (
        {"labels": {TEAM: "shop"}, "annotations": {TICKET: "7"}, "ownerReferences": [OWNER]},
        {"labels": {TEAM: "shop"}, "annotations": {TICKET: "7"}, "ownerReferences": [OWNER]},
    ),
    "undeclared": (
        {"labels": {"app": "web"}, "annotations": {TEAM: "shop"}, "finalizers": ["a/b"]},
        {"labels": {}, "annotations": {}, "ownerReferences": []},
    ),
}


@pytest.mark.parametrize(("meta", "expected"), PARTS.values(), ids=PARTS)
def test_metadata_when_projected_then_it_has_what_is_declared(meta: dict[str, Any], expected: dict[str, Any]) -> None:
    assert json.loads(projected(**meta).metadata) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, {}, id="there-is-none"),
        pytest.param("text", {}, id="no-object"),
        pytest.param({"conditions": [], "note": "n"}, {}, id="undeclared"),
        pytest.param({"conditions": [], "verdict": {"outcome": "x"}}, {"verdict": {"outcome": "x"}}, id="declared"),
    ],
)
def test_status_when_projected_then_it_has_the_members_that_are_declared(status: Any, expected: Any) -> None:
    assert json.loads(projected(status).status) == expected


def test_projection_when_its_keys_come_in_another_order_then_it_is_the_same() -> None:
    labels = {TEAM: "shop", f"{TEAM}s": "all"}
    swapped = dict(reversed(labels.items()))
    assert projected(labels=labels).digest == projected(labels=swapped).digest
    assert projected(labels=labels).digest != projected(labels={}).digest


@pytest.mark.parametrize(
    ("parts", "reasons"),
    [
        pytest.param(
            {"annotations": {TICKET: "x" * MAX_METADATA_BYTES}},
            (f"the metadata is too long: {MAX_METADATA_BYTES + 81} bytes as JSON, of at most {MAX_METADATA_BYTES}", ""),
            id="metadata",
        ),
        pytest.param(
            {"status": {"verdict": {"outcome": "x" * MAX_STATUS_BYTES}}},
            ("", f"the status is too long: {MAX_STATUS_BYTES + 26} bytes as JSON, of at most {MAX_STATUS_BYTES}"),
            id="status",
        ),
        pytest.param(
            {"status": {"verdict": nested(300)}},
            ("", "the status is nested too deeply"),
            id="deep",
        ),
    ],
)
def test_part_when_beyond_its_limit_then_it_is_left_out_whole_with_the_reason(
    parts: dict[str, Any], reasons: tuple[str, str]
) -> None:
    found = projected(parts.pop("status", {}), **parts)
    assert (found.metadata_omitted, found.status_omitted) == reasons
    assert (found.metadata == "{}", found.status == "{}") == (bool(reasons[0]), True)


def test_kind_when_it_declares_nothing_then_its_commands_and_rows_say_nothing() -> None:
    shown = manifest({"verdict": {"outcome": "x"}}, labels={TEAM: "shop"}, ownerReferences=[OWNER])
    assert NOTHING.project(shown) == NOTHING_PROJECTED


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"application": "shop", "source": nested(300)}, '{"application":"shop"}', id="more"),
        pytest.param({"source": {}}, "{}", id="nothing-of-it"),
        pytest.param(None, "{}", id="there-is-none"),
        pytest.param(["application"], "{}", id="no-object"),
    ],
)
def test_spec_when_a_kind_declares_members_then_no_other_leaves_the_cluster(spec: Any, expected: str) -> None:
    components = REGISTRY["Component"]
    content = spec_within(1024, components.projection)
    assert content(manifest() | {"spec": spec}, "") == (expected, "")


def test_spec_when_a_declared_member_is_too_long_or_too_deep_then_it_is_left_out_with_the_reason() -> None:
    content = spec_within(64, REGISTRY["Component"].projection)
    spec, omitted = content(manifest() | {"spec": {"application": "x" * 64}}, "")
    assert (spec, omitted) == ("{}", "the spec is too long: 82 bytes as JSON, of at most 64")
    spec, omitted = content(manifest() | {"spec": {"application": nested(300)}}, "")
    assert (spec, omitted) == ("{}", "the spec is nested too deeply")


def planned(parts: dict[str, Any]) -> PlainResource:
    """The planner's row of what a watcher sends."""
    translate = Translator("local", REVIEW, spec_within(1024), KIND.projection)
    event: Any = translate.changed(manifest(**parts), 1, START).event
    origin = Origin(id_of("tenant"), "local", id_of("review"))
    return update_resource(KIND, None, event, origin, Cause(START, ""))


def test_row_when_rules_read_it_then_metadata_and_status_are_typed() -> None:
    row = planned(
        {
            "status": {"verdict": {"outcome": "no", "remarks": ["a"]}},
            "labels": {TEAM: "shop"},
            "ownerReferences": [OWNER],
        }
    )
    owner = OwnerReference("v1", "ConfigMap", "asks", "u1", controller=False)
    told = frozenset({"labels", "annotations", "ownerReferences"})
    assert metadata_of(row) == ProjectedMetadata({TEAM: "shop"}, {}, (owner,), declared=told)
    assert status_of(ReviewStatus, row).verdict == Verdict(outcome="no", remarks=["a"])


def test_row_when_a_part_was_left_out_then_reading_it_says_why() -> None:
    row = planned({"status": {"verdict": nested(300)}, "annotations": {TICKET: "x" * MAX_METADATA_BYTES}})
    with pytest.raises(Permanent, match="the metadata is too long"):
        metadata_of(row)
    with pytest.raises(Permanent, match="nested too deeply"):
        status_of(ReviewStatus, row)


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"labels": 1, "annotations": {"a": 1}, "ownerReferences": [2]}']
)
def test_row_when_its_metadata_is_of_another_shape_then_it_says_nothing(text: str) -> None:
    row = resource(MANAGED_ENVIRONMENT.kind, "prod", {}, metadata=text)
    found = metadata_of(row)
    assert (found.labels, found.annotations, found.owner_references) == ({}, {}, ())


OTHERS = Projection(status_members=frozenset({"verdict"}))


@pytest.mark.parametrize(
    ("kind", "declared", "problem"),
    [
        pytest.param(DEPLOYMENTS, {"projection": OTHERS}, "no columns for a status", id="row-of-its-own"),
        pytest.param(KIND, {"own_status": frozenset({"verdict"})}, "would be news", id="ours-and-another's"),
        pytest.param(KIND, {"own_status": frozenset()}, "declare what is ours", id="not-said-what-is-ours"),
        pytest.param(KIND, {"own_status": frozenset({"condition"})}, r"no \['condition'\]", id="no-such-member"),
    ],
)
def test_kind_when_its_declarations_contradict_each_other_then_it_is_refused(
    kind: CustomKind, declared: Any, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        replace(kind, **declared)
