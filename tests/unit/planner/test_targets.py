"""Claims and targets, planned: who has which, what is written to them, and what becomes of them at the end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.kinds.deployment_target.rows import CLAIM_UID
from services.kinds.deployment_target.rows import FINALIZER as TARGET_FINALIZER
from services.kinds.deployment_target_claim.rows import BIND_COMPLETE, BOUND_BY_CONTROLLER, FINALIZER, PROVISIONER
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET
from services.kinds.repository_credential.model import CREDENTIAL_SECRET
from services.kinds.secret.rules import NEVER_COPIED, TOO_LARGE
from services.planner.domain.appstudio import targets
from services.planner.domain.policy import Policy
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import changed, resource, resource_gone, secret
from tests.unit.planner.targets import CLAIM, TARGET, Targets
from tests.unit.planner.tenant import conditions

DEV, T = (CLAIM, "dev"), (TARGET, "t")


@pytest.fixture
def ours() -> Targets:
    """With a class."""
    return Targets(classes={"space": "Delete"})


@pytest.fixture
def bound(ours: Targets) -> Targets:
    """A claim that has a target, and all of it written."""
    ours.target()
    ours.claim()
    ours.settle()
    return ours


def test_claim_when_a_target_matches_then_both_say_so(bound: Targets) -> None:
    assert (bound.phase("dev"), bound.error("dev"), bound.phase("t", TARGET)) == ("Bound", "", "Bound")
    claim, target = bound.live[DEV], bound.live[T]
    assert claim.spec["targetName"] == "t"
    assert claim.annotations == {BIND_COMPLETE: "true", BOUND_BY_CONTROLLER: "true"}
    assert (claim.finalizers, target.spec["claimRef"], target.finalizers) == ([FINALIZER], "dev", [TARGET_FINALIZER])


def test_target_when_nobody_claims_it_then_it_is_available_and_kept_by_a_finalizer(ours: Targets) -> None:
    ours.target()
    ours.settle()
    assert (ours.phase("t", TARGET), ours.live[T].finalizers) == ("Available", [TARGET_FINALIZER])
    assert "claimRef" not in ours.live[T].spec


def test_claims_when_two_want_one_target_at_the_same_moment_then_the_older_gets_it_before_anything_is_written(
    ours: Targets,
) -> None:
    ours.target()
    ours.claim("first")
    ours.claim("second")
    assert ours.bound() == {"first": "t"}
    ours.settle()
    assert (ours.bound(), ours.phase("second")) == ({"first": "t"}, "Pending")


def test_claim_when_it_was_bound_then_an_older_one_that_comes_later_does_not_take_its_target(ours: Targets) -> None:
    """No write of the binding has been seen yet."""
    ours.target()
    ours.claim("late", told=False)
    ours.claim("first")
    ours.tell((CLAIM, "late"))
    assert ours.bound() == {"first": "t"}


def test_claim_when_nothing_matches_then_it_waits_for_a_provisioner_until_a_target_for_it_comes(ours: Targets) -> None:
    ours.claim()
    ours.settle()
    assert (ours.phase("dev"), ours.live[DEV].annotations) == ("Pending", {PROVISIONER: "space"})
    ours.target("dev-dt", for_="dev")
    ours.settle()
    assert (ours.phase("dev"), ours.bound()) == ("Bound", {"dev": "dev-dt"})


def test_claim_when_it_names_a_target_that_another_has_then_it_says_so(bound: Targets) -> None:
    bound.claim("other", target="t")
    bound.settle()
    assert bound.phase("other") == "Pending"
    assert bound.error("other") == "DeploymentTargetClaim wants to claim a DeploymentTarget that is already claimed"


def test_target_when_it_is_released_then_it_is_nobodys_until_operators_see_to_it(bound: Targets) -> None:
    bound.claim("other", target="t")
    bound.set_class("Retain")
    bound.delete(DEV)
    bound.settle()
    assert (bound.phase("t", TARGET), bound.phase("other")) == ("Released", "Pending")


def test_claim_when_its_target_is_gone_then_it_is_lost_and_bound_again_when_that_returns(bound: Targets) -> None:
    bound.live[T].finalizers = []
    bound.delete(T)
    bound.settle()
    assert bound.phase("dev") == "Lost"
    assert "'t'" in bound.error("dev")
    bound.target()
    bound.settle()
    assert (bound.phase("dev"), bound.error("dev")) == ("Bound", "")


def test_claim_when_its_binding_is_edited_then_that_is_undone(bound: Targets) -> None:
    bound.target("other")
    bound.live[DEV].spec["targetName"] = "other"
    bound.live[DEV].annotations.pop(BIND_COMPLETE)
    bound.pass_time(10)
    bound.tell(DEV)
    bound.settle()
    assert (bound.live[DEV].spec["targetName"], bound.bound()) == ("t", {"dev": "t"})
    assert BIND_COMPLETE in bound.live[DEV].annotations


# Classes


def test_class_when_it_does_not_exist_then_the_claim_says_so_until_it_does(ours: Targets) -> None:
    ours.claim(class_="gone")
    assert "'gone' does not exist" in ours.error("dev")
    ours.set_class("Delete", "gone")
    assert (ours.error("dev"), ours.phase("dev")) == ("", "Pending")


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True), ("", True)])
def test_claim_when_it_is_deleted_then_its_target_is_released_and_goes_if_its_class_says_so(
    bound: Targets, policy: str, stays: bool
) -> None:
    bound.set_class(policy)
    bound.delete(DEV)
    assert bound.phase("t", TARGET) == "Released"
    assert DEV in bound.live, "it stays until its target is released"
    bound.settle()
    assert DEV not in bound.live
    assert (T in bound.live) is stays
    if stays:
        assert "claimRef" not in bound.live[T].spec
        assert bound.phase("t", TARGET) == "Released"


def test_class_when_its_policy_changes_while_a_claim_is_bound_then_the_newest_counts(bound: Targets) -> None:
    bound.set_class("Retain")
    bound.set_class("Delete")
    bound.delete(DEV)
    bound.settle()
    assert bound.live == {}


def test_claim_when_it_is_deleted_before_its_binding_is_written_then_its_target_is_released_all_the_same(
    ours: Targets,
) -> None:
    ours.set_class("Retain")
    ours.target()
    ours.claim()
    ours.delete(DEV)
    ours.settle()
    assert ours.phase("t", TARGET) == "Released"
    assert "claimRef" not in ours.live[T].spec


@pytest.mark.parametrize("is_written", [False, True], ids=["unwritten", "written"])
def test_claim_when_it_is_deleted_and_its_target_told_of_before_that_goes_then_it_goes_all_the_same(
    ours: Targets, is_written: bool
) -> None:
    """As it is by the status that the release itself writes."""
    ours.target()
    ours.claim()
    if is_written:
        ours.settle()
    ours.delete(DEV)
    for _ in range(3):
        ours.tell(T)
    assert ours.phase("t", TARGET) == "Released"
    ours.settle()
    assert ours.live == {}


def test_class_when_its_policy_changes_after_a_target_was_released_then_that_stays_as_it_was_decided(
    ours: Targets,
) -> None:
    ours.set_class("Retain")
    ours.target()
    ours.claim()
    ours.delete(DEV)
    ours.settle()
    ours.set_class("Delete")
    ours.settle()
    assert (ours.phase("t", TARGET), ours.live[T].deleting) == ("Released", False)


def test_target_when_it_is_deleted_while_it_is_bound_then_it_goes_and_its_claim_is_lost(bound: Targets) -> None:
    bound.delete(T)
    bound.settle()
    assert T not in bound.live
    assert bound.phase("dev") == "Lost"


# Environments


def test_environment_when_it_names_a_claim_then_it_waits_for_its_target_and_deploys_there_with_a_copy_of_its_secret(
    ours: Targets,
) -> None:
    target = {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}
    spec = {"displayName": "Dev", "deploymentStrategy": "Manual", "configuration": target}
    ours.world.take(resource(1, "Environment", "stage", spec))
    assert reconciled(ours)[1] == "DeploymentTargetClaimNotFound"
    ours.second = 1
    ours.claim()
    ours.settle()
    assert (reconciled(ours)[0], wanted(ours)) == ("True", {})
    ours.target("dev-dt", for_="dev")
    ours.settle()
    assert reconciled(ours)[0] == "True"
    made = wanted(ours)
    environment = made["GitOpsDeploymentManagedEnvironment", "managed-environment-stage"]
    assert (environment["apiURL"], environment["namespaces"]) == ("https://api.example.com", ["spaces-1"])
    assert environment["credentialsSecret"] == "managed-environment-secret-stage"
    assert made["SecretCopy", "managed-environment-secret-stage"]["from"] == "login"


def test_environment_when_the_secret_of_its_target_comes_changes_and_goes_then_its_copy_follows_and_that_is_told(
    ours: Targets,
) -> None:
    target = {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}
    spec = {"displayName": "Dev", "deploymentStrategy": "Manual", "configuration": target}
    ours.world.take(resource(1, "Environment", "stage", spec))
    ours.second, ours.secret = 1, {"secret_type": "", "secret_version": "absent"}
    ours.claim()
    ours.target("dev-dt", for_="dev")
    ours.settle()
    assert reconciled(ours)[1] == "SecretNotFound"
    assert "the secret login referenced" in reconciled(ours)[2]
    assert COPY not in wanted(ours)
    for version in ("7", "9"):
        ours.secret = {"secret_type": "Opaque", "secret_version": version}
        ours.tell((TARGET, "dev-dt"))
        assert reconciled(ours)[:2] == ("True", "SecretNotFoundResolved")
        assert wanted(ours)[COPY]["version"] == version
    revision = {row.key: row.revision for row in ours.rows()}[COPY]
    ours.tell((TARGET, "dev-dt"))
    assert {row.key: row.revision for row in ours.rows()}[COPY] == revision == 2, "copied once for each version"
    ours.secret = {"secret_type": "", "secret_version": "absent"}
    ours.tell((TARGET, "dev-dt"))
    assert reconciled(ours)[1] == "SecretNotFound"
    assert {row.key: row.desired for row in ours.rows()}[COPY] == "absent", "it goes with its source"


@pytest.mark.parametrize("type_", [ENVIRONMENT_SECRET, "Opaque"])
def test_environment_when_somebody_elses_secret_has_the_name_of_its_copy_then_it_says_so_until_that_is_gone(
    ours: Targets, type_: str
) -> None:
    """One of another type is not followed: the ManagedEnvironment that names it tells of it."""
    copied(ours)
    meet(ours, type_)
    assert reconciled(ours)[:2] == ("False", "NameExists")
    assert reconciled(ours)[2].startswith("Secret 'managed-environment-secret-stage' exists already")
    ours.pass_time(1200)
    assert copy_row(ours).revision == 1, "it is not asked for again and again"
    meet(ours, "")
    assert reconciled(ours)[:2] == ("True", "NameExistsResolved")
    ours.pass_time(10)
    assert copy_row(ours).revision == 2


@pytest.mark.parametrize("type_", [*NEVER_COPIED, TOO_LARGE])
def test_environment_when_the_secret_of_its_target_is_not_copied_then_it_says_so_and_no_copy_is_asked_for(
    ours: Targets, type_: str
) -> None:
    copied(ours, secret_type=type_)
    assert reconciled(ours)[:2] == ("False", "SecretNotCopied")
    assert "secret login of the DeploymentTarget" in reconciled(ours)[2]
    for _ in range(12):
        ours.pass_time(300)
        assert COPY not in wanted(ours), "nor ever again"
    ours.secret = {"secret_type": "Opaque", "secret_version": "9"}
    ours.tell((TARGET, "dev-dt"))
    assert reconciled(ours)[:2] == ("True", "SecretNotCopiedResolved")
    assert wanted(ours)[COPY]["version"] == "9"


def test_environment_when_the_secret_that_is_copied_grows_too_large_then_the_copy_goes_and_is_not_asked_for_again(
    ours: Targets,
) -> None:
    copied(ours)
    meet(ours, ENVIRONMENT_SECRET, OWNER)
    ours.secret = {"secret_type": TOO_LARGE, "secret_version": "9"}
    ours.tell((TARGET, "dev-dt"))
    assert reconciled(ours)[:2] == ("False", "SecretNotCopied")
    asked = copy_row(ours)
    assert asked.desired == "absent"
    for _ in range(12):
        ours.pass_time(300)
        assert copy_row(ours) == asked
    meet(ours, "")
    assert COPY not in wanted(ours)


def test_environment_when_the_secret_of_its_target_is_followed_and_too_large_then_no_copy_is_asked_for(
    ours: Targets,
) -> None:
    copied(ours, secret_type=CREDENTIAL_SECRET)
    assert COPY in wanted(ours)
    ours.second += 1
    ours.world.take(resource(ours.second, "Secret", "login", {}, omitted="the Secret is too large"))
    assert reconciled(ours)[:2] == ("False", "SecretNotCopied")
    assert copy_row(ours).desired == "absent"


def test_environment_when_its_copy_is_seen_then_nothing_is_wrong(ours: Targets) -> None:
    copied(ours)
    meet(ours, ENVIRONMENT_SECRET, OWNER)
    assert "Reconciled" not in conditions(ours.world, "Environment", "stage")


def copied(ours: Targets, secret_type: str = "Opaque") -> None:
    """An environment on a target whose Secret has a type of its own."""
    ours.secret = {"secret_type": secret_type, "secret_version": "7"}
    ours.claim()
    ours.target("dev-dt", for_="dev")
    ours.settle()
    target = {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}
    spec = {"displayName": "Dev", "deploymentStrategy": "Manual", "configuration": target}
    ours.second += 1
    ours.world.take(resource(ours.second, "Environment", "stage", spec))


def meet(ours: Targets, type_: str, *owners: dict[str, Any]) -> None:
    """Tell of the Secret that has the name of the copy, "" if none has, and of the ManagedEnvironment that names it."""
    (_, copy), managed = COPY, ("GitOpsDeploymentManagedEnvironment", "managed-environment-stage")
    metadata = {"ownerReferences": list(owners)}
    ours.second += 2
    if type_ == ENVIRONMENT_SECRET:
        ours.world.take(secret(ours.second - 1, copy, metadata=metadata))
    elif any((each.kind, each.name) == ("Secret", copy) for each in ours.world.resources.values()):
        ours.world.take(resource_gone(ours.second - 1, "Secret", copy, f"uid-secret-{copy}"))
    facts: dict[str, Any] = {"metadata": {"ownerReferences": [OWNER]}, "secret_type": type_}
    ours.world.take(resource(ours.second, *managed, wanted(ours)[managed], **facts))


def copy_row(ours: Targets) -> ChildRow:
    (row,) = [row for row in ours.rows() if row.key == COPY]
    return row


COPY = ("SecretCopy", "managed-environment-secret-stage")
OWNER = {"kind": "Environment", "name": "stage", "uid": "uid-stage", "controller": True}


def reconciled(ours: Targets) -> tuple[str, str, str]:
    return conditions(ours.world, "Environment", "stage")["Reconciled"]


def wanted(ours: Targets) -> dict[tuple[str, str], dict[str, Any]]:
    """Specs of the environment's child objects."""
    return {row.key: json.loads(row.manifest)["spec"] for row in ours.rows() if row.owner_kind == "Environment"}


