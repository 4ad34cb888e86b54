"""The course of a PromotionRun: turns, steps, levels, deadlines, and what its status says of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.kinds.promotion_run.catalogue import (
    BEYOND_QUOTA,
    COMPONENTS_OF_SNAPSHOT,
    INVALID_SPEC,
    MISSING_COMPONENTS,
)
from services.kinds.promotion_run.model import PromotionRunSpec
from services.kinds.promotion_run.progress import (
    Before,
    BindingOrder,
    BoundSnapshot,
    DeployedComponent,
    SnapshotOrder,
    Surroundings,
    generated_name,
)
from services.kinds.promotion_run.rules import Advance, Contender, Promotion, Step, advance, runs_ahead
from services.kinds.promotion_run.status import MAX_DISPLAY_STATUS, promotion_status
from services.kinds.snapshot.images import image_entries
from services.kinds.snapshot.model import SnapshotComponent, SnapshotSpec
from services.kinds.snapshot_environment_binding.model import BindingSpec
from tests.unit.kinds.given import at, conditions, id_of

MINUTE = 60
WAITS_FOR_BINDING = "Waiting for the environment binding to create all of the expected GitOpsDeployments."
DONE = "All GitOpsDeployments are Synced/Healthy"
FAILED = "Promotion Failed. Could not be completed in 10 Minutes."


def run(**spec: Any) -> PromotionRunSpec:
    return PromotionRunSpec.model_validate({"application": "shop", "snapshot": "two"} | spec)


MANUAL = run(manualPromotion={"targetEnvironment": "staging"})
AUTOMATED = run(automatedPromotion={"initialEnvironment": "development"})


def deployed(name: str = "cart", **changes: Any) -> DeployedComponent:
    given = {"deployment": f"web-{name}", "sync": "Synced", "health": "Healthy", "revision": "c2", "commit": "c2"}
    is_deployed = (given | changes)["revision"] == (given | changes)["commit"]
    return DeployedComponent(name, **({"is_deployed": is_deployed} | given | changes))


def bound(environment: str, *components: DeployedComponent, snapshot: str = "two", **changes: Any) -> BoundSnapshot:
    return BoundSnapshot(f"shop-{environment}", snapshot, components or (deployed(),), **changes)


def around(*bindings: BoundSnapshot, **changes: Any) -> Surroundings:
    """Bindings are named for their environments."""
    given: dict[str, Any] = {
        "applications": {"shop": ("basket", "cart")},
        "snapshots": {"one": "shop", "two": "shop", "other": "blog"},
        "parents": {"development": "", "staging": "development", "production": "staging"},
        "automated": {"development", "staging"},
        "bindings": {("shop", each.name.removeprefix("shop-")): each for each in bindings},
        "bound_components": {"shop": {component.name for each in bindings for component in each.components}},
        "binding_names": {each.name for each in bindings},
    }
    return Surroundings(**(given | changes))


def steps(advanced: Advance) -> dict[str, tuple[str, str]]:
    return {step.environment: (step.status, step.display) for step in advanced.promotion.steps}


def after(spec: PromotionRunSpec, *looks: tuple[Surroundings, float]) -> Advance:
    """What a run has come to after it was looked at so often."""
    promotion = Promotion()
    for surroundings, second in looks:
        advanced = advance(spec, promotion, surroundings, at(second))
        promotion = advanced.promotion
    return advanced


GENERATED = BindingOrder(
    "shop-staging-generated-binding",
    BindingSpec.model_validate(
        {
            "application": "shop",
            "environment": "staging",
            "snapshot": "two",
            "components": [{"name": "basket"}, {"name": "cart"}],
        }
    ),
    {"appstudio.application": "shop", "appstudio.environment": "staging"},
)
GONE = "Snapshot: two referred in Binding: shop-staging does not exist."
FOREIGN = "Snapshot 'two' is one of application 'blog', not of 'shop'; name one of this application"

CROWDED = (
    "Environment 'staging' exists, but is not in force: it is beyond the quota of this namespace; delete others of its "
    "kind"
)
NO_ROOM = (
    "Application 'shop' exists, but is not in force: it is beyond the quota of this namespace; delete others of its "
    "kind"
)

CROWDED_OUT = (
    "Component 'api' exists, but is not in force: it is beyond the quota of this namespace; delete others of its kind"
)
NOT_BOUND = (
    "SnapshotEnvironmentBinding '{name}' exists, but is not in force: it is beyond the quota of this namespace; delete "
    "others of its kind"
)


def images(*components: str) -> dict[str, list[str]]:
    """Of Snapshot two."""
    return {"two": image_entries({"components": [{"name": each, "containerImage": each} for each in components]})}


def lacking(count: int, names: str = "") -> str:
    """What is said of components that are not there."""
    lacks = f"Application 'shop' lacks {count} of the components in Snapshot 'two'{names}"
    return f"{lacks}; create them, or promote a Snapshot without them"


FIRST_LOOK: dict[str, tuple[Surroundings, str, tuple[Any, ...], str]] = {
    "no binding: one is made": (around(), WAITS_FOR_BINDING, (GENERATED,), ""),
    "another snapshot is bound: this one is ordered": (
        around(bound("staging", snapshot="one")),
        WAITS_FOR_BINDING,
        (SnapshotOrder("shop-staging", "two"),),
        "",
    ),
    "deployments are missing": (
        around(bound("staging", deployed(), deployed("api", deployment=""))),
        WAITS_FOR_BINDING,
        (),
        "",
    ),
    "the build service has not seen the newest spec": (
        around(bound("staging", is_outdated=True)),
        WAITS_FOR_BINDING,
        (),
        "",
    ),
    "not synced": (
        around(bound("staging", deployed(sync="OutOfSync"), deployed("api", sync="OutOfSync"))),
        "Waiting for following GitOpsDeployments to be Synced/Healthy: web-api, web-cart",
        (),
        "",
    ),
    "synced and not healthy": (
        around(bound("staging", deployed(health="Degraded"))),
        "Waiting for following GitOpsDeployments to be Synced/Healthy: web-cart",
        (),
        "",
    ),
    "synced and healthy at another commit": (
        around(bound("staging", deployed(revision="c1"))),
        "Waiting for following GitOpsDeployments to be Synced/Healthy: web-cart",
        (),
        "",
    ),
    "synced and healthy, and no commit was named": (
        around(bound("staging", deployed(commit=""))),
        "Waiting for following GitOpsDeployments to be Synced/Healthy: web-cart",
        (),
        "",
    ),
    "no such environment": (
        around(parents={"development": ""}),
        "Environment 'staging' does not exist; create it",
        (),
        "Environment 'staging' does not exist; create it",
    ),
    "no such application": (
        around(applications={}),
        "Application 'shop' does not exist; create it",
        (),
        "Application 'shop' does not exist; create it",
    ),
    "no such snapshot: the binding is left alone": (
        around(bound("staging", snapshot="one"), snapshots={"one": "shop"}),
        GONE,
        (),
        GONE,
    ),
    "a snapshot that was deleted while it is promoted": (around(bound("staging"), snapshots={}), GONE, (), GONE),
    "an environment beyond the quota": (
        around(parents={"development": ""}, not_in_force={("Environment", "staging"): BEYOND_QUOTA}),
        CROWDED,
        (),
        CROWDED,
    ),
    "an application beyond the quota": (
        around(applications={}, not_in_force={("Application", "shop"): BEYOND_QUOTA}),
        NO_ROOM,
        (),
        NO_ROOM,
    ),
    "a snapshot that nobody can read": (
        around(snapshots={}, not_in_force={("Snapshot", "two"): INVALID_SPEC}),
        "Snapshot 'two' exists, but is not in force: its spec is not valid; correct it",
        (),
        "Snapshot 'two' exists, but is not in force: its spec is not valid; correct it",
    ),
    "of all components that the snapshot has images of": (
        around(images=images("cart", "basket")),
        WAITS_FOR_BINDING,
        (GENERATED,),
        "",
    ),
    "of more than these": (around(images=images("cart")), WAITS_FOR_BINDING, (GENERATED,), ""),
    "nobody has told of some yet": (around(images=images("api", "cart", "web")), lacking(2), (), lacking(2)),
    "nobody has told of some yet, and another binding names one": (
        around(bound("development", deployed("api"), deployed()), images=images("api", "cart", "web")),
        lacking(2, ": api and 1 more"),
        (),
        lacking(2, ": api and 1 more"),
    ),
    "one is beyond the quota, and another one is not there": (
        around(images=images("api", "cart", "web"), crowded_out={"shop": ("api", "help"), "blog": ("web",)}),
        CROWDED_OUT,
        (),
        CROWDED_OUT,
    ),
    "all are beyond the quota": (
        around(applications={"shop": ()}, crowded_out={"shop": ("api",)}),
        CROWDED_OUT,
        (),
        CROWDED_OUT,
    ),
    "one is beyond the quota of which the snapshot has no image": (
        around(images=images("cart"), crowded_out={"shop": ("api",)}),
        WAITS_FOR_BINDING,
        (GENERATED,),
        "",
    ),
    "a snapshot comes to a binding that lacks some: its user has chosen": (
        around(bound("staging", snapshot="one"), images=images("cart", "web")),
        WAITS_FOR_BINDING,
        (SnapshotOrder("shop-staging", "two"),),
        "",
    ),
    "a binding beyond the quota": (
        around(
            idle_bindings={("shop", "staging"): "ours"},
            not_in_force={("SnapshotEnvironmentBinding", "ours"): BEYOND_QUOTA},
        ),
        NOT_BOUND.format(name="ours"),
        (),
        NOT_BOUND.format(name="ours"),
    ),
    "a binding that nobody can read": (
        around(not_in_force={("SnapshotEnvironmentBinding", "shop-staging-generated-binding"): BEYOND_QUOTA}),
        NOT_BOUND.format(name="shop-staging-generated-binding"),
        (),
        NOT_BOUND.format(name="shop-staging-generated-binding"),
    ),
}

HOPELESS: dict[str, tuple[Surroundings, str]] = {
    "a snapshot of another application": (
        around(bound("staging", snapshot="one"), snapshots={"two": "blog"}),
        FOREIGN,
    ),
    "an environment that is over": (
        around(parents={"development": ""}, expired={"staging"}),
        "Environment 'staging' is over; name another one",
    ),
    "an environment that is being deleted": (
        around(bound("staging"), parents={"development": ""}, going={"staging"}),
        "Environment 'staging' is being deleted; name another one",
    ),
    "one that is over, and nobody has told of the rest": (
        around(parents={}, applications={}, snapshots={}, expired={"staging"}),
        "Environment 'staging' is over; name another one",
    ),
}


@pytest.mark.parametrize(("surroundings", "display", "orders", "error"), FIRST_LOOK.values(), ids=FIRST_LOOK)
def test_run_when_it_is_not_done_then_it_says_what_it_waits_for_and_orders_what_is_missing(
    surroundings: Surroundings, display: str, orders: tuple[Any, ...], error: str
) -> None:
    advanced = after(MANUAL, (surroundings, 0))
    assert steps(advanced) == {"staging": ("In Progress", display)}
    assert advanced.orders == orders
    assert advanced.promotion.error == error
    assert (advanced.promotion.state, advanced.promotion.started_at) == ("Active", at(0))
    assert advanced.promotion.due_after(at(0)) == at(0) + timedelta(minutes=10)


@pytest.mark.parametrize(("surroundings", "error"), HOPELESS.values(), ids=HOPELESS)
def test_run_when_it_never_can_succeed_then_it_fails_at_once_says_why_and_orders_nothing(
    surroundings: Surroundings, error: str
) -> None:
    advanced = after(MANUAL, (surroundings, 0))
    assert steps(advanced) == {"staging": ("Failed", f"Promotion Failed. {error}")}
    assert (advanced.promotion.state, advanced.promotion.result) == ("Complete", "Failure")
    assert (advanced.promotion.error, advanced.orders) == (error, ())


def test_automated_run_when_one_of_a_level_never_can_succeed_then_the_others_go_on_without_it() -> None:
    gone = {name: parent for name, parent in WIDE.items() if name != "us"}
    begun = after(AUTOMATED, (wide(bound("development")), 0)).promotion
    later = around(bound("development"), bound("eu"), parents=gone, automated=set(gone), going={"us"})
    promotion = advance(AUTOMATED, begun, later, at(5)).promotion
    assert {step.environment: step.status for step in promotion.steps} == {
        "development": "Success",
        "eu": "Success",
        "us": "Failed",
        "eu-2": "In Progress",
    }


def test_components_of_a_snapshot_when_they_are_to_be_looked_up_then_the_command_names_the_list_of_its_spec() -> None:
    assert COMPONENTS_OF_SNAPSHOT in MISSING_COMPONENTS.remedy
    components, name = SnapshotSpec.model_fields["components"], SnapshotComponent.model_fields["name"]
    assert f"jsonpath='{{.spec.{components.alias}[*].{name.alias}}}'" in COMPONENTS_OF_SNAPSHOT


def test_run_when_its_binding_lacks_nothing_then_components_beyond_the_quota_are_not_looked_for() -> None:
    class Closed(dict[str, tuple[str, ...]]):
        def get(self, *_: object) -> Any:
            raise AssertionError("nobody needs it")

    advanced = after(MANUAL, (around(crowded_out=Closed()), 0))
    assert [type(order) for order in advanced.orders] == [BindingOrder]
    with pytest.raises(AssertionError, match="nobody needs it"):
        after(MANUAL, (around(images=images("another"), crowded_out=Closed()), 0))


def test_run_when_it_is_looked_at_twice_then_nothing_changes() -> None:
    for surroundings, *_ in FIRST_LOOK.values():
        once = after(MANUAL, (surroundings, 0))
        assert after(MANUAL, (surroundings, 0), (surroundings, 5)) == once


def test_run_when_every_deployment_is_synced_healthy_and_at_its_commit_then_it_succeeds() -> None:
    advanced = after(MANUAL, (around(), 0), (around(bound("staging", deployed(), deployed("basket"))), 30))
    assert steps(advanced) == {"staging": ("Success", DONE)}
    assert (advanced.promotion.state, advanced.promotion.result) == ("Complete", "Success")
    assert advanced.orders == ()
    assert advanced.promotion.due_after(at(0)) is None


def test_run_when_it_is_manual_then_it_ends_with_its_environment() -> None:
    spec = run(manualPromotion={"targetEnvironment": "development"})
    assert [*steps(after(spec, (around(bound("development")), 0)))] == ["development"]


FAILURES: dict[str, tuple[Surroundings, str]] = {
    "a component that is not healthy": (
        around(bound("staging", deployed(), deployed("api", health="Degraded"))),
        f"{FAILED} api is Synced, Degraded, at c2; wanted: c2",
    ),
    "two that are not there yet": (
        around(bound("staging", deployed("cart", deployment=""), deployed("api", deployment=""))),
        f"{FAILED} api has no GitOpsDeployment yet; cart has no GitOpsDeployment yet",
    ),
    "a binding with a problem": (
        around(bound("staging", deployed(deployment=""), problem="the build service is away")),
        f"{FAILED} the build service is away",
    ),
    "one at another commit": (
        around(bound("staging", deployed(revision="c1"))),
        f"{FAILED} cart is Synced, Healthy, at c1; wanted: c2",
    ),
    "one that was never compared, whose commit nobody has named": (
        around(bound("staging", deployed(sync="", health="", revision="", commit=""))),
        f"{FAILED} cart is not compared, of unknown health, at no commit; wanted: a commit that the build service has "
        "not named",
    ),
    "no such environment": (
        around(parents={"development": ""}),
        f"{FAILED} Environment 'staging' does not exist; create it",
    ),
    "components that never came": (around(images=images("api", "cart")), f"{FAILED} {lacking(1)}"),
    "a binding that never came": (around(), FAILED),
}


@pytest.mark.parametrize(("surroundings", "display"), FAILURES.values(), ids=FAILURES)
def test_run_when_its_time_is_over_then_it_fails_says_why_and_orders_nothing(
    surroundings: Surroundings, display: str
) -> None:
    assert after(MANUAL, (surroundings, 0), (surroundings, 10 * MINUTE - 1)).promotion.state == "Active"
    advanced = after(MANUAL, (surroundings, 0), (surroundings, 10 * MINUTE))
    assert steps(advanced) == {"staging": ("Failed", display)}
    assert (advanced.promotion.state, advanced.promotion.result) == ("Complete", "Failure")
    assert advanced.orders == ()


def test_run_when_more_components_than_fit_a_message_fail_then_it_says_how_many() -> None:
    broken = around(bound("staging", *(deployed(f"c{n:02}", health="Missing") for n in range(100))))
    display = steps(after(MANUAL, (broken, 0), (broken, 10 * MINUTE)))["staging"][1]
    assert display.endswith("c09 is Synced, Missing, at c2; wanted: c2; and 90 more")


def test_run_when_it_is_done_at_the_moment_its_time_is_over_then_it_succeeds() -> None:
    assert after(MANUAL, (around(), 0), (around(bound("staging")), 10 * MINUTE)).promotion.result == "Success"


WAITS = around(bound("staging", deployed(health="Progressing")))
LATE_LOOKS: dict[str, tuple[tuple[float, ...], str, float | None]] = {
    "as soon as it can be expected": ((0, 615), "Failure", None),
    "later: it has two minutes from then": ((0, 616), "", 736),
    "again and again within these": ((0, 616, 700, 735), "", 736),
    "when these are over": ((0, 616, 736), "Failure", None),
    "later again: it has two minutes once more": ((0, 616, 752), "", 872),
    "when these are over, too": ((0, 616, 752, 872), "Failure", None),
    "by a clock that was an hour ahead: it has no more time than one that begins": ((0, 3600, 10), "", 610),
    "by a clock that is a second behind: its time stays": ((0, -1, 10), "", 599),
}
"""When a step is looked at, what becomes of its run, and when it is looked at next."""


@pytest.mark.parametrize(("looks", "result", "due"), LATE_LOOKS.values(), ids=LATE_LOOKS)
def test_run_when_nobody_looks_as_its_time_is_over_then_it_has_some_more(
    looks: tuple[float, ...], result: str, due: float | None
) -> None:
    promotion = after(MANUAL, *((WAITS, second) for second in looks)).promotion
    assert promotion.result == result
    assert promotion.due_after(at(looks[-1])) == (at(due) if due is not None else None)


def test_run_when_nobody_looks_as_its_time_is_over_and_it_never_can_succeed_then_it_fails_all_the_same() -> None:
    assert after(MANUAL, (WAITS, 0), (around(expired={"staging"}), 900)).promotion.result == "Failure"


def test_run_when_it_is_complete_then_nothing_that_happens_changes_it() -> None:
    done = after(MANUAL, (around(bound("staging")), 0)).promotion
    assert advance(MANUAL, done, around(), at(3600), behind="other") == Advance(done)


def test_run_when_a_problem_was_mended_in_time_then_its_error_is_gone() -> None:
    advanced = after(MANUAL, (around(parents={}), 0), (around(bound("staging")), 60))
    assert (advanced.promotion.error, advanced.promotion.result) == ("", "Success")


@pytest.mark.parametrize(
    "spec",
    [
        run(),
        run(manualPromotion={"targetEnvironment": ""}),
        run(manualPromotion={"targetEnvironment": "a"}, automatedPromotion={"initialEnvironment": "b"}),
    ],
    ids=["neither", "empty", "both"],
)
def test_run_when_it_names_no_single_environment_then_it_is_over_before_it_begins(spec: PromotionRunSpec) -> None:
    advanced = after(spec, (around(), 0))
    assert (advanced.promotion.state, advanced.promotion.result) == ("Complete", "Failure")
    assert advanced.promotion.error == "Target Environment has invalid value."
    assert advanced.promotion.steps == ()


def test_automated_run_when_an_environment_has_succeeded_then_its_automated_children_follow() -> None:
    begun = after(AUTOMATED, (around(bound("development")), 0))
    assert steps(begun) == {"development": ("Success", DONE), "staging": ("In Progress", WAITS_FOR_BINDING)}
    assert begun.orders == (GENERATED,)
    assert begun.promotion.due_after(at(0)) == at(600)


def test_automated_run_when_no_automated_child_is_left_then_it_is_complete_and_the_manual_one_untouched() -> None:
    both = around(bound("development"), bound("staging"))
    advanced = after(AUTOMATED, (both, 0))
    assert steps(advanced) == {"development": ("Success", DONE), "staging": ("Success", DONE)}
    assert (advanced.promotion.state, advanced.promotion.result) == ("Complete", "Success")


WIDE = {"development": "", "eu": "development", "us": "development", "eu-2": "eu", "us-2": "us"}


def wide(*bindings: BoundSnapshot) -> Surroundings:
    return around(*bindings, parents=WIDE, automated=set(WIDE))


BROKEN_US = replace(bound("us"), components=(deployed(health="Degraded"),))


def test_automated_run_when_a_level_is_not_over_then_the_next_one_does_not_begin() -> None:
    advanced = after(AUTOMATED, (wide(bound("development"), bound("eu"), BROKEN_US), 0))
    assert {name: status for name, (status, _) in steps(advanced).items()} == {
        "development": "Success",
        "eu": "Success",
        "us": "In Progress",
    }
    assert advanced.promotion.active_bindings == ("shop-eu", "shop-us")


def test_automated_run_when_one_environment_fails_then_only_the_children_of_the_others_follow_and_it_fails() -> None:
    given = wide(bound("development"), bound("eu"), BROKEN_US, bound("eu-2"))
    advanced = after(AUTOMATED, (given, 0), (given, 10 * MINUTE))
    assert {name: status for name, (status, _) in steps(advanced).items()} == {
        "development": "Success",
        "eu": "Success",
        "us": "Failed",
        "eu-2": "Success",
    }
    assert (advanced.promotion.state, advanced.promotion.result) == ("Complete", "Failure")


def test_automated_run_when_environments_of_a_level_have_errors_then_it_says_the_same_at_each_look() -> None:
    """What can still be mended first, and at the end why it is no success."""
    begun = after(AUTOMATED, (wide(bound("development")), 0)).promotion
    gone = around(bound("development"), parents={"development": "", "us": "development"}, expired={"eu"})
    absent = replace(gone, parents={"development": ""})
    errors = []
    for surroundings, second in [(absent, 5), (absent, 6), (gone, 7), (gone, 8), (gone, 10 * MINUTE)]:
        begun = advance(AUTOMATED, begun, surroundings, at(second)).promotion
        errors.append(begun.error)
    over, missing = "Environment 'eu' is over; name another one", "Environment 'us' does not exist; create it"
    assert (errors, begun.result) == ([missing, missing, over, over, over], "Failure")


def test_automated_run_when_a_level_begins_late_then_it_has_all_of_its_time() -> None:
    waiting, done = wide(), wide(bound("development"))
    assert after(AUTOMATED, (waiting, 0), (done, 9 * MINUTE)).promotion.due_after(at(0)) == at(19 * MINUTE)


def test_automated_run_when_its_first_environment_is_a_manual_one_then_it_is_promoted_to_all_the_same() -> None:
    given = around(bound("development"), automated={"staging"})
    assert [*steps(after(AUTOMATED, (given, 0)))] == ["development", "staging"]


def test_automated_run_when_parents_go_round_then_it_ends() -> None:
    given = around(
        bound("development"),
        bound("staging"),
        parents={"development": "staging", "staging": "development"},
        on_cycles={"development", "staging"},
    )
    advanced = after(AUTOMATED, (given, 0))
    assert [*steps(advanced)] == ["development"]
    assert advanced.promotion.result == "Success"


def contender(name: str, created_at: int, *, application: str = "shop", is_active: bool = False) -> Contender:
    return Contender(id_of(name), name, application, created_at, is_active)


TURNS: dict[str, tuple[list[Contender], dict[str, str]]] = {
    "none": ([], {}),
    "one": ([contender("a", 1)], {}),
    "the oldest is next": ([contender("b", 2), contender("a", 1)], {"b": "a"}),
    "of the same second the first by name": ([contender("b", 1), contender("a", 1)], {"b": "a"}),
    "who has begun goes on": ([contender("a", 1), contender("b", 2, is_active=True)], {"a": "b"}),
    "all wait for the same": ([contender("c", 3), contender("b", 2), contender("a", 1)], {"b": "a", "c": "a"}),
    "other applications do not wait": ([contender("a", 1), contender("b", 2, application="blog")], {}),
}


@pytest.mark.parametrize(("contenders", "ahead"), TURNS.values(), ids=TURNS)
def test_runs_when_several_are_of_one_application_then_one_at_a_time_has_its_turn(
    contenders: list[Contender], ahead: dict[str, str]
) -> None:
    assert runs_ahead(contenders) == {id_of(name): first for name, first in ahead.items()}


def test_run_when_another_one_is_ahead_then_it_waits_without_losing_time() -> None:
    waiting = advance(MANUAL, Promotion(), around(), at(0), behind="first").promotion
    assert (waiting.state, waiting.behind, waiting.due_after(at(0))) == ("Waiting", "first", None)
    assert advance(MANUAL, waiting, around(), at(3600)).promotion.due_after(at(3600)) == at(4200)


def test_run_when_it_has_begun_and_another_one_goes_ahead_then_what_is_not_over_has_all_of_its_time_once_more() -> None:
    over = Step("development", 0, at(600), "Success", DONE)
    open_step = Step("staging", 1, at(900), before=Before("of one"), answer_due=at(360))
    begun = Promotion("Active", started_at=at(0), steps=(over, open_step))
    waiting = advance(AUTOMATED, begun, around(), at(400), behind="first").promotion
    assert (waiting.state, waiting.behind) == ("Waiting", "first")
    lagging = around(bound("staging", reported="of one"))
    again = advance(AUTOMATED, waiting, lagging, at(3600)).promotion
    assert (again.state, again.started_at, again.steps[0]) == ("Active", at(0), over)
    assert (again.steps[1].due_at, again.steps[1].answer_due) == (at(4200), at(3660))
    assert advance(AUTOMATED, again, lagging, at(3601)).promotion == again, "once"


def test_generated_name_when_names_vary_then_it_is_as_documented() -> None:
    assert generated_name("Shop", "staging", ()) == "shop-staging-generated-binding"
    long = f"{'a' * 200}-{'e' * 60}-generated-binding"
    hashed = hashlib.sha256(long.encode()).hexdigest()
    assert generated_name("a" * 200, "e" * 60, ()) == f"generated-environment-binding-{hashed}"


def test_generated_name_when_another_pair_has_it_then_each_pair_has_its_own() -> None:
    first = generated_name("a-b", "c", ())
    second = generated_name("a", "b-c", {first})
    assert first == "a-b-c-generated-binding"
    assert second.startswith("generated-environment-binding-")


def shown(promotion: Promotion, spec: PromotionRunSpec = MANUAL, previous: str = "{}", second: int = 0) -> str:
    return promotion_status(previous, spec, promotion, {}, at(second))


def content(status: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(status)
    found.pop("conditions")
    return found


def test_status_when_it_waits_for_another_run_then_it_says_for_which() -> None:
    status = shown(Promotion(behind="first"))
    assert content(status) == {
        "state": "Waiting",
        "environmentStatus": [
            {
                "step": 1,
                "environmentName": "staging",
                "status": "In Progress",
                "displayStatus": "Waiting for PromotionRun 'first' of the same application to complete.",
            }
        ],
    }
    assert conditions(status) == {"ErrorOccurred": ("False", "", "")}


def test_status_when_it_is_complete_then_it_names_result_steps_bindings_and_beginning() -> None:
    step = Step("staging", 0, at(600), "Success", DONE, "shop-staging")
    assert content(shown(Promotion("Complete", "Success", at(0), (step,)))) == {
        "state": "Complete",
        "completionResult": "Success",
        "environmentStatus": [{"step": 1, "environmentName": "staging", "status": "Success", "displayStatus": DONE}],
        "activeBindings": ["shop-staging"],
        "promotionStartTime": "2026-05-04T12:00:00Z",
    }


def test_status_when_others_wrote_long_or_unreadable_words_into_it_then_they_are_cut_and_cleaned() -> None:
    step = Step("staging", 0, at(600), display="\x1b[2J" + "x" * 10_000)
    (written,) = content(shown(Promotion("Active", steps=(step,))))["environmentStatus"]
    assert written["displayStatus"] == "[2J" + "x" * (MAX_DISPLAY_STATUS - 3)


def test_status_when_something_is_to_be_mended_then_error_occurred_says_it_until_it_is() -> None:
    broken = shown(Promotion("Active", error="create it"))
    assert conditions(broken) == {"ErrorOccurred": ("True", "ErrorOccurred", "create it")}
    assert conditions(shown(Promotion("Active"), previous=broken, second=1)) == {"ErrorOccurred": ("False", "", "")}


def test_status_when_nothing_changes_then_it_is_the_same_text_later_too() -> None:
    status = shown(Promotion(behind="first"))
    assert shown(Promotion(behind="first"), previous=status, second=60) == status
