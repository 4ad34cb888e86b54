"""Which claim gets which target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kinds.deployment_target.rows import Target
from services.kinds.deployment_target_claim.binder import (
    ClaimOutcome,
    bind,
    claim_change,
    matches,
)
from services.kinds.deployment_target_claim.rows import FINALIZER, Claim
from tests.unit.kinds.deployment_target_claim.given import claim, target

BIND_COMPLETE = "dt.appstudio.redhat.com/bind-complete"
BY_CONTROLLER = "dt.appstudio.redhat.com/bound-by-controller"
PROVISIONER = "provisioner.appstudio.redhat.com/dt-provisioner"
DONE = {BIND_COMPLETE: "true"}
FOUND = DONE | {BY_CONTROLLER: "true"}
MAKING = {PROVISIONER: "space"}

TAKEN = "DeploymentTargetClaim wants to claim a DeploymentTarget that is already claimed"
NO_MATCH = "DeploymentTarget does not match the specified DeploymentTargetClaim"
LOST = "DeploymentTarget 't' of this claim does not exist any more"

PENDING = ClaimOutcome("Pending")
AWAITING = ClaimOutcome("Pending", annotations=MAKING)
NAMED = ClaimOutcome("Bound", "t", annotations=DONE)
MATCHED = ClaimOutcome("Bound", "t", annotations=FOUND)
REFUSED = ClaimOutcome("Pending", error=TAKEN)
MISMATCHED = ClaimOutcome("Pending", error=NO_MATCH)

CASES: dict[str, tuple[list[Claim], list[Target], dict[str, ClaimOutcome]]] = {
    "names a target that does not exist": ([claim(target="t")], [], {"a": PENDING}),
    "names a target that is being deleted": ([claim(target="t")], [target(deleting=True)], {"a": PENDING}),
    "names a free target": ([claim(target="t")], [target()], {"a": NAMED}),
    "names an available target": ([claim(target="t")], [target(phase="Available")], {"a": NAMED}),
    "names a target that is kept for it": ([claim(target="t")], [target(for_="a")], {"a": NAMED}),
    "names one that is kept for it, of another class": (
        [claim(target="t")],
        [target(for_="a", class_="own")],
        {"a": NAMED},
    ),
    "names a target that is kept for another": ([claim(target="t")], [target(for_="b")], {"a": REFUSED}),
    "names a target of another class": ([claim(target="t")], [target(class_="own")], {"a": MISMATCHED}),
    "names a released target": ([claim(target="t")], [target(phase="Released")], {"a": MISMATCHED}),
    "names a target without credentials": ([claim(target="t")], [target(secret="")], {"a": MISMATCHED}),
    "finds a target": ([claim()], [target()], {"a": MATCHED}),
    "finds the first by name": ([claim()], [target("u"), target("t")], {"a": MATCHED}),
    "finds one that is kept for it": ([claim()], [target("t", for_="a")], {"a": MATCHED}),
    "finds none of its class": ([claim()], [target(class_="own")], {"a": AWAITING}),
    "finds none that is available": (
        [claim()],
        [
            target("p", phase="Pending"),
            target("b", phase="Bound"),
            target("r", phase="Released"),
            target("f", phase="Failed"),
        ],
        {"a": AWAITING},
    ),
    "finds none that is not kept for another": ([claim()], [target(for_="b")], {"a": AWAITING}),
    "finds one that was made for it": ([claim()], [target(for_="a", claim_uid="uid-a")], {"a": MATCHED}),
    "finds one that was made for a former claim of its name": (
        [claim()],
        [target(for_="a", claim_uid="uid-former")],
        {"a": AWAITING},
    ),
    "names one that was made for a former claim of its name": (
        [claim(target="t")],
        [target(for_="a", claim_uid="uid-former")],
        {"a": REFUSED},
    ),
    "stays bound to one that was made for it before it was restored with another uid": (
        [claim(target="t", annotations=DONE)],
        [target(for_="a", phase="Bound", claim_uid="uid-former")],
        {"a": NAMED},
    ),
    "finds none that stays": ([claim()], [target(deleting=True)], {"a": AWAITING}),
    "waits for the one that is made, and takes no other": (
        [claim(annotations=MAKING)],
        [target("other")],
        {"a": AWAITING},
    ),
    "takes the one that was made": (
        [claim(annotations=MAKING)],
        [target("other"), target("t", for_="a", phase="Available")],
        {"a": ClaimOutcome("Bound", "t", annotations=FOUND | MAKING)},
    ),
    "has no class": ([claim(class_="")], [], {"a": PENDING}),
    "has a class that does not exist": (
        [claim(class_="gone")],
        [],
        {
            "a": ClaimOutcome(
                "Pending",
                error="DeploymentTargetClass 'gone' does not exist; correct spec.deploymentTargetClassName",
                annotations={PROVISIONER: "gone"},
            )
        },
    ),
    "two name the same: the older has it": (
        [claim("b", "t", created_at=2), claim("a", "t", created_at=1)],
        [target()],
        {"a": NAMED, "b": REFUSED},
    ),
    "two find the same: the older has it": (
        [claim("b", created_at=2), claim("a", created_at=1)],
        [target()],
        {"a": MATCHED, "b": AWAITING},
    ),
    "who names it comes before an older one that finds it": (
        [claim("a", "t", created_at=2), claim("b", created_at=1)],
        [target()],
        {"a": NAMED, "b": AWAITING},
    ),
    "who has it comes before an older one that names it": (
        [claim("a", "t", created_at=2, annotations=DONE), claim("b", "t", created_at=1)],
        [target(phase="Bound")],
        {"a": NAMED, "b": REFUSED},
    ),
    "was given it before an older one was seen": (
        [claim("b", created_at=2, given="t"), claim("a", created_at=1)],
        [target()],
        {"b": MATCHED, "a": AWAITING},
    ),
    "was given another one than it names since": (
        [claim(target="u", given="t", annotations=DONE)],
        [target("t", for_="a", phase="Bound"), target("u")],
        {"a": NAMED},
    ),
    "was given one that is gone": (
        [claim(given="t")],
        [target("u")],
        {"a": ClaimOutcome("Lost", error=LOST, annotations=FOUND)},
    ),
    "stays bound": ([claim(target="t", annotations=FOUND)], [target(for_="a", phase="Bound")], {"a": MATCHED}),
    "stays bound to a target that is being deleted": (
        [claim(target="t", annotations=DONE)],
        [target(for_="a", phase="Bound", deleting=True)],
        {"a": NAMED},
    ),
    "has lost its target": (
        [claim(target="t", annotations=FOUND)],
        [target("other")],
        {"a": ClaimOutcome("Lost", error=LOST, annotations=FOUND)},
    ),
    "had lost its target, which is back": ([claim(target="t", annotations=DONE)], [target()], {"a": NAMED}),
    "has lost its target to another claim": (
        [claim(target="t", annotations=DONE)],
        [target(for_="b", phase="Bound")],
        {"a": ClaimOutcome("Lost", error=TAKEN, annotations=DONE)},
    ),
    "was bound and is without a class now": (
        [claim(target="t", class_="", annotations=DONE | MAKING)],
        [target(for_="a", phase="Bound")],
        {"a": NAMED},
    ),
    "was bound and has another class now": (
        [claim(target="t", class_="own", annotations=DONE | MAKING)],
        [target(for_="a", phase="Bound")],
        {"a": ClaimOutcome("Bound", "t", annotations=DONE | {PROVISIONER: "own"})},
    ),
    "is being deleted": ([claim(deleting=True)], [target()], {}),
}


@pytest.mark.parametrize(("claims", "targets", "outcomes"), CASES.values(), ids=CASES)
def test_claim_when_it_stands_so_among_others_then_it_has_the_target_that_the_rules_give_it(
    claims: list[Claim], targets: list[Target], outcomes: dict[str, ClaimOutcome]
) -> None:
    assert bind(claims, targets, {"space", "own"}) == outcomes


CLAIMS = st.lists(
    st.builds(
        claim,
        st.sampled_from("abcd"),
        st.sampled_from(["", "t", "u", "v"]),
        st.sampled_from(["space", "own"]),
        st.integers(0, 2),
        annotations=st.sampled_from([{}, DONE, FOUND, MAKING]),
        deleting=st.booleans(),
    ),
    unique_by=lambda each: each.name,
)
TARGETS = st.lists(
    st.builds(
        target,
        st.sampled_from("tuv"),
        st.sampled_from(["", "a", "b", "c"]),
        st.sampled_from(["space", "own"]),
        phase=st.sampled_from(["", "Available", "Bound", "Released"]),
        deleting=st.booleans(),
    ),
    unique_by=lambda each: each.name,
)


@given(CLAIMS, TARGETS, st.randoms(use_true_random=False))
def test_claims_when_bound_then_no_two_have_one_target_and_their_order_of_arrival_does_not_matter(
    claims: list[Claim], targets: list[Target], random: object
) -> None:
    outcomes = bind(claims, targets, {"space", "own"})
    had = [outcome.target for outcome in outcomes.values() if outcome.phase == "Bound"]
    assert len(had) == len(set(had))
    assert set(had) <= {each.name for each in targets}
    random.shuffle(claims)  # type: ignore[attr-defined]
    random.shuffle(targets)  # type: ignore[attr-defined]
    assert bind(claims, targets, {"space", "own"}) == outcomes


@given(CLAIMS, TARGETS)
def test_claims_when_what_was_decided_is_written_then_deciding_again_changes_nothing(
    claims: list[Claim], targets: list[Target]
) -> None:
    outcomes = bind(claims, targets, {"space", "own"})
    owners = {each.target: name for name, each in outcomes.items() if each.phase == "Bound"}
    written = [_written(each, outcomes.get(each.name)) for each in claims]
    bound = [
        target(each.name, owners[each.name], each.class_name, phase="Bound", deleting=each.deleting)
        if each.name in owners
        else each
        for each in targets
    ]
    again = bind(written, bound, {"space", "own"})
    assert {name: (each.phase, each.target) for name, each in again.items() if each.phase == "Bound"} == {
        name: (each.phase, each.target) for name, each in outcomes.items() if each.phase == "Bound"
    }
    assert all(
        _changes(each, again[each.name]) == ({}, {})
        for each in written
        if again.get(each.name, PENDING).phase == "Bound"
    )


def _written(row: Claim, outcome: ClaimOutcome | None) -> Claim:
    if outcome is None:
        return row
    spec, annotations = _changes(row, outcome)
    kept = {name: value for name, value in (row.annotations | annotations).items() if value is not None}
    return claim(
        row.name,
        spec.get("targetName", row.target),
        row.class_name,
        row.created_at,
        annotations=kept,
        deleting=row.deleting,
    )


def _changes(row: Claim, outcome: ClaimOutcome) -> tuple[dict[str, str], dict[str, str | None]]:
    """What the claim does not say yet: of its spec and of its annotations."""
    wanted = claim_change(row, outcome, ())
    spec = {name: value for name, value in wanted.spec.items() if row.spec.target_name != value}
    return spec, {name: value for name, value in wanted.annotations.items() if row.annotations.get(name) != value}


@pytest.mark.parametrize(
    ("row", "outcome", "patch"),
    [
        pytest.param(
            claim(),
            MATCHED,
            ({"targetName": "t"}, {BIND_COMPLETE: "true", BY_CONTROLLER: "true"}),
            id="a found target is written into the claim",
        ),
        pytest.param(claim(target="t"), NAMED, ({}, DONE), id="a named one is there already"),
        pytest.param(claim(annotations=MAKING), PENDING, ({}, {PROVISIONER: None}), id="no class: it goes"),
        pytest.param(claim(target="t", annotations=DONE), NAMED, ({}, {}), id="all is said"),
        pytest.param(claim(given="t", annotations=DONE), NAMED, ({"targetName": "t"}, {}), id="given, not written yet"),
        pytest.param(claim(target="u", given="t", annotations=DONE), NAMED, ({"targetName": "t"}, {}), id="changed"),
        pytest.param(claim(annotations={"team": "a"}), PENDING, ({}, {}), id="foreign annotations are left alone"),
    ],
)
def test_claim_when_its_outcome_is_written_then_only_what_differs_is(
    row: Claim, outcome: ClaimOutcome, patch: tuple[dict[str, str], dict[str, str | None]]
) -> None:
    assert _changes(row, outcome) == patch


@pytest.mark.parametrize(
    ("row", "targets", "keeps"),
    [
        pytest.param(claim(), [], True, id="not deleted"),
        pytest.param(claim(deleting=True), [], False, id="deleted, never bound"),
        pytest.param(claim(deleting=True), [target(for_="a", phase="Bound")], True, id="its target names it"),
        pytest.param(claim(deleting=True), [target(for_="a", phase="Released")], True, id="its target still names it"),
        pytest.param(claim(deleting=True), [target(phase="Released")], False, id="its target names it no more"),
        pytest.param(claim(deleting=True), [target(for_="a")], False, id="a target that is only kept for it"),
        pytest.param(claim(deleting=True), [target(for_="b", phase="Bound")], False, id="another's target"),
    ],
)
def test_claim_when_it_is_deleted_then_it_stays_until_its_target_is_released(
    row: Claim, targets: list[Target], keeps: bool
) -> None:
    change = claim_change(row, None if row.deleting else PENDING, targets)
    assert change.finalizers == {FINALIZER: keeps}


def test_target_when_the_claim_wants_another_one_then_it_does_not_match() -> None:
    assert matches(claim(target="t"), target("t"))
    assert not matches(claim(target="other"), target("t"))