# Loss, drift, bad input, bounds


@pytest.mark.parametrize("first", [CLAIM, TARGET])
def test_database_when_it_is_lost_then_nothing_is_lost_or_deleted_whatever_is_told_first(
    bound: Targets, first: str
) -> None:
    bound.set_class("Retain", "kept")
    bound.target("old", class_="kept")
    bound.claim("old", target="old", class_="kept")
    bound.settle()
    bound.delete((CLAIM, "old"))
    bound.settle()
    again = Targets(classes=bound.classes, live=bound.live, second=bound.second, made=bound.made)
    again.claim("new", class_="kept", told=False)
    for key in sorted(again.live, key=lambda key: (key[0] != first, key)):
        again.tell(key)
        again.settle()
    assert (again.bound(), again.phase("t", TARGET)) == ({"dev": "t"}, "Bound")
    assert (again.phase("old", TARGET), again.phase("new")) == ("Released", "Pending"), "it gets no released target"


def test_claim_when_all_is_as_decided_then_nothing_is_written_any_more(bound: Targets) -> None:
    rows, status = bound.rows(), dict(bound.world.workspace)
    bound.tell(DEV, T)
    bound.pass_time(600)
    assert (bound.rows(), {**bound.world.workspace}) == (rows, status)


def test_claim_when_it_is_beyond_the_quota_then_it_says_so_gets_no_target_and_can_be_deleted(ours: Targets) -> None:
    policy = Policy()
    ours.world.policy = replace(policy, limits=policy.kinds.limits({CLAIM: 1}))
    ours.claim("first")
    ours.target("u", for_="second")
    ours.claim("second", finalizers=[FINALIZER])
    assert "this namespace may have 1 DeploymentTargetClaims" in ours.error("second")
    assert ours.bound() == {}
    ours.settle()
    ours.delete((CLAIM, "second"))
    ours.settle()
    assert (CLAIM, "second") not in ours.live


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
@pytest.mark.parametrize("who", [DEV, T], ids=["claim", "target"])
def test_claim_when_it_or_its_target_grows_beyond_the_quota_then_they_stay_bound_and_end_as_the_class_says(
    bound: Targets, who: tuple[str, str], policy: str, stays: bool
) -> None:
    bound.world.policy = replace(Policy(), limits=Policy().kinds.limits({}, bytes_=1))
    bound.live[who].annotations[PROVISIONER if who == DEV else CLAIM_UID] = "x" * 5000
    bound.tell(who)
    assert "quota exceeded" in bound.error(who[1], who[0])
    assert (bound.phase("dev"), bound.phase("t", TARGET)) == ("Bound", "Bound")
    if who == T:
        del bound.live[T].annotations[CLAIM_UID]
    bound.set_class(policy)
    bound.delete(DEV)
    bound.settle()
    assert (DEV in bound.live, T in bound.live) == (False, stays)
    if stays:
        assert (bound.phase("t", TARGET), "claimRef" in bound.live[T].spec) == ("Released", False)


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
@pytest.mark.parametrize("who", [DEV, T], ids=["claim", "target"])
def test_claim_when_metadata_is_too_long_to_be_read_then_it_stays_bound_and_its_target_ends_as_the_class_says(
    bound: Targets, who: tuple[str, str], policy: str, stays: bool
) -> None:
    bound.live[who].annotations[BIND_COMPLETE if who == DEV else CLAIM_UID] = "x" * 40_000
    bound.tell(who)
    assert (bound.phase("dev"), bound.phase("t", TARGET), bound.error("dev")) == ("Bound", "Bound", "")
    bound.set_class(policy)
    bound.delete(DEV)
    bound.settle()
    assert (DEV in bound.live, T in bound.live) == (False, stays)
    if stays:
        assert (bound.phase("t", TARGET), "claimRef" in bound.live[T].spec) == ("Released", False)


