"""What provisioners of others are asked for: a row for each claim that waits for them, until it has a target."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from services.kinds.deployment_target.rows import CLAIM_UID
from services.kinds.deployment_target_class.model import DEVSANDBOX
from services.kinds.registry import REGISTRY
from services.planner.rows.compiled import PendingClaimRow
from tests.unit.planner.given import WORKSPACE, in_namespace, resource
from tests.unit.planner.targets import CLAIM, TARGET, Targets

DEV = (CLAIM, "dev")
FIRST = ("dev", "uid-1")
TOLD = 1
"""The second when a watcher told of the claim."""
WANTED, WITHDRAWN = ("wanted", "space"), ("withdrawn", "space")


@pytest.fixture
def ours() -> Targets:
    """A claim that waits for a service of others."""
    ours = Targets(classes={"space": "Delete"}, parameters={"size": "small", "a": "ü"})
    ours.claim()
    ours.settle()
    return ours


def give(ours: Targets, name: str = "dev-dt", uid: str = "") -> None:
    """The service has made a target for the claim of this name, and for this incarnation of it."""
    ours.target(name, for_="dev", annotations={CLAIM_UID: uid} if uid else {})
    ours.settle()


def test_claim_when_it_waits_then_its_row_has_all_that_its_provisioner_needs(ours: Targets) -> None:
    (row,) = ours.world.pending_claims.values()
    assert row == PendingClaimRow(
        workspace=WORKSPACE,
        namespace="team-a",
        name="dev",
        uid="uid-1",
        class_name="space",
        provisioner="example.com/ours",
        parameters='{"a":"ü","size":"small"}',
        generation=1,
        state="wanted",
        created_at=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
    )


def test_row_when_nothing_about_the_claim_differs_then_it_is_not_written_again(ours: Targets) -> None:
    ours.pass_time(3600)
    event = resource(9000, CLAIM, "other", {"deploymentTargetClassName": "none"}, uid="uid-other")
    assert ours.world.take(event).pending_claims == ()


def test_row_when_the_parameters_of_the_class_change_then_it_has_the_new_ones(ours: Targets) -> None:
    ours.parameters = {"size": "large"}
    ours.set_class("Delete")
    (row,) = ours.world.pending_claims.values()
    assert json.loads(row.parameters) == {"size": "large"}


def test_claim_when_it_is_bound_then_its_row_goes_and_none_comes_when_it_is_deleted(ours: Targets) -> None:
    give(ours)
    assert (ours.bound(), ours.pending()) == ({"dev": "dev-dt"}, {})
    ours.delete(DEV)
    assert ours.pending() == {}


def test_claim_when_it_is_deleted_before_it_has_a_target_then_its_row_is_withdrawn_until_it_is_gone(
    ours: Targets,
) -> None:
    ours.delete(DEV)
    assert ours.pending() == {FIRST: WITHDRAWN}
    ours.settle()
    assert (DEV in ours.live, ours.pending()) == (False, {})


def test_claim_when_nobody_answers_then_it_waits_and_may_be_deleted(ours: Targets) -> None:
    ours.pass_time(365 * 24 * 3600)
    ours.settle()
    assert (ours.phase("dev"), ours.pending()) == ("Pending", {FIRST: WANTED})
    ours.delete(DEV)
    ours.settle()
    assert DEV not in ours.live


LATE = "provisioner '{name}' has made no target within 5 minutes that this claim can have; it may not run, or "
LATE += "DeploymentTargetClass '{class_name}' names the wrong one"


def wait(ours: Targets, seconds: int) -> None:
    """From when the claim was told of."""
    ours.pass_time(TOLD + seconds - ours.second)


def test_claim_when_its_provisioner_does_not_answer_for_five_minutes_then_it_says_so_until_there_is_a_target(
    ours: Targets,
) -> None:
    wait(ours, 299)
    assert ours.error("dev") == ""
    wait(ours, 300)
    assert (ours.error("dev"), ours.phase("dev")) == (
        LATE.format(name="example.com/ours", class_name="space"),
        "Pending",
    )
    ours.tell(DEV)
    wait(ours, 3600)
    assert ours.error("dev")
    give(ours)
    assert (ours.error("dev"), ours.phase("dev")) == ("", "Bound")


def test_claim_when_its_target_comes_in_time_then_nothing_is_said_or_due(ours: Targets) -> None:
    give(ours)
    ours.pass_time(600)
    assert (ours.error("dev"), [row.due_at for row in ours.world.resources.values() if row.due_at]) == ("", [])


def test_claim_when_its_class_comes_to_name_another_provisioner_then_that_has_five_minutes(ours: Targets) -> None:
    ours.provisioner = "example.com/misspelt"
    ours.set_class("Delete")
    ours.pass_time(600)
    assert "'example.com/misspelt'" in ours.error("dev")
    ours.provisioner = "example.com/ours"
    ours.set_class("Delete")
    assert ours.error("dev") == ""
    ours.pass_time(290)
    assert ours.error("dev") == ""
    ours.pass_time(10)
    assert "'example.com/ours'" in ours.error("dev")


def test_claim_when_its_class_changes_otherwise_then_it_has_waited_all_the_same(ours: Targets) -> None:
    ours.pass_time(290)
    ours.parameters = {"size": "large"}
    ours.set_class("Retain")
    ours.pass_time(10)
    assert "within 5 minutes" in ours.error("dev")


def test_claim_when_there_was_no_room_for_it_then_its_provisioner_has_five_minutes_from_when_there_is() -> None:
    ours = Targets(classes={"space": "Delete"})
    limits = ours.world.policy.kinds.limits({CLAIM: 1})
    ours.world.policy = replace(ours.world.policy, limits=limits)
    ours.claim("first")
    ours.claim()
    ours.pass_time(600)
    assert ("quota exceeded" in ours.error("dev"), "example.com/ours" in ours.error("first")) == (True, True)
    ours.delete((CLAIM, "first"))
    assert ours.pending() == {("dev", "uid-2"): WANTED}
    ours.pass_time(299)
    assert ours.error("dev") == ""
    ours.pass_time(1)
    assert "within 5 minutes" in ours.error("dev")


def test_claim_when_it_waits_for_nobody_any_more_then_its_provisioner_is_not_blamed(ours: Targets) -> None:
    ours.pass_time(600)
    ask_for(ours, targetName="mine")
    assert (ours.error("dev"), ours.phase("dev")) == ("", "Pending")


def ask_for(ours: Targets, **spec: Any) -> None:
    ours.live[DEV].spec |= spec
    ours.tell(DEV)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"deploymentTargetClassName": "other"}, ("wanted", "other"), id="another service"),
        pytest.param({"deploymentTargetClassName": "sandbox"}, WITHDRAWN, id="the sandbox"),
        pytest.param({"deploymentTargetClassName": "none"}, WITHDRAWN, id="a class that does not exist"),
        pytest.param({"targetName": "mine"}, WITHDRAWN, id="a target that is to be made by hand"),
    ],
)
def test_claim_when_it_wants_something_else_then_its_row_says_so(
    ours: Targets, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    ours.classes |= {"other": "Delete", "sandbox": "Delete"}
    ours.provisioners["sandbox"] = DEVSANDBOX
    ask_for(ours, **spec)
    assert ours.pending() == {FIRST: expected}


def test_row_when_it_was_withdrawn_then_it_is_wanted_again_with_its_class(ours: Targets) -> None:
    ask_for(ours, deploymentTargetClassName="none")
    ask_for(ours, deploymentTargetClassName="space")
    assert ours.pending() == {FIRST: WANTED}


@pytest.mark.parametrize("policy", ["", "Retain"])
def test_class_when_it_goes_or_changes_its_policy_then_the_row_follows(ours: Targets, policy: str) -> None:
    ours.set_class(policy)
    assert ours.pending() == {FIRST: WANTED if policy else WITHDRAWN}


def test_claim_when_the_sandbox_serves_its_class_then_it_has_no_row() -> None:
    ours = Targets(classes={"space": "Delete"}, provisioner=DEVSANDBOX)
    ours.claim()
    ours.settle()
    assert ours.pending() == {}


def test_claims_when_there_are_more_than_the_quota_then_only_those_within_it_have_rows() -> None:
    ours = Targets(classes={"space": "Delete"})
    for number in range(102):
        ours.claim(f"dev-{number}")
    assert len(ours.pending()) == 100


def test_claim_when_it_waits_no_more_because_it_is_beyond_the_quota_then_its_row_is_withdrawn(ours: Targets) -> None:
    ours.world.policy = replace(ours.world.policy, limits=REGISTRY.limits({}, bytes_=1))
    ours.live[DEV].annotations["provisioner.appstudio.redhat.com/dt-provisioner"] = "it grows"
    ours.tell(DEV)
    assert "quota exceeded" in ours.error("dev")
    assert ours.pending() == {FIRST: WITHDRAWN}
    ours.delete(DEV)
    assert ours.pending() == {FIRST: WITHDRAWN}


def test_claim_when_it_is_made_again_under_its_name_then_each_has_a_row_of_its_own(ours: Targets) -> None:
    ours.live[DEV].finalizers = []
    ours.delete(DEV)
    ours.claim()
    assert ours.pending() == {("dev", "uid-2"): WANTED}


def test_target_when_it_was_made_for_a_former_claim_of_the_name_then_the_next_one_does_not_get_it(
    ours: Targets,
) -> None:
    """Its provisioner takes it back, at whatever moment it hears of that."""
    ours.live[DEV].finalizers = []
    ours.delete(DEV)
    ours.claim()
    ours.settle()
    give(ours, "former", "uid-1")
    assert (ours.bound(), ours.phase("former", TARGET)) == ({}, "Available")
    give(ours, "latter", "uid-2")
    assert (ours.bound(), ours.pending()) == ({"dev": "latter"}, {})


def test_namespace_when_it_is_made_again_then_rows_of_the_former_one_go() -> None:
    ours = Targets(classes={"space": "Delete"})

    def told(second: int, tag: str, created_at: int) -> None:
        spec = {"deploymentTargetClassName": "space"}
        named = json.dumps({"version": "1", "spec": {"provisioner": "example.com/ours", "reclaimPolicy": "Delete"}})
        event = resource(second, CLAIM, "dev", spec, uid=f"uid-{tag}", named_class=named)
        ours.world.take(*in_namespace((tag, created_at), event))

    told(1, "former", 1000)
    told(90, "latter", 60_000)
    assert ours.pending() == {("dev", "uid-latter"): WANTED}
