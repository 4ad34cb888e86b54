"""Targets that the devsandbox provisioner makes, planned: a SpaceRequest, its target, and the end of both."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from services.common.json_values import digest
from services.kinds.deployment_target.rows import CLAIM_UID
from services.kinds.deployment_target_claim import provisioning
from services.kinds.deployment_target_claim.catalogue import MINUTES, NOT_MADE
from services.kinds.deployment_target_claim.provisioning import STUCK_AFTER
from services.kinds.deployment_target_claim.rows import FINALIZER
from services.kinds.deployment_target_class.model import DEVSANDBOX
from services.kinds.registry import REGISTRY
from services.kinds.space_request.model import CLAIM_LABEL, TARGET_LABEL
from services.planner.domain.events import Due, Event
from services.planner.domain.steps.child_objects import UNSEEN_AFTER
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at
from tests.unit.planner.targets import CLAIM, SPACE, TARGET, Live, Targets
from tests.unit.planner.world import NOW

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


def test_space_when_it_gives_what_no_target_can_have_then_the_claim_says_so_until_it_does(ours: Targets) -> None:
    """Another controller writes it, and its definition is another's."""
    ours.answer("x" * 64)
    ours.settle()
    assert "has no namespaceAccess.name in its status, or one of more than 63 characters" in ours.error("dev")
    assert MADE not in ours.live
    ours.answer("spaces-1")
    ours.settle()
    assert (ours.error("dev"), ours.bound()) == ("", {"dev": "dev-dt"})


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
    ours.claim(finalizers=[FINALIZER])
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


def test_space_when_it_is_deleted_by_hand_and_does_not_go_then_the_claim_says_so_until_there_is_another(
    ours: Targets,
) -> None:
    space = space_of(ours)
    ours.live[space].finalizers = list(HELD)
    ours.delete(space)
    ours.settle()
    assert ours.error("dev") == ""
    ours.pass_time(round(STUCK_AFTER.total_seconds()))
    said = f"SpaceRequest '{space[1]}' of this claim is being deleted, and is still there after 2 minutes: "
    assert (ours.error("dev").startswith(said), ours.phase("dev")) == (True, "Pending")
    ours.live[space].finalizers = []
    ours.delete(space)
    ours.settle()
    assert (len(ours.spaces()), ours.error("dev")) == (1, "")


def test_target_when_the_api_server_does_not_take_it_then_the_claim_says_so_until_it_does(ours: Targets) -> None:
    ours.answer("spaces-1")
    ours.pass_time(299)
    assert (ours.error("dev"), ours.phase("dev")) == ("", "Pending")
    ours.pass_time(1)
    said = "DeploymentTarget 'dev-dt' was not made within 5 minutes; this cluster may refuse it"
    assert ours.error("dev") == said
    ours.pass_time(3600)
    assert ours.error("dev") == said, "though it was asked for again"
    ours.settle()
    assert (ours.error("dev"), ours.phase("dev")) == ("", "Bound")


def test_target_when_there_is_no_room_for_it_then_its_claim_says_so_until_there_is(ours: Targets) -> None:
    ours.world.policy = replace(ours.world.policy, limits=REGISTRY.limits({TARGET: 1}))
    ours.target("first", class_="another")
    ours.settle()
    ours.answer("spaces-1")
    ours.settle()
    assert ours.error("dev").startswith("DeploymentTarget 'dev-dt' exists, but is not in force: quota exceeded: ")
    ours.delete((TARGET, "first"))
    ours.settle()
    assert (ours.error("dev"), ours.phase("dev")) == ("", "Bound")


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


def test_claim_when_it_is_deleted_before_its_finalizer_was_seen_then_no_space_was_asked_for() -> None:
    ours = Targets(classes={"space": "Delete"}, provisioner=DEVSANDBOX)
    for _ in range(3):
        ours.claim()
        orders = ours.rows()
        ours.delete(DEV)
        for order in orders:
            ours.write(order)
    ours.settle()
    assert ours.live == {}


def test_orphans_when_they_and_targets_are_many_then_each_is_not_compared_with_all_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, ours = 10, Targets(classes={"space": "Retain"}, provisioner=DEVSANDBOX)
    for number in range(count):
        ours.claim(f"dev-{number}", finalizers=[FINALIZER])
        ours.target(f"target-{number}", for_=f"other-{number}", annotations={CLAIM_UID: f"uid-{number}"})
    ours.settle()
    for number in range(count):
        ours.live[CLAIM, f"dev-{number}"].finalizers = []
        ours.delete((CLAIM, f"dev-{number}"))
    assert [row.desired for row in ours.rows() if row.kind == SPACE] == ["absent"] * count
    made: list[str] = []
    monkeypatch.setattr(provisioning, "digest", lambda uid: made.append(uid) or digest(uid))
    ours.claim("last")
    assert 0 < len(made) < 5 * count


@pytest.mark.parametrize("policy", ["Delete", "Retain", ""])
@pytest.mark.parametrize("is_made_again", [False, True], ids=["gone", "made again"])
def test_space_when_it_is_made_after_its_claim_has_gone_then_it_goes(policy: str, is_made_again: bool) -> None:
    """A watcher carries out late what was ordered for the claim, or its user has taken the finalizer off."""
    ours = Targets(classes={"space": "Delete"}, provisioner=DEVSANDBOX)
    ours.claim(finalizers=[FINALIZER])
    (late,) = [row for row in ours.rows() if row.kind == SPACE]
    ours.set_class(policy)
    ours.live[DEV].finalizers = []
    ours.delete(DEV)
    ours.write(late)
    if is_made_again:
        ours.claim()
    ours.tell((SPACE, late.name))
    ours.settle()
    assert (SPACE, late.name) not in ours.live
    assert len(ours.spaces()) == (is_made_again and bool(policy))


