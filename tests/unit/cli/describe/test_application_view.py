"""What the state of an application is, from the resources of its namespace."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.describe.application_view import (
    NO_CLAIM,
    NO_ENVIRONMENT,
    Listed,
    application_view,
    in_order_of_promotion,
)
from services.cli.describe.views import ApplicationView, EnvironmentView
from services.kinds.environment.catalogue import PARENT_NOT_FOUND
from tests.unit.cli.describe.resources import (
    SHOP,
    binding,
    claim,
    commit,
    condition,
    environment,
    error,
    resource,
    run,
    step,
)


def viewed(**listed: Any) -> ApplicationView:
    return application_view("shop", "team-a", Listed(**listed))


def only_environment(**listed: Any) -> EnvironmentView:
    (shown,) = viewed(**listed).environments
    return shown


@pytest.mark.parametrize(
    ("parents", "wanted"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"c": "b", "b": "a", "a": ""}, ["a", "b", "c"], id="chain"),
        pytest.param({"z": "a", "a": "", "b": "", "y": "b", "x": "z"}, ["a", "b", "y", "z", "x"], id="level-by-level"),
        pytest.param({"b": "a", "a": "gone"}, ["a", "b"], id="unknown-parent-is-a-root"),
        pytest.param({"b": "a", "a": "b", "below": "b", "root": ""}, ["root", "a", "b", "below"], id="cycle-last"),
        pytest.param({"self": "self"}, ["self"], id="own-parent"),
    ],
)
def test_order_when_parents_are_so_then_promotions_reach_environments_in_it(
    parents: dict[str, str], wanted: list[str]
) -> None:
    assert in_order_of_promotion(parents) == wanted


def test_order_when_there_are_ten_thousand_environments_in_a_row_then_it_is_found() -> None:
    names = [f"e{n:05}" for n in range(10_000)]
    parents = dict(zip(names, ["", *names], strict=False))
    assert in_order_of_promotion(dict(reversed(parents.items()))) == names


def test_shop_when_a_promotion_is_under_way_then_each_environment_has_its_snapshot_and_components() -> None:
    view = application_view("shop", "team-a", SHOP)
    assert [each.name for each in view.environments] == ["development", "load-test", "staging", "production"]
    (bound,) = view.environments[-1].bindings
    assert (bound.snapshot, bound.deployed) == ("shop-2", "1 of 2 components deployed")
    cart, catalogue = bound.components
    assert (cart.sync, cart.health) == ("OutOfSync", "Healthy")
    assert (cart.commit, cart.wanted_commit) == (commit("shop-1", "cart"), commit("shop-2", "cart"))
    assert catalogue.commit == catalogue.wanted_commit


def test_environment_when_it_has_no_binding_then_it_is_shown_with_none() -> None:
    assert only_environment(environments=[environment("production")]).bindings == ()


def test_environment_when_its_status_tells_of_an_error_then_that_is_its_problem() -> None:
    shown = only_environment(environments=[environment("staging", problem="it has two targets")])
    assert shown.problems == ("it has two targets",)


def test_environment_when_its_error_is_resolved_then_it_has_no_problem() -> None:
    resolved = environment("staging") | {"status": {"conditions": [condition("ErrorOccurred", "", "False")]}}
    assert only_environment(environments=[resolved]).problems == ()


@pytest.mark.parametrize("told", ["", PARENT_NOT_FOUND.text(parent="gone")], ids=["not-yet", "by-its-status-too"])
def test_environment_when_its_parent_does_not_exist_then_that_is_said_once(told: str) -> None:
    shown = only_environment(environments=[environment("staging", "gone", problem=told)])
    assert (shown.parent, shown.problems) == ("gone", (PARENT_NOT_FOUND.text(parent="gone"),))


def test_environments_when_their_parents_go_round_then_each_says_which_way_and_only_once() -> None:
    told = "parentEnvironment leads back to this environment: a -> b -> a; remove parentEnvironment from one of them"
    first, second = viewed(environments=[environment("a", "b", problem=told), environment("b", "a")]).environments
    assert first.problems == (told,)
    assert second.problems == (told.replace("a -> b -> a", "b -> a -> b"),)


def test_environment_when_it_is_on_a_claim_then_phase_and_target_are_those_of_the_claim() -> None:
    shown = only_environment(
        environments=[environment("staging", claim="it")],
        claims=[claim("it", "Bound", "it-dt"), claim("other", "Lost")],
    )
    assert shown.claim is not None
    assert (shown.claim.name, shown.claim.phase, shown.claim.target) == ("it", "Bound", "it-dt")


def test_environment_when_its_claim_does_not_exist_then_that_is_told() -> None:
    shown = only_environment(environments=[environment("staging", claim="gone")])
    assert shown.claim is not None
    assert shown.claim.problem == NO_CLAIM.format(claim="gone")


def test_bindings_when_they_name_no_environment_that_there_is_then_it_is_shown_as_missing_after_the_others() -> None:
    existing, missing = viewed(environments=[environment("z")], bindings=[binding("gone", "shop-1")]).environments
    assert (existing.name, missing.name) == ("z", "gone")
    assert missing.problems == (NO_ENVIRONMENT.format(name="gone"),)
    assert [each.snapshot for each in missing.bindings] == ["shop-1"]


def test_bindings_when_two_are_of_one_environment_then_the_oldest_is_first_and_the_other_says_what_is_wrong() -> None:
    younger = binding("staging", "shop-1")
    younger["metadata"] = {"name": "a", "creationTimestamp": "2026-11-25T13:00:00Z"}
    younger["status"]["bindingConditions"] = error("'shop-staging' is older")
    shown = only_environment(environments=[environment("staging")], bindings=[younger, binding("staging", "shop-2")])
    assert [(each.name, each.problem) for each in shown.bindings] == [
        ("shop-staging", ""),
        ("a", "'shop-staging' is older"),
    ]


def test_components_when_they_have_no_deployment_yet_or_are_no_longer_wanted_then_both_are_shown() -> None:
    changed = binding("staging", "shop-1", components=("cart", "old"))
    changed["spec"]["components"] = [{"name": "new"}, {"name": "cart"}]
    (bound,) = only_environment(environments=[environment("staging")], bindings=[changed]).bindings
    assert [(each.name, bool(each.deployment)) for each in bound.components] == [
        ("new", False),
        ("cart", True),
        ("old", True),
    ]


def test_resources_when_they_are_of_another_application_then_they_are_passed_over() -> None:
    others = [binding("staging", "shop-1"), run("r", "shop-1", "staging")]
    for each in others:
        each["spec"]["application"] = "other"
    view = viewed(environments=[environment("staging")], bindings=others[:1], runs=others[1:])
    assert (view.environments[0].bindings, view.promotions) == ((), ())


def test_runs_when_one_is_active_then_the_others_wait_behind_it_and_those_that_are_over_are_left_out() -> None:
    view = viewed(
        runs=[
            run("done", "s", "staging", {"state": "Complete", "completionResult": "Failure"}),
            run("new", "s", "staging", minute=9),
            run("oldest", "s", "staging", {"state": "Waiting"}, minute=1),
            run("active", "s", "staging", {"state": "Active", "environmentStatus": [step("staging", "so")]}, minute=5),
        ]
    )
    assert [(each.name, each.state, each.behind) for each in view.promotions] == [
        ("oldest", "Waiting", "active"),
        ("active", "Active", ""),
        ("new", "", "active"),
    ]


def test_run_when_it_was_refused_then_nobody_waits_behind_it() -> None:
    refused = run("refused", "s", "staging", {"conditions": error("quota exceeded")}, minute=1)
    view = viewed(runs=[refused, run("next", "s", "staging", {"state": "Waiting"}, minute=2)])
    assert [(each.name, each.behind, each.problem) for each in view.promotions] == [
        ("refused", "", "quota exceeded"),
        ("next", "", ""),
    ]


def test_resources_when_they_fit_no_model_then_each_says_which_field_is_wrong() -> None:
    view = viewed(
        environments=[
            resource("staging", {"displayName": 1, "deploymentStrategy": "Sometimes"}, {"conditions": "none"})
        ],
        bindings=[resource("b", {"application": "shop", "environment": "staging", "components": 7})],
        runs=[resource("r", {"application": "shop"}, {"state": "Elsewhere"})],
        claims=[resource("c", None)],
    )
    (shown,) = view.environments
    assert [problem.partition(":")[0] for problem in shown.problems] == ["spec.displayName", "status.conditions"]
    assert shown.bindings[0].problem == "spec.snapshot is missing; set it"
    assert view.promotions[0].problem == "spec.snapshot is missing; set it"
