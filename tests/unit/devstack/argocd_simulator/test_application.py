"""What is written next to an Application replaces what was written before."""

from __future__ import annotations

from devstack.argocd_simulator.application import precise
from services.common.kubernetes import Manifest


def live(**parts: object) -> Manifest:
    return {"metadata": {"name": "app", "resourceVersion": "7"}, **parts}


def test_patch_when_the_application_has_changed_since_then_it_is_refused() -> None:
    assert precise({"operation": None}, live())["metadata"] == {"resourceVersion": "7"}


def test_source_when_it_has_no_revision_any_more_then_the_former_one_goes() -> None:
    before = {"sync": {"status": "Synced", "comparedTo": {"source": {"path": "a", "targetRevision": "v1"}}}}
    patch = {"status": {"sync": {"comparedTo": {"source": {"path": "b"}}}}}
    written = precise(patch, live(status=before))["status"]
    assert written == {"sync": {"comparedTo": {"source": {"path": "b", "targetRevision": None}}}}


def test_operation_when_automation_begins_its_own_then_it_is_not_taken_for_the_run_before_it() -> None:
    run = {"info": [{"name": "run", "value": "r1"}], "initiatedBy": {"username": "somebody"}}
    before = {"operationState": {"operation": run, "phase": "Succeeded", "message": "done"}}
    patch = {"status": {"operationState": {"operation": {"initiatedBy": {"automated": True}}}}}
    written = precise(patch, live(status=before))["status"]["operationState"]
    assert written == {"operation": {"info": None, "initiatedBy": {"username": None, "automated": True}}}
