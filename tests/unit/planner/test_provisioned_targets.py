"""Targets that the devsandbox provisioner makes, planned: a SpaceRequest, its target, and the end of both."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.kinds.deployment_target_claim.catalogue import MINUTES, NOT_MADE
from services.kinds.deployment_target_claim.provisioning import STUCK_AFTER
from services.kinds.deployment_target_class.model import DEVSANDBOX
from services.kinds.space_request.model import CLAIM_LABEL, TARGET_LABEL
from services.planner.domain.steps.child_objects import UNSEEN_AFTER
from tests.unit.planner.given import at
from tests.unit.planner.targets import CLAIM, SPACE, TARGET, Targets

DEV, MADE = (CLAIM, "dev"), (TARGET, "dev-dt")
HELD = ["finalizer.toolchain.dev.openshift.com"]


@pytest.fixture
def ours() -> Targets:
    """A claim that waits for a target of the sandbox."""
    ours = Targets(classes={"space": "Delete"}, provisioner=DEVSANDBOX)
    ours.claim()
    ours.settle()
    return ours


@pytest.fixture
def made(ours: Targets) -> Targets:
    """It has got one."""
    ours.answer("spaces-1")
    ours.settle()
    return ours


def space_of(ours: Targets) -> tuple[str, str]:
    (key,) = [key for key in ours.live if key[0] == SPACE]
    return key


def test_claim_when_nothing_matches_then_one_space_is_asked_for_with_its_tier_and_label(ours: Targets) -> None:
    (space,) = ours.spaces()
    assert (space.spec, space.labels) == ({"tierName": "appstudio-env"}, {CLAIM_LABEL: "dev"})
    assert ours.phase("dev") == "Pending"


def test_space_when_it_is_ready_then_its_target_is_made_and_bound_and_its_label_names_it(made: Targets) -> None:
    target = made.live[MADE]
    credentials = target.spec["kubernetesCredentials"]
    assert (credentials["defaultNamespace"], credentials["clusterCredentialsSecret"]) == ("spaces-1", "spaces-1-login")
    assert target.spec["claimRef"] == "dev"
    assert (made.phase("dev"), made.phase("dev-dt", TARGET), made.bound()) == ("Bound", "Bound", {"dev": "dev-dt"})
    assert made.spaces()[0].labels == {CLAIM_LABEL: "dev", TARGET_LABEL: "dev-dt"}


@pytest.mark.parametrize("spaces", [(), ("one", "two")])
def test_space_when_it_gives_not_one_namespace_then_the_claim_says_so(ours: Targets, spaces: tuple[str, ...]) -> None:
    ours.answer(*spaces)
    ours.settle()
    assert f"gives access to {len(spaces)} namespaces instead of one" in ours.error("dev")
    assert MADE not in ours.live


def test_space_when_it_never_gets_ready_then_the_claim_waits_and_no_second_one_is_made(ours: Targets) -> None:
    ours.answer("spaces-1", status="False", reason="Provisioning")
    ours.settle()
    ours.pass_time(3600)
    ours.settle()
    assert (len(ours.spaces()), ours.phase("dev"), ours.bound()) == (1, "Pending", {})


def test_space_when_it_is_not_ready_after_five_minutes_then_the_claim_says_why_until_it_is(ours: Targets) -> None:
    ours.answer(status="False", reason="Provisioning", message="no room")
    ours.settle()
    assert ours.error("dev") == ""
    ours.pass_time(300)
    (_, name) = space_of(ours)
    assert ours.error("dev") == f"SpaceRequest '{name}' is not ready after 5 minutes: Provisioning: no room"
    ours.answer("spaces-1")
    ours.settle()
    assert (ours.error("dev"), ours.phase("dev")) == ("", "Bound")


def test_space_when_it_is_not_made_within_five_minutes_then_the_claim_says_so_until_it_is() -> None:
    ours = Targets(classes={"space": "Delete"}, provisioner=DEVSANDBOX)
    ours.claim()
    (name,) = [row.name for row in ours.rows() if row.kind == SPACE]
    ours.pass_time(299)
    assert ours.error("dev") == ""
    ours.pass_time(1)
    said = f"SpaceRequest '{name}' is not ready after 5 minutes: {NOT_MADE}"
    assert (ours.error("dev"), ours.phase("dev")) == (said, "Pending")
    ours.tell(DEV)
    ours.pass_time(3600)
    assert ours.error("dev") == said, "though it was asked for again"
    ours.settle()
    assert (len(ours.spaces()), ours.error("dev")) == (1, "")


def test_space_when_it_has_gone_and_is_not_made_again_then_the_claim_says_so_after_five_minutes(ours: Targets) -> None:
    ours.pass_time(3600)
    ours.end(space_of(ours))
    assert ours.error("dev") == "", "it was asked for just now"
    ours.pass_time(300)
    assert ours.error("dev").endswith(NOT_MADE)


def test_space_when_it_is_asked_for_again_then_that_is_when_the_claim_says_so() -> None:
    assert timedelta(minutes=MINUTES) == UNSEEN_AFTER


def test_claim_when_it_is_made_again_and_the_former_ones_target_stays_then_it_gets_one_of_another_name(
    made: Targets,
) -> None:
    made.set_class("Retain")
    made.delete(DEV)
    made.settle()
    made.claim()
    made.settle()
    (former,) = [key for key, live in made.live.items() if key[0] == SPACE and TARGET_LABEL in live.labels]
    kept = made.live.pop(former)
    made.answer("spaces-2")
    made.live[former] = kept
    made.settle()
    target = made.bound()["dev"]
    assert (target.startswith("dev-dt-"), made.phase("dev"), made.phase("dev-dt", TARGET)) == (
        True,
        "Bound",
        "Released",
    )
    assert made.live[TARGET, target].spec["kubernetesCredentials"]["defaultNamespace"] == "spaces-2"
    assert kept.labels == {CLAIM_LABEL: "dev", TARGET_LABEL: "dev-dt"}


def test_space_when_its_label_is_taken_off_then_it_is_put_back(ours: Targets) -> None:
    (space,) = ours.spaces()
    space.labels = {}
    ours.pass_time(10)
    ours.tell(space_of(ours))
    ours.settle()
    assert space.labels == {CLAIM_LABEL: "dev"}


def test_claim_when_it_is_deleted_then_target_and_space_go_where_the_class_says_so(made: Targets) -> None:
    made.delete(DEV)
    made.settle()
    assert made.live == {}


def test_claim_when_its_class_retains_then_target_and_space_stay(made: Targets) -> None:
    made.set_class("Retain")
    made.delete(DEV)
    made.settle()
    assert (made.phase("dev-dt", TARGET), len(made.spaces())) == ("Released", 1)


def test_claim_when_it_is_deleted_before_it_has_a_target_then_it_stays_until_its_space_is_going(ours: Targets) -> None:
    ours.delete(DEV)
    assert DEV in ours.live
    ours.settle()
    assert ours.live == {}


@pytest.mark.parametrize(("policy", "left"), [("Delete", set()), ("Retain", {MADE, "space"})])
def test_target_when_it_is_made_after_its_claim_has_gone_then_it_goes_where_the_class_says_so(
    ours: Targets, policy: str, left: set[object]
) -> None:
    """A watcher carries out late what was ordered for the claim."""
    ours.set_class(policy)
    ours.answer("spaces-1")
    (order,) = [row for row in ours.rows() if row.key == MADE]
    ours.delete(DEV)
    ours.settle()
    ours.write(order)
    ours.tell(MADE)
    ours.settle()
    assert {"space" if key[0] == SPACE else key for key in ours.live} == left


def test_target_when_another_claim_has_the_name_of_the_one_that_it_was_made_for_then_that_gets_its_own(
    ours: Targets,
) -> None:
    ours.answer("spaces-1")
    (late,) = [row for row in ours.rows() if row.key == MADE]
    ours.delete(DEV)
    ours.settle()
    ours.write(late)
    ours.claim()
    ours.tell(MADE)
    ours.settle()
    ours.answer("spaces-2")
    ours.settle()
    target = ours.bound()["dev"]
    assert ours.live[TARGET, target].spec["kubernetesCredentials"]["defaultNamespace"] == "spaces-2"
    assert [key for key in ours.live if key[0] == TARGET] == [(TARGET, target)]


def test_space_when_it_does_not_terminate_then_its_target_has_failed_after_two_minutes_and_goes_in_the_end(
    made: Targets,
) -> None:
    space = space_of(made)
    made.live[space].finalizers = list(HELD)
    made.tell(space)
    made.delete(DEV)
    made.settle()
    since = at(made.second).isoformat()
    made.answer("spaces-1", status="False", reason="UnableToTerminate", lastTransitionTime=since)
    made.settle()
    assert made.phase("dev-dt", TARGET) == "Released"
    made.pass_time(round(STUCK_AFTER.total_seconds()))
    assert made.phase("dev-dt", TARGET) == "Failed"
    assert f"'{space[1]}'" in made.error("dev-dt", TARGET)
    made.live[space].finalizers = []
    made.delete(space)
    made.settle()
    assert made.live == {}


@pytest.mark.parametrize("first", [CLAIM, TARGET, SPACE])
def test_database_when_it_is_lost_then_no_space_goes_whatever_is_told_first(made: Targets, first: str) -> None:
    made.claim("waiting")
    made.settle()
    again = Targets(
        classes=made.classes, live=made.live, second=made.second, made=made.made, provisioner=made.provisioner
    )
    for key in sorted(again.live, key=lambda key: (key[0] != first, key)):
        again.tell(key)
        again.settle()
    assert (again.bound(), len(again.spaces())) == ({"dev": "dev-dt"}, 2)
    assert not any(live.deleting for live in again.live.values())


def test_class_when_another_service_is_its_provisioner_then_no_space_is_asked_for() -> None:
    others = Targets(classes={"space": "Delete"}, provisioner="example.com/vcluster")
    others.claim()
    others.settle()
    assert others.spaces() == []