def test_space_when_somebody_takes_off_the_finalizers_of_claim_and_target_then_it_goes_once_its_class_is_known(
    made: Targets,
) -> None:
    space = space_of(made)
    for key in (DEV, MADE):
        made.live[key].finalizers = []
        made.live.pop(key)
    made.take(made.gone(DEV, Live("uid-1", {})), made.gone(MADE, Live("uid-3", {})))
    made.claim("other")
    made.settle()
    assert space not in made.live


def test_space_when_its_claim_has_gone_and_its_target_is_refused_then_it_stays(made: Targets) -> None:
    made.live[MADE].spec["kubernetesCredentials"] = None
    made.tell(MADE)
    made.live[DEV].finalizers = []
    made.delete(DEV)
    made.claim("other")
    made.settle()
    assert {key for key in made.live if key[0] != SPACE} == {MADE, (CLAIM, "other")}
    assert len(made.spaces()) == 2


@pytest.mark.parametrize("has_gone", [False, True])
def test_space_when_its_claim_goes_before_its_target_of_another_name_is_told_of_then_both_stay(
    made: Targets, *, has_gone: bool
) -> None:
    """The class says Retain, a former claim's target has or had the first name, and the label is written late."""
    made.set_class("Retain")
    made.delete(DEV)
    made.settle()
    made.claim()
    made.settle()
    former, own = sorted(
        (key for key in made.live if key[0] == SPACE), key=lambda key: TARGET_LABEL not in made.live[key].labels
    )
    kept = made.live.pop(former)
    made.answer("spaces-2")
    made.live[former] = kept
    (order,) = [row for row in made.rows() if row.kind == TARGET and not row.uid]
    made.write(order)
    for gone in [MADE, DEV] if has_gone else [DEV]:
        made.live[gone].finalizers = []
        made.delete(gone)
    (removal,) = [row for row in made.rows() if row.key == own]
    assert (removal.desired, made.write(removal)) == ("absent", None), "the API server has the target"
    made.tell(order.key)
    made.settle()
    assert made.live[own].labels[TARGET_LABEL] == order.name
    made.delete(order.key)
    made.settle()
    assert (order.key in made.live, own in made.live, made.live[own].deleting) == (False, True, False)


def test_spaces_when_there_are_as_many_as_may_be_then_the_next_claim_says_so_until_one_goes(ours: Targets) -> None:
    """Those count that their class keeps, too."""
    ours.world.policy = replace(ours.world.policy, limits=REGISTRY.limits({SPACE: 2}))
    ours.set_class("Retain")
    ours.answer("spaces-1")
    ours.settle()
    ours.delete(DEV)
    ours.claim("second")
    ours.claim("third")
    ours.settle()
    assert (len(ours.spaces()), ours.error("second")) == (2, "")
    assert ours.error("third").startswith("quota exceeded: this namespace may have 2 SpaceRequests")
    ours.end(next(key for key, live in ours.live.items() if TARGET_LABEL in live.labels))
    ours.settle()
    assert (len(ours.spaces()), ours.error("third")) == (2, "")


def test_claim_when_it_is_refused_then_its_space_stays_until_it_is_deleted(ours: Targets) -> None:
    ours.live[DEV].spec["targetName"] = ["t"]
    ours.tell(DEV)
    ours.settle()
    assert len(ours.spaces()) == 1
    ours.delete(DEV)
    assert DEV in ours.live
    ours.settle()
    assert ours.live == {}


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_space_when_it_says_an_impossible_time_then_its_target_has_failed_within_two_minutes_all_the_same(
    made: Targets, time: str
) -> None:
    space = space_of(made)
    made.live[space].finalizers = list(HELD)
    made.tell(space)
    made.delete(DEV)
    made.settle()
    made.answer("spaces-1", status="False", reason="UnableToTerminate", lastTransitionTime=time)
    made.settle()
    made.pass_time(round(STUCK_AFTER.total_seconds()))
    assert made.phase("dev-dt", TARGET) == "Failed"


def test_orphan_when_its_deletion_is_due_again_beside_an_event_of_before_then_it_is_asked_for_again(
    ours: Targets,
) -> None:
    """Nobody else would look at it."""
    space = space_of(ours)
    ours.live[DEV].finalizers = []
    ours.delete(DEV)
    (order,) = [row for row in ours.rows() if row.key == space]
    assert (order.desired, json.loads(order.manifest)["unless"][CLAIM]) == ("absent", "dev")
    ours.claim("other", told=False)
    event = ours.event_of((CLAIM, "other"))
    ours.world.later = order.seen_at + UNSEEN_AFTER - NOW
    (row,) = [each for each in ours.world.resources.values() if each.kind == SPACE]
    assert row.due_at == order.seen_at + UNSEEN_AFTER
    ours.world.take(event, Event(Due(WORKSPACE, NAMESPACE, row.id), 0, ""))
    (again,) = [row for row in ours.rows() if row.key == space]
    assert again.revision == order.revision + 1


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
