"""SpaceRequests of the devsandbox provisioner, and the targets that are made of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from services.kinds.deployment_target.rows import Target
from services.kinds.deployment_target.rules import Deprovisioning
from services.kinds.deployment_target_claim.binder import bind
from services.kinds.deployment_target_claim.model import MAX_CLAIM_NAME
from services.kinds.deployment_target_claim.provisioning import (
    MAX_WHY,
    NamespaceAccess,
    Provisioning,
    SpaceRequest,
    SpaceRequestOrder,
    TargetOrder,
    deprovisioning,
    due_at,
    orphans_among,
    other_target_name,
    possible_targets,
    provision,
    space_name,
    with_target,
)
from services.kinds.deployment_target_claim.rows import Claim
from services.kinds.deployment_target_class.model import DeploymentTargetClassSpec
from services.kinds.shared.text import MAX_LABEL
from tests.unit.kinds.deployment_target_claim.given import claim, class_, target
from tests.unit.kinds.given import at

CLASS_OF = "provisioner.appstudio.redhat.com/dt-provisioner"
OF_CLAIM, OF_TARGET = "appstudio.openshift.io/dtc", "appstudio.openshift.io/dt"
ONE = (NamespaceAccess("spaces-1", "login"),)


def request(**changes: Any) -> SpaceRequest:
    given: dict[str, Any] = {
        "name": "a-request",
        "claim": "a",
        "class_name": "space",
        "api_url": "https://api.example.com",
        "made_at": at(0),
    }
    return SpaceRequest(**(given | changes))


def provisioned(
    *claims: Claim,
    targets: tuple[Target, ...] = (),
    requests: tuple[SpaceRequest, ...] = (),
    classes: dict[str, DeploymentTargetClassSpec] | None = None,
    second: float = 0,
    room: int = 100,
) -> Provisioning:
    known = {"space": class_()} if classes is None else classes
    by_name = {each.name: each for each in claims}
    outcomes = bind(claims, targets, known.keys())
    there = {each.name: each for each in targets}
    return provision(by_name, outcomes, there, requests, known, at(second), room=room)


def standing(made: str = "") -> SpaceRequestOrder:
    labels = {OF_CLAIM: "a"} | ({OF_TARGET: made} if made else {})
    return SpaceRequestOrder("a-request", labels, {CLASS_OF: "space"})


def test_claim_when_nothing_matches_then_one_space_is_requested_and_twice_the_same() -> None:
    (order,) = provisioned(claim()).requests
    assert order.name.startswith("a-")
    assert (order.tier, order.labels, order.annotations) == ("appstudio-env", {OF_CLAIM: "a"}, {CLASS_OF: "space"})
    assert provisioned(claim()).requests == (order,)
    (other,) = provisioned(claim(uid="another")).requests
    assert other.name != order.name


NOTHING_NEW: dict[str, tuple[Claim, dict[str, Any]]] = {
    "its class has another provisioner": (claim(), {"classes": {"space": class_("example.com/vcluster")}}),
    "its class does not exist": (claim(), {"classes": {}}),
    "it has no class": (claim(class_=""), {}),
    "it names a target": (claim(target="own"), {}),
    "it found a target": (claim(), {"targets": (target(),)}),
    "it is being deleted": (claim(deleting=True), {}),
    "nobody has seen yet that it stays until its space goes": (claim(has_finalizer=False), {}),
}


@pytest.mark.parametrize(("row", "given"), NOTHING_NEW.values(), ids=NOTHING_NEW)
def test_claim_when_it_needs_no_space_of_ours_then_none_is_requested(row: Claim, given: dict[str, Any]) -> None:
    assert provisioned(row, **given) == Provisioning(errors={})


def test_claims_when_there_is_no_room_for_their_spaces_then_the_oldest_get_theirs_and_the_others_are_told() -> None:
    rows = (claim("a", created_at=3), claim("b", created_at=1), claim("c", created_at=2))
    found = provisioned(*rows, room=2)
    assert [each.labels[OF_CLAIM] for each in found.requests] == ["b", "c"]
    assert found.crowded_out == ("a",)
    assert provisioned(*rows, room=-1).crowded_out == ("b", "c", "a")


def test_request_when_it_is_not_ready_then_it_stays_and_no_second_one_is_made() -> None:
    assert provisioned(claim(), requests=(request(),)) == Provisioning((standing(),), errors={})


def test_request_when_it_is_ready_then_a_target_is_made_that_is_kept_for_the_claim() -> None:
    found = provisioned(claim(), requests=(request(is_ready=True, accesses=ONE),))
    spec = target("a-dt", for_="a").spec
    annotations = {
        "provisioner.appstudio.redhat.com/claim-uid": "uid-a",
        "provisioner.appstudio.redhat.com/provisioned-by": "appstudio.redhat.com/devsandbox",
    }
    order = TargetOrder("a-dt", spec, annotations)
    assert found == Provisioning((standing("a-dt"),), targets=(order,), errors={})


def test_request_when_its_target_is_there_then_it_is_not_made_again_and_the_claim_gets_it() -> None:
    ready = request(is_ready=True, accesses=ONE, target="a-dt")
    made = target("a-dt", for_="a", phase="Available")
    assert provisioned(claim(), targets=(made,), requests=(ready,)) == Provisioning((standing("a-dt"),), errors={})


@pytest.mark.parametrize("accesses", [(), (*ONE, NamespaceAccess("spaces-2", "other"))], ids=["none", "two"])
def test_request_when_it_gives_not_one_namespace_then_no_target_is_made_and_the_claim_says_why(
    accesses: tuple[NamespaceAccess, ...],
) -> None:
    found = provisioned(claim(), requests=(request(is_ready=True, accesses=accesses),))
    assert found.targets == ()
    message = f"SpaceRequest 'a-request' gives access to {len(accesses)} namespaces instead of one"
    assert found.errors == {"a": message}


@pytest.mark.parametrize("length", [0, 5000], ids=["empty", "too-long"])
@pytest.mark.parametrize(
    ("field", "most"),
    [("namespaceAccess.name", 63), ("namespaceAccess.secretRef", 253), ("targetClusterURL", 2048)],
)
def test_request_when_it_gives_what_no_target_can_have_then_none_is_made_and_the_claim_names_the_field(
    field: str, most: int, length: int
) -> None:
    given = {"namespaceAccess.name": "spaces-1", "namespaceAccess.secretRef": "login", "targetClusterURL": "https://a"}
    name, secret, url = (given | {field: "x" * length}).values()
    ready = request(is_ready=True, accesses=(NamespaceAccess(name, secret),), api_url=url)
    message = f"SpaceRequest 'a-request' has no {field} in its status, or one of more than {most} characters"
    assert provisioned(claim(), requests=(ready,)) == Provisioning((standing(),), errors={"a": message})


def test_request_when_all_it_gives_is_as_long_as_may_be_then_a_target_is_made() -> None:
    ready = request(is_ready=True, accesses=(NamespaceAccess("x" * 63, "x" * 253),), api_url="x" * 2048)
    found = provisioned(claim(), requests=(ready,))
    assert (len(found.targets), found.errors) == (1, {})


@pytest.mark.parametrize(
    ("unready", "why"),
    [
        pytest.param("Provisioning: no room", "Provisioning: no room", id="its controller's reason"),
        pytest.param("", "its controller has not said why", id="none"),
        pytest.param("a\x1b" + "b" * 5000, "a" + "b" * (MAX_WHY - 1), id="a long one that terminals obey"),
    ],
)
def test_request_when_it_is_not_ready_after_five_minutes_then_the_claim_says_why(unready: str, why: str) -> None:
    waiting = request(unready=unready)
    assert provisioned(claim(), requests=(waiting,), second=299).errors == {}
    message = f"SpaceRequest 'a-request' is not ready after 5 minutes: {why}"
    assert provisioned(claim(), requests=(waiting,), second=300).errors == {"a": message}
    assert (due_at(waiting, at(299)), due_at(waiting, at(300))) == (at(300), None)


def test_request_when_it_is_deleted_by_hand_and_does_not_go_then_the_claim_says_so_after_two_minutes() -> None:
    leaving = request(name=space_name(claim()), deleting=True, going_since=at(1000), unready="Terminating: held")
    assert provisioned(claim(), requests=(leaving,), second=1119) == Provisioning(errors={})
    said = provisioned(claim(), requests=(leaving,), second=1120)
    message = f"SpaceRequest '{leaving.name}' of this claim is being deleted, and is still there after 2 minutes: "
    assert (said.requests, said.errors) == ((), {"a": f"{message}Terminating: held"})
    assert (due_at(leaving, at(1119)), due_at(leaving, at(1120))) == (at(1120), None)


def test_request_when_its_controller_says_since_when_it_does_not_go_then_that_counts() -> None:
    """Whatever else was told of it since."""
    leaving = request(name=space_name(claim()), deleting=True, going_since=at(1000), failing_since=at(900))
    assert provisioned(claim(), requests=(leaving,), second=1020).errors


def test_claim_when_a_former_one_of_its_name_has_left_target_and_space_then_it_gets_its_own_of_both() -> None:
    former = {"targets": (target("a-dt", phase="Released"),), "classes": RETAIN}
    kept, order = provisioned(claim(), requests=(MADE,), **former).requests
    assert (kept.name, kept.labels) == ("a-request", {OF_CLAIM: "a", OF_TARGET: "a-dt"})
    assert order.labels == {OF_CLAIM: "a"}
    mine = request(name=order.name, is_ready=True, accesses=ONE)
    (made,) = provisioned(claim(), requests=(MADE, mine), **former).targets
    assert re.fullmatch(r"a-dt-[0-9a-f]{5}", made.name)
    labelled = replace(mine, target=made.name)
    again = provisioned(claim(), requests=(MADE, labelled), classes=RETAIN)
    assert [each.name for each in again.targets] == [made.name], "the name stays, though the other one is free by now"


def test_claim_when_it_has_the_target_of_its_own_name_then_its_space_says_so() -> None:
    own = other_target_name(claim())
    targets = (target("a-dt", phase="Released"), target(own, for_="a", phase="Available"))
    found = provisioned(claim(), targets=targets, requests=(request(is_ready=True, accesses=ONE),), classes=RETAIN)
    assert (found.requests, found.targets) == ((standing(own),), ())


def test_claim_when_another_target_has_the_name_that_its_space_says_then_it_says_so() -> None:
    own = request(name=space_name(claim()), is_ready=True, accesses=ONE, target="a-dt")
    found = provisioned(claim(), targets=(target("a-dt", class_="other"),), requests=(own,))
    assert found.errors == {"a": "DeploymentTarget 'a-dt' exists already and is not for this claim; delete it"}
    assert ([each.name for each in found.requests], found.targets) == ([own.name], ())


def test_other_target_name_when_the_claim_has_the_longest_one_then_it_fits_a_label() -> None:
    assert len(other_target_name(claim("a" * MAX_CLAIM_NAME))) == MAX_LABEL


def test_request_when_it_is_being_deleted_then_the_claim_gets_another_one() -> None:
    (order,) = provisioned(claim(), requests=(request(deleting=True),)).requests
    assert order.name != "a-request"


MADE = request(is_ready=True, accesses=ONE, target="a-dt")
BOUND = target("a-dt", for_="a", phase="Bound")
RELEASED = target("a-dt", phase="Released")
GOING = target("a-dt", for_="a", phase="Bound", deleting=True)
RETAIN = {"space": class_(policy="Retain")}

REMOVED: dict[str, tuple[tuple[Claim, ...], dict[str, Any], bool]] = {
    "its claim has its target": ((claim(annotations={}),), {"targets": (BOUND,), "requests": (MADE,)}, False),
    "its target was released and stays": ((), {"targets": (RELEASED,), "requests": (MADE,)}, False),
    "its target is being deleted": ((), {"targets": (GOING,), "requests": (MADE,)}, True),
    "its target is being deleted, policy Retain": (
        (),
        {"targets": (GOING,), "requests": (MADE,), "classes": RETAIN},
        False,
    ),
    "its claim is gone before there was a target": ((), {"requests": (request(),)}, True),
    "its claim is gone, policy Retain": ((), {"requests": (request(),), "classes": RETAIN}, False),
    "its claim is gone, and its class, too": ((), {"requests": (request(),), "classes": {}}, False),
    "its claim waits": ((claim(),), {"requests": (request(),)}, False),
}


@pytest.mark.parametrize(("claims", "given", "is_removed"), REMOVED.values(), ids=REMOVED)
def test_request_when_nobody_needs_it_any_more_then_it_goes_if_the_policy_is_delete(
    claims: tuple[Claim, ...], given: dict[str, Any], is_removed: bool
) -> None:
    found = provisioned(*claims, **given)
    assert found.removed == (("a-request",) if is_removed else ())
    assert [each.name for each in found.requests] == ([] if is_removed else ["a-request"])


UNUSED = request(name=space_name(claim()))
LABELLED = replace(UNUSED, target="a-dt")

ORPHANS: dict[str, tuple[SpaceRequest, dict[str, Any], bool]] = {
    "its claim is gone": (UNUSED, {}, True),
    "its claim is gone, policy Retain: no target was made": (UNUSED, {"classes": RETAIN}, True),
    "its claim is gone, and so is its class": (UNUSED, {"classes": {}}, True),
    "another claim has the name": (UNUSED, {"claims": {"a": "uid-b"}}, True),
    "its claim is there": (UNUSED, {"claims": {"a": "uid-a"}}, False),
    "it is going": (replace(UNUSED, deleting=True), {}, False),
    "it is not ours": (replace(UNUSED, class_name=""), {}, False),
    "its target is there": (LABELLED, {"targets": {"a-dt": RELEASED}}, False),
    "its target is gone": (LABELLED, {}, True),
    "its target is gone, policy Retain": (LABELLED, {"classes": RETAIN}, False),
    "its target is gone, and nobody knows the policy": (LABELLED, {"classes": {}}, False),
}


@pytest.mark.parametrize(("row", "given", "is_left"), ORPHANS.values(), ids=ORPHANS)
def test_request_when_its_claim_is_no_more_then_it_is_an_orphan_unless_a_target_has_it_or_its_class_keeps_it(
    row: SpaceRequest, given: dict[str, Any], is_left: bool
) -> None:
    facts: dict[str, Any] = {"claims": {}, "targets": {}, "classes": {"space": class_()}} | given
    found = orphans_among([row], facts["claims"], facts["targets"], facts["classes"])
    assert found == ({row.name: row} if is_left else {})


OTHER_NAME = other_target_name(claim())


@pytest.mark.parametrize(
    ("targets", "made"),
    [
        pytest.param([target("a-dt", phase="Released", claim_uid="uid-a")], "a-dt", id="of its claim"),
        pytest.param([target("a-dt", claim_uid="uid-b"), target(OTHER_NAME, claim_uid="uid-a")], OTHER_NAME, id="both"),
        pytest.param([target("a-dt", claim_uid="uid-b")], "", id="of a former claim"),
        pytest.param([target("a-dt")], "", id="of nobody"),
        pytest.param([target("mine", claim_uid="uid-a")], "", id="of a name that none is made by"),
    ],
)
def test_request_when_its_label_does_not_say_its_target_yet_then_it_has_the_one_that_was_made_for_its_claim(
    targets: list[Target], made: str
) -> None:
    assert with_target(UNUSED, {each.name: each for each in targets}) == replace(UNUSED, target=made)


@pytest.mark.parametrize(
    ("row", "targets", "names"),
    [
        pytest.param(LABELLED, {"a-dt"}, ("a-dt",), id="its label says so"),
        pytest.param(UNUSED, set(), ("a-dt", OTHER_NAME), id="another one may have had the first name"),
        pytest.param(UNUSED, {"a-dt"}, (OTHER_NAME,), id="another one has the first name"),
    ],
)
def test_request_when_nobody_has_told_of_its_target_then_that_has_a_name_by_who_has_or_had_the_first_one(
    row: SpaceRequest, targets: set[str], names: tuple[str, ...]
) -> None:
    assert possible_targets(row, targets) == names


def test_request_when_it_is_being_deleted_already_then_it_is_not_deleted_again() -> None:
    assert provisioned(requests=(request(deleting=True),)).removed == ()


STUCK = request(target="a-dt", deleting=True, failing_since=at(0))


@pytest.mark.parametrize(
    ("requests", "second", "found"),
    [
        pytest.param([], 0, Deprovisioning(), id="nothing was made"),
        pytest.param([request(target="other")], 0, Deprovisioning(), id="another's"),
        pytest.param([MADE], 999, Deprovisioning(exists=True), id="there"),
        pytest.param([STUCK], 119, Deprovisioning(exists=True), id="fails for less than two minutes"),
        pytest.param([STUCK], 120, Deprovisioning(exists=True, is_stuck=True), id="fails for two minutes"),
    ],
)
def test_request_when_it_does_not_terminate_for_two_minutes_then_it_is_stuck(
    requests: list[SpaceRequest], second: int, found: Deprovisioning
) -> None:
    assert deprovisioning("a-dt", requests, at(second)) == found