def test_claim_when_our_annotation_is_too_long_to_be_read_then_it_is_put_right(bound: Targets) -> None:
    bound.live[DEV].annotations[BIND_COMPLETE] = "x" * 40_000
    bound.tell(DEV)
    bound.settle()
    assert bound.live[DEV].annotations[BIND_COMPLETE] == "true"


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
def test_claim_when_it_is_refused_while_it_is_bound_then_it_keeps_its_target_until_it_is_deleted(
    bound: Targets, policy: str, stays: bool
) -> None:
    bound.live[DEV].spec["targetName"] = ["t"]
    bound.tell(DEV)
    assert "spec.targetName" in bound.error("dev")
    assert (bound.phase("dev"), bound.phase("t", TARGET)) == ("Bound", "Bound")
    bound.set_class(policy)
    bound.delete(DEV)
    assert DEV in bound.live, "it stays until its target is released"
    bound.settle()
    assert (DEV in bound.live, T in bound.live) == (False, stays)


def test_claim_when_its_spec_is_not_valid_then_it_says_so_and_others_are_bound(ours: Targets) -> None:
    ours.target()
    ours.claim("bad")
    ours.live[CLAIM, "bad"].spec["targetName"] = ["t"]
    ours.tell((CLAIM, "bad"))
    ours.settle()
    assert "spec.targetName" in ours.error("bad")


def test_finalizer_when_somebody_else_has_one_then_it_stays(ours: Targets) -> None:
    ours.claim(finalizers=["theirs/finalizer"])
    ours.settle()
    assert ours.live[DEV].finalizers == ["theirs/finalizer", FINALIZER]
    ours.delete(DEV)
    ours.settle()
    assert ours.live[DEV].finalizers == ["theirs/finalizer"]


def test_namespace_when_something_else_happens_in_it_then_claims_are_not_looked_at_again(
    bound: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound.world.take(changed(bound.second + 1))
    monkeypatch.setattr(targets, "bind", None)
    bound.world.take(changed(bound.second + 2, "api", uid="uid-api"))
    assert bound.world.parked == {}
    bound.claim("another")
    assert bound.world.parked, "asked for a claim that is new, it fails"


def test_rows_when_claims_and_targets_are_as_wanted_then_their_number_is_bounded_by_them(bound: Targets) -> None:
    assert len(bound.rows()) <= len(bound.live)
    assert all(json.loads(row.manifest) for row in bound.rows())
