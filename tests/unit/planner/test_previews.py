"""Previews, planned: what goes of an environment whose time is over, in which order, and what never does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from services.common.messages import Removed
from services.common.times import rfc3339
from services.kinds.application.kind import APPLICATION
from services.kinds.environment.catalogue import EXPIRES_AT
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.appstudio.bound_pairs import BY_ENVIRONMENT
from services.planner.domain.appstudio.previews import DEPLOYMENTS
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.domain.steps.quotas import KEPT_BEYOND_QUOTA
from tests.unit.kinds.snapshot_environment_binding.test_binding_planned import binding, component, condition
from tests.unit.planner.given import at, changed, observed, resource, resource_gone, secret, spec
from tests.unit.planner.targets import CLAIM, CLASS, CREDENTIALS, TARGET
from tests.unit.planner.tenant import check, conditions
from tests.unit.planner.workspace import DEPLOYMENT, MANAGED_ENVIRONMENT, Workspace

BEGIN, END = 1_000_000, 1_000_500
"""When the environment is created, and when it is over: seconds of a test."""
KEY = (DEPLOYMENT, "web-shop-qa-cart")
PLACE = (MANAGED_ENVIRONMENT, "managed-environment-qa")


def environment(second: int, name: str = "qa", until: str = "", variable: str = "", **facts: Any) -> Event:
    configuration: dict[str, Any] = {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}
    configuration |= {"env": [{"name": "a", "value": variable}]} if variable else {}
    content = {"displayName": name, "deploymentStrategy": "Manual", "configuration": configuration}
    metadata = {"annotations": {EXPIRES_AT: until} if until else {}}
    event = resource(second, ENVIRONMENT.kind, name, content, generation=second, metadata=metadata, **facts)
    message: Any = event.message
    created_at = int(at(BEGIN).timestamp()) * 1000
    return replace(event, message=replace(message, event=replace(message.event, created_at=created_at)))


def claim(second: int, **facts: Any) -> Event:
    class_ = '{"version": "1", "spec": {"provisioner": "example.com/ours", "reclaimPolicy": "Delete"}}'
    content = {"deploymentTargetClassName": CLASS}
    return resource(second, CLAIM, "dev", content, named_class=class_, metadata={}, **facts)


@pytest.fixture
def ours() -> Workspace:
    """A preview with a binding of one component, which is deployed."""
    workspace = Workspace(second=BEGIN)
    target = {"deploymentTargetClassName": CLASS, "kubernetesCredentials": CREDENTIALS, "claimRef": "dev"}
    workspace.take(secret(BEGIN, "login"), claim(BEGIN + 1), resource(BEGIN + 2, TARGET, "t", target, metadata={}))
    workspace.take(environment(BEGIN + 3, until=rfc3339(at(END))), binding(BEGIN + 4, environment="qa"))
    workspace.second = BEGIN + 5
    workspace.settle()
    check(workspace.world, workspace.second)
    assert workspace.world.application(workspace.live[KEY].uid) is not None
    return workspace


def leaving(workspace: Workspace) -> set[str]:
    """Kinds of what users have made that is to be deleted."""
    rows = [row for row in workspace.rows().values() if row.is_unowned and row.desired == "absent"]
    assert all(row.uid for row in rows), "each is bound to a uid"
    return {row.kind for row in rows}


def shown(workspace: Workspace, name: str = "qa") -> tuple[str, str]:
    _, reason, message = conditions(workspace.world, ENVIRONMENT.kind, name).get("Reconciled", ("", "", ""))
    return reason, message


def expire(workspace: Workspace) -> None:
    workspace.pass_time(END - workspace.second)


def delete_binding(workspace: Workspace) -> None:
    """As the API server does, with what it controls."""
    workspace.take(resource_gone(workspace.second, BINDING.kind, "web"))
    workspace.settle()


def undeploy(workspace: Workspace, uid: str) -> None:
    row = workspace.world.application(uid)
    assert row is not None
    gone = Removed(forced=False)
    workspace.take(observed(workspace.second, gone, instance=row.engine_instance_id, name=row.name))


def empty(workspace: Workspace) -> None:
    """The environment is over, and what it deployed is gone."""
    uid = workspace.live[KEY].uid
    expire(workspace)
    workspace.settle()
    delete_binding(workspace)
    undeploy(workspace, uid)
    workspace.settle()


def fill_up(workspace: Workspace) -> None:
    """From now on the tenant has no room for anything that grows."""
    workspace.world.policy = replace(Policy(), limits=Policy().kinds.limits({}, bytes_=1))


MORE = [pytest.param(10, id="and is at hand"), pytest.param(KEPT_BEYOND_QUOTA, id="and is not at hand")]
"""Characters by which a spec grows. If it is too long nothing of it is kept beyond the quota."""


def test_preview_when_its_time_is_not_over_then_nothing_goes(ours: Workspace) -> None:
    ours.pass_time(END - ours.second - 1)
    assert (leaving(ours), shown(ours)) == (set(), ("", ""))


def test_preview_when_its_time_is_over_then_bindings_and_deployments_go_first_then_claim_and_environment(
    ours: Workspace,
) -> None:
    uid = ours.live[KEY].uid
    expire(ours)
    assert (leaving(ours), ours.rows()[KEY].desired) == ({BINDING.kind}, "absent")
    assert shown(ours)[0] == "Expired"
    assert shown(ours)[1].endswith("bindings and deployments left: 2")
    assert condition(ours.world)[1] == "EnvironmentExpired"
    ours.settle()
    delete_binding(ours)
    assert (leaving(ours), ours.rows()[PLACE].desired) == (set(), "present"), "its engine needs the credentials"
    assert shown(ours)[1].endswith("bindings and deployments left: 1")
    undeploy(ours, uid)
    assert (leaving(ours), ours.rows()[PLACE].desired) == ({CLAIM}, "absent")
    ours.take(claim(ours.second, deleting=True, finalizers=("example.com/theirs",)))
    assert leaving(ours) == {ENVIRONMENT.kind, TARGET}, "its class has the target deleted"
    ours.take(resource_gone(ours.second, ENVIRONMENT.kind, "qa"))
    ours.settle()
    assert (leaving(ours), ours.live) == ({TARGET}, {})


def test_preview_when_its_planner_begins_anew_in_between_then_it_goes_on(ours: Workspace) -> None:
    uid = ours.live[KEY].uid
    expire(ours)
    ours.world.memory.clear()
    ours.settle()
    delete_binding(ours)
    ours.world.memory.clear()
    undeploy(ours, uid)
    assert leaving(ours) == {CLAIM}


def test_claim_when_another_environment_names_it_then_it_stays_and_the_preview_goes(ours: Workspace) -> None:
    ours.take(environment(ours.second, "other"))
    empty(ours)
    assert leaving(ours) == {ENVIRONMENT.kind}


@pytest.mark.parametrize("more", MORE)
def test_claim_when_another_environment_that_names_it_has_outgrown_the_quota_then_it_stays(
    ours: Workspace, more: int
) -> None:
    ours.take(environment(ours.second, "other"))
    ours.settle()
    fill_up(ours)
    ours.take(environment(ours.second, "other", variable="v" * more))
    assert shown(ours, "other")[0] == "QuotaExceeded"
    empty(ours)
    assert leaving(ours) == ({ENVIRONMENT.kind} if more < KEPT_BEYOND_QUOTA else set())
    ours.take(resource_gone(ours.second, ENVIRONMENT.kind, "other"))
    assert leaving(ours) == {CLAIM}


def test_preview_when_nobody_knows_what_an_environment_names_that_was_never_in_force_then_it_goes(
    ours: Workspace,
) -> None:
    fill_up(ours)
    ours.take(environment(ours.second, "other", variable="v" * KEPT_BEYOND_QUOTA))
    assert shown(ours, "other")[0] == "QuotaExceeded"
    empty(ours)
    assert leaving(ours) == {CLAIM}


@pytest.mark.parametrize("more", MORE)
def test_preview_when_its_binding_has_outgrown_the_quota_then_all_goes_all_the_same(ours: Workspace, more: int) -> None:
    fill_up(ours)
    ours.take(binding(ours.second, environment="qa", components=("cart", "c" * more), told=[component("cart")]))
    assert condition(ours.world)[1] == "QuotaExceeded"
    uid = ours.live[KEY].uid
    expire(ours)
    assert leaving(ours) == {BINDING.kind}
    delete_binding(ours)
    undeploy(ours, uid)
    assert leaving(ours) == {CLAIM}


def test_preview_when_it_has_outgrown_the_quota_itself_then_all_goes_all_the_same(ours: Workspace) -> None:
    fill_up(ours)
    ours.take(environment(ours.second, until=rfc3339(at(END)), variable="v"))
    assert shown(ours)[0] == "QuotaExceeded"
    empty(ours)
    assert (leaving(ours), PLACE in ours.live, shown(ours)[0]) == ({CLAIM}, False, "Expired")
    ours.take(resource_gone(ours.second, CLAIM, "dev"))
    assert ENVIRONMENT.kind in leaving(ours)


def test_claim_when_all_environments_that_name_it_are_over_then_it_goes(ours: Workspace) -> None:
    ours.take(environment(ours.second, "other", until=rfc3339(at(END))))
    empty(ours)
    assert leaving(ours) == {CLAIM}


def test_preview_when_its_claim_is_gone_already_then_it_goes(ours: Workspace) -> None:
    ours.take(resource_gone(ours.second, CLAIM, "dev"))
    empty(ours)
    assert leaving(ours) == {ENVIRONMENT.kind}


def test_preview_when_it_gets_more_time_then_what_is_left_of_it_stays(ours: Workspace) -> None:
    expire(ours)
    ours.take(environment(ours.second, until=rfc3339(at(END + 1000))))
    assert (leaving(ours), ours.rows()[KEY].desired) == (set(), "present")
    assert (shown(ours)[0], condition(ours.world)[1]) == ("ExpiredResolved", "Reconciled")
    ours.pass_time(1000)
    assert leaving(ours) == {BINDING.kind}


def test_preview_when_something_else_happens_to_it_then_its_time_is_not_forgotten(ours: Workspace) -> None:
    ours.edit(PLACE, ours.live[PLACE].spec | {"namespaces": []})
    ours.settle()
    ours.remove(KEY)
    ours.settle()
    expire(ours)
    assert leaving(ours) == {BINDING.kind}


def test_binding_when_it_is_created_after_the_end_then_it_goes_and_deploys_nothing(ours: Workspace) -> None:
    empty(ours)
    ours.take(binding(ours.second, "late", environment="qa"))
    assert leaving(ours) >= {BINDING.kind}
    assert [row for row in ours.rows().values() if row.kind == DEPLOYMENT and row.desired == "present"] == []


def test_deployment_when_a_user_has_made_it_then_nobody_waits_for_it_and_it_stays(ours: Workspace) -> None:
    content = spec(destination={"environment": PLACE[1], "namespace": CREDENTIALS["defaultNamespace"]})
    ours.take(changed(ours.second, "mine", uid="uid-mine", content=content))
    empty(ours)
    assert leaving(ours) == {CLAIM}
    assert ours.world.application("uid-mine") is not None


@pytest.mark.parametrize("until", ["soon", rfc3339(at(BEGIN - 1)), "2099-01-01T00:00:00Z"])
def test_preview_when_its_time_cannot_be_meant_then_it_says_so_and_stays(until: str, ours: Workspace) -> None:
    ours.take(environment(ours.second, until=until))
    expire(ours)
    assert (leaving(ours), shown(ours)[0]) == (set(), "InvalidExpiry")
    assert ours.rows()[KEY].desired == "present"


def test_promotion_when_its_environment_is_over_then_it_says_so_and_changes_no_binding(ours: Workspace) -> None:
    expire(ours)
    content = {"snapshot": "two", "application": "shop", "manualPromotion": {"targetEnvironment": "qa"}}
    ours.take(
        resource(ours.second, APPLICATION.kind, "shop", {}),
        resource(ours.second + 1, SNAPSHOT.kind, "two", {"application": "shop"}),
        resource(ours.second + 2, PROMOTION_RUN.kind, "run", content),
    )
    told = conditions(ours.world, PROMOTION_RUN.kind, "run")["ErrorOccurred"]
    assert told[2] == "Environment 'qa' is over; name another one"
    assert leaving(ours) == {BINDING.kind}


def test_binding_when_a_promotion_is_about_to_change_it_then_its_deletion_is_what_counts(ours: Workspace) -> None:
    content = {"snapshot": "two", "application": "shop", "manualPromotion": {"targetEnvironment": "qa"}}
    ours.take(
        resource(ours.second, APPLICATION.kind, "shop", {}),
        resource(ours.second + 1, SNAPSHOT.kind, "two", {"application": "shop"}),
        resource(ours.second + 2, PROMOTION_RUN.kind, "run", content),
    )
    before = ours.rows()[BINDING.kind, "web"]
    expire(ours)
    now = ours.rows()[BINDING.kind, "web"]
    assert (before.desired, before.owner_kind) == ("present", PROMOTION_RUN.kind)
    assert (now.desired, now.owner_kind, now.uid) == ("absent", BINDING.kind, before.uid)
    assert now.revision > before.revision


def test_previews_when_they_are_over_and_something_changes_then_only_that_is_counted_anew(
    ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.take(binding(ours.second, "another", environment="another"))
    ours.take(changed(ours.second + 1, "mine", uid="mine"))
    expire(ours)
    assert shown(ours)[1].endswith("bindings and deployments left: 2")
    counted: list[str] = []
    for index in (BY_ENVIRONMENT, DEPLOYMENTS):
        noted = partial(_noted, index._group_of, counted)
        monkeypatch.setattr(index, "_group_of", noted)
    ours.take(changed(ours.second, "mine", uid="mine", generation=2, content=spec(type="manual")))
    assert set(counted) == {"mine"}
    counted.clear()
    ours.take(binding(ours.second + 1, "another", environment="another"))
    assert set(counted) == {"another"}


def _noted(group_of: Callable[[Any], Any], counted: list[str], row: Any) -> Any:
    counted.append(row.name)
    return group_of(row)
