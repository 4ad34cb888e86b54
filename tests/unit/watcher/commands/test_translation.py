from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from services.common.kubernetes import Manifest
from services.common.messages import Command, ResourceChanged, ResourceGone, ResyncCompleted
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.projection import MAX_STATUS_BYTES
from services.kinds.sync_run.model import SYNC_RUN
from services.watcher.commands.translation import (
    Translator,
    actor,
    bounded_spec,
    changed_at,
    created_at,
    spec_within,
    state_version,
)
from tests.unit.kinds.review.kind import KIND as REVIEWS
from tests.unit.kinds.review.kind import TEAM
from tests.unit.watcher.manifests import NOW, SPEC, resource

TRANSLATE = Translator("local", GITOPS_DEPLOYMENT, spec_within(1024))

PLAIN = ResourceChanged(
    api_version="managed-gitops.redhat.com/v1alpha1",
    kind="GitOpsDeployment",
    name="web",
    uid="uid-web",
    resource_version="42",
    generation=1,
    epoch=7,
    deleting=False,
    finalizers=(),
    actor="",
    spec=orjson.dumps(SPEC).decode(),
)


def nested(levels: int) -> dict[str, Any]:
    return {"deeper": nested(levels - 1)} if levels else {}


CHANGED: dict[str, tuple[Manifest, ResourceChanged]] = {
    "plain": (resource(), PLAIN),
    "deleting": (resource(deletionTimestamp="2026-05-04T12:00:00Z"), replace(PLAIN, deleting=True)),
    "with-finalizers": (resource(finalizers=["a/b", "c/d"]), replace(PLAIN, finalizers=("a/b", "c/d"))),
    "without-generation": (resource(generation=0), replace(PLAIN, generation=0)),
    "without-spec": (resource(spec=None), replace(PLAIN, spec="{}")),
    "with-its-creation": (
        resource(creationTimestamp="2026-05-04T12:00:01Z"),
        replace(PLAIN, created_at=1_777_896_001_000),
    ),
    "spec-is-no-object": (resource(spec=["x"]), replace(PLAIN, spec='["x"]')),
    "spec-with-a-zero-character": (resource(spec={"path": "\0"}), replace(PLAIN, spec='{"path":"\\u0000"}')),
    "spec-too-deep": (
        resource(spec=nested(300)),
        replace(PLAIN, spec="{}", spec_omitted="the spec is nested too deeply"),
    ),
    "spec-too-long": (
        resource(spec={"path": "x" * 2000}),
        replace(PLAIN, spec="{}", spec_omitted="the spec is too long: 2011 bytes as JSON, of at most 1024"),
    ),
}


@pytest.mark.parametrize(("manifest", "event"), CHANGED.values(), ids=CHANGED)
def test_resource_when_changed_then_the_command_says_what_it_is(manifest: Manifest, event: ResourceChanged) -> None:
    assert TRANSLATE.changed(manifest, 7, NOW) == Command("local", "local", "team-a", NOW, event)


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        pytest.param({"operation": {"phase": "Succeeded"}}, '{"operation":{"phase":"Succeeded"}}', id="there"),
        pytest.param(None, "", id="none"),
        pytest.param({"operation": {"message": "x" * MAX_STATUS_BYTES}}, "", id="too long"),
    ],
)
def test_resource_when_its_kind_recalls_its_status_then_the_command_carries_it(status: Any, sent: str) -> None:
    translate = Translator("local", SYNC_RUN, spec_within(1024), recalls_status=True)
    event = translate.changed(resource() | {"status": status}, 7, NOW).event
    assert isinstance(event, ResourceChanged)
    assert event.recalled_status == sent


def test_resource_when_gone_then_the_command_names_its_incarnation() -> None:
    expected = ResourceGone("GitOpsDeployment", "web", "uid-web", "42")
    assert TRANSLATE.gone(resource(), NOW) == Command("local", "local", "team-a", NOW, expected)


def test_resync_when_completed_then_the_command_names_no_tenant() -> None:
    expected = Command("local", "", "", NOW, ResyncCompleted("GitOpsDeployment", 7))
    assert TRANSLATE.resync_completed(7, NOW) == expected


def entry(manager: str, time: str = "", subresource: str = "") -> dict[str, str]:
    return (
        {"manager": manager} | ({"time": time} if time else {}) | ({"subresource": subresource} if subresource else {})
    )


ACTORS: dict[str, tuple[Any, str]] = {
    "none-recorded": (None, ""),
    "one": ([entry("kubectl", "2026-01-01T00:00:00Z")], "kubectl"),
    "newest-first": ([entry("new", "2026-01-02T00:00:00Z"), entry("old", "2026-01-01T00:00:00Z")], "new"),
    "newest-last": ([entry("old", "2026-01-01T00:00:00Z"), entry("new", "2026-01-02T00:00:00Z")], "new"),
    "our-status-is-newer": (
        [entry("kubectl", "2026-01-01T00:00:00Z"), entry("gitops-watcher", "2026-01-02T00:00:00Z", "status")],
        "kubectl",
    ),
    "only-the-status-was-written": ([entry("gitops-watcher", "2026-01-02T00:00:00Z", "status")], ""),
    "another-subresource-counts": ([entry("scaler", "2026-01-02T00:00:00Z", "scale")], "scaler"),
    "same-second": ([entry("first", "2026-01-01T00:00:00Z"), entry("later", "2026-01-01T00:00:00Z")], "later"),
    "without-time": ([entry("timeless")], "timeless"),
}


