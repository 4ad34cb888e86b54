"""The next step, where the difference of an object and its row is of interest."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from services.agent.objects.desired_objects import desired_object, desired_secret
from services.agent.objects.live import live_object
from services.agent.objects.managed_kinds import APPLICATION_KIND, CASCADE_FINALIZER, SECRET_KIND
from services.agent.reconcile.object_steps import (
    Apply,
    AwaitRemoval,
    Delete,
    ObjectStep,
    Patch,
    Unchanged,
    difference,
    next_step,
)
from services.common.errors import Permanent
from services.common.kubernetes import Manifest
from tests.unit.agent.fakes import secret_of
from tests.unit.agent.rows import application_row, cluster_row
from tests.unit.fake_clock import EPOCH

ROW = cluster_row()
DESIRED = desired_secret(ROW, secret_of(ROW, name="n", server="https://one"))


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def step(live: Manifest) -> ObjectStep:
    meta = {"uid": "u", "resourceVersion": "3"} | DESIRED["metadata"]
    known = live_object(SECRET_KIND, DESIRED | {"metadata": meta} | live)
    return next_step(SECRET_KIND, DESIRED, known, EPOCH, timedelta(seconds=60))


def of_version(change: Manifest) -> Manifest:
    """Only of the version that was seen."""
    return change | {"metadata": change.get("metadata", {}) | {"resourceVersion": "3"}}


def test_secret_when_its_values_are_the_same_then_nothing_is_to_do() -> None:
    assert step({}) == Unchanged()


def test_secret_when_a_value_differs_then_the_whole_of_it_is_applied() -> None:
    assert step({"data": {"name": encoded("n"), "server": encoded("https://two")}}) == Apply(of_version(DESIRED))


def test_secret_when_a_value_is_too_many_then_it_is_removed_and_the_others_are_sent_as_they_are() -> None:
    more = {"name": encoded("other"), "server": encoded("https://one"), "shard": encoded("1")}
    assert step({"data": more}) == Patch(of_version({"data": {"name": encoded("n"), "shard": None}}))


@pytest.mark.parametrize("change", [{"type": "kubernetes.io/tls"}, {"immutable": True}])
def test_secret_when_the_api_server_would_never_change_it_back_then_it_is_deleted(change: dict[str, Any]) -> None:
    assert step(change) == Delete("u")


def test_live_secret_when_it_is_kept_then_none_of_its_values_are() -> None:
    meta = {"uid": "u", "resourceVersion": "3"} | DESIRED["metadata"]
    known = repr(live_object(SECRET_KIND, DESIRED | {"metadata": meta}))
    assert encoded("https://one") not in known
    assert "https://one" not in known


def test_composed_secret_when_it_claims_another_identity_then_the_rows_counts() -> None:
    stray = {"metadata": {"name": "x", "namespace": "kube-system", "labels": {"a": "b"}, "finalizers": ["f"]}}
    made = desired_secret(ROW, stray | {"kind": "ConfigMap", "type": "Opaque", "data": {}, "stringData": {"a": "b"}})
    assert (made["kind"], made["metadata"]["name"], made["metadata"]["namespace"]) == ("Secret", ROW.name, "argocd")
    assert sorted(made["metadata"]) == ["labels", "name", "namespace"]
    assert "stringData" not in made


def test_application_when_it_carries_an_operation_then_that_is_no_difference() -> None:
    desired = desired_object(application_row())
    carried = {
        "metadata": desired["metadata"]
        | {
            "uid": "u",
            "resourceVersion": "3",
            "annotations": {"managed-gitops.redhat.com/sync-sequence": "4"},
        },
        "operation": {"sync": {}},
        "status": {"operationState": {"phase": "Running"}},
    }
    assert difference(APPLICATION_KIND, desired, live_object(APPLICATION_KIND, desired | carried)) == {}


HOOKS = ["pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io/cleanup"]


def removal(*finalizers: str, **metadata: Any) -> ObjectStep:
    """What becomes of an Application that no row desires."""
    desired = desired_object(application_row())
    meta = desired["metadata"] | {"uid": "u", "resourceVersion": "3", "finalizers": [*finalizers]} | metadata
    live = live_object(APPLICATION_KIND, desired | {"metadata": meta})
    return next_step(APPLICATION_KIND, None, live, EPOCH, timedelta(seconds=60))


def test_application_when_it_shall_go_then_no_hook_has_a_finalizer_in_the_version_that_is_deleted() -> None:
    patched = removal("kept", *HOOKS)
    assert isinstance(patched, Patch)
    assert patched.patch["metadata"]["finalizers"] == ["kept", CASCADE_FINALIZER]
    assert patched.patch["metadata"]["resourceVersion"] == "3"
    assert removal("kept", CASCADE_FINALIZER) == Delete("u", 3)


def test_application_when_somebody_else_has_deleted_it_then_finalizers_of_hooks_go() -> None:
    going = removal(CASCADE_FINALIZER, *HOOKS, deletionTimestamp=EPOCH.isoformat())
    assert going == Patch({"metadata": {"resourceVersion": "3", "finalizers": [CASCADE_FINALIZER]}})
    assert isinstance(removal(CASCADE_FINALIZER, deletionTimestamp=EPOCH.isoformat()), AwaitRemoval)


@pytest.mark.parametrize("labels", ["text", ["a"]])
def test_row_when_its_labels_are_no_mapping_then_it_is_refused(labels: object) -> None:
    with pytest.raises(Permanent):
        desired_secret(ROW, {"metadata": {"labels": labels}, "data": {}})