@pytest.mark.parametrize(("fields", "expected"), ACTORS.values(), ids=ACTORS)
def test_actor_when_fields_are_managed_then_the_newest_outside_the_status_counts(fields: Any, expected: str) -> None:
    assert actor({"managedFields": fields}) == expected


@pytest.mark.parametrize(
    ("size", "is_sent"),
    [pytest.param(1024, True, id="at-the-limit"), pytest.param(1025, False, id="one-byte-over")],
)
def test_spec_when_its_json_has_this_many_bytes_then_it_is_sent_or_accounted_for(size: int, is_sent: bool) -> None:
    text, omitted = bounded_spec({"p": "é" * ((size - 8) // 2) + "x" * ((size - 8) % 2)}, 1024)
    assert (len(text.encode()) == size) is is_sent
    assert (omitted == "") is is_sent


@pytest.mark.parametrize("value", [None, "", "yesterday", 7])
def test_creation_when_it_is_no_time_then_it_is_unknown(value: Any) -> None:
    assert created_at({"creationTimestamp": value}) == 0


SENT: dict[str, Any] = {"generation": 3, "finalizers": ["a/b"]}

CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, True),
    "status-only": ({"resourceVersion": "43"}, True),
    "labels": ({"labels": {"a": "b"}}, True),
    "spec": ({"generation": 4}, False),
    "deletion-asked-for": ({"deletionTimestamp": "2026-05-04T12:00:00Z"}, False),
    "finalizer-added": ({"finalizers": ["a/b", "c/d"]}, False),
    "finalizers-gone": ({"finalizers": []}, False),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_state_version_when_only_what_does_not_matter_changed_then_it_is_the_same(
    change: dict[str, Any], expected: bool
) -> None:
    assert (state_version(resource(**SENT)) == state_version(resource(**SENT | change))) is expected


DECLARED: dict[str, tuple[Manifest, Manifest, bool]] = {
    "declared-member": ({"verdict": {"outcome": "no"}}, {}, False),
    "declared-label": ({}, {"labels": {TEAM: "depot"}}, False),
    "our-member": ({"conditions": [], "verdict": {"outcome": "yes"}}, {}, True),
    "undeclared-label": ({"verdict": {"outcome": "yes"}}, {"labels": {TEAM: "shop", "app": "web"}}, True),
    "undeclared-annotation": ({"verdict": {"outcome": "yes"}}, {"annotations": {"a": "b"}}, True),
}


@pytest.mark.parametrize(("status", "meta", "expected"), DECLARED.values(), ids=DECLARED)
def test_state_version_when_a_kind_declares_parts_then_these_alone_make_it_another(
    status: Manifest, meta: Manifest, expected: bool
) -> None:
    def version(status: Manifest, **meta: Any) -> Any:
        return state_version(resource(**SENT | meta) | {"status": status}, REVIEWS.projection)

    before = version({"verdict": {"outcome": "yes"}}, labels={TEAM: "shop"})
    after = version({"verdict": {"outcome": "yes"}} | status, **{"labels": {TEAM: "shop"}} | meta)
    assert (after == before) is expected


EARLY, LATE = "2026-05-04T12:00:00Z", "2026-05-04T12:30:00Z"

MOMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "not-said": ({}, ""),
    "created": ({"creationTimestamp": EARLY}, EARLY),
    "written": ({"creationTimestamp": EARLY, "managedFields": [{"time": LATE}]}, LATE),
    "deletion-asked-for": ({"creationTimestamp": EARLY, "deletionTimestamp": LATE}, LATE),
    "status-only": ({"creationTimestamp": EARLY, "managedFields": [{"time": LATE, "subresource": "status"}]}, EARLY),
    "without-a-time": ({"creationTimestamp": EARLY, "managedFields": [{"manager": "kubectl"}]}, EARLY),
}


@pytest.mark.parametrize(("meta", "expected"), MOMENTS.values(), ids=MOMENTS)
def test_change_when_made_then_its_moment_is_known_unless_it_was_to_the_status(
    meta: dict[str, Any], expected: str
) -> None:
    assert changed_at(resource(**meta)["metadata"]) == expected


@pytest.mark.parametrize(
    ("manager", "expected"),
    [pytest.param("reviewer", LATE, id="another's"), pytest.param(WATCHER_FIELD_MANAGER, EARLY, id="ours")],
)
def test_status_when_written_and_a_kind_declares_members_then_the_moment_counts_unless_it_was_our_write(
    manager: str, expected: str
) -> None:
    meta = {"creationTimestamp": EARLY, "managedFields": [entry(manager, LATE, "status")]}
    assert changed_at(resource(**meta)["metadata"], REVIEWS.projection) == expected
