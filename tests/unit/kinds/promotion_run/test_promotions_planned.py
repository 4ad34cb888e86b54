"""Promotion runs in the planner: rows in, statuses and changes of bindings out, and time that passes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import pytest

from services.common.api_resource import ApiResource
from services.common.times import rfc3339
from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT
from services.kinds.environment.catalogue import EXPIRES_AT
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.gitops_deployment.catalogue import REPOSITORY_NEEDS_LOGIN
from services.kinds.promotion_run import rows
from services.kinds.promotion_run.catalogue import BEYOND_QUOTA, INVALID_SPEC, NOTHING_BOUND
from services.kinds.promotion_run.model import PROMOTION_RUN, PromotionRunSpec
from services.kinds.promotion_run.progress import SnapshotOrder, progress
from services.kinds.promotion_run.rules import TIME_TO_ANSWER, TIME_TO_NOTICE
from services.kinds.registry import REGISTRY
from services.kinds.shared.child_objects import DeploymentState
from services.kinds.shared.projection import status_of
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING, BindingStatus
from services.planner.domain import dormancy
from services.planner.domain.appstudio import bound_snapshots, promotions
from services.planner.domain.appstudio.on_demand import OnDemand
from services.planner.domain.appstudio.surroundings import surroundings
from services.planner.domain.child_deployments import state_named
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.domain.steps import quotas
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import (
    Failed,
    StatusReported,
    as_sent,
    at,
    changed,
    observed,
    resource,
    resource_gone,
    spec,
)
from tests.unit.planner.world import NOW, World

MINUTE = timedelta(minutes=1)
COMPONENTS = ("api", "web")
WAITS_FOR_BINDING = "Waiting for the environment binding to create all of the expected GitOpsDeployments."
DONE = "All GitOpsDeployments are Synced/Healthy"


class Shop:
    """A namespace with an application of two components, and environments one after the other."""

    def __init__(self, **strategies: str) -> None:
        self.world = World(policy=Policy())
        self.second = 0
        self.branch: list[str] = []
        """Commits of the one repository of the application, the newest last."""
        self.applied: dict[str, str] = {}
        """The revision of the last sync of a deployment."""
        self.pushed: dict[tuple[str, str, str], str] = {}
        """Of a component for an environment, as a snapshot has it."""
        self.take(APPLICATION.kind, "shop", {})
        for name in COMPONENTS:
            self.take(COMPONENT.kind, name, {"application": "shop", "componentName": name})
        parent = ""
        for name, strategy in (strategies or {"dev": "Manual"}).items():
            content = {"displayName": name, "deploymentStrategy": strategy}
            self.take(ENVIRONMENT.kind, name, content | ({"parentEnvironment": parent} if parent else {}))
            parent = name
        for name in ("one", "two"):
            self.snapshot(name, api="same", web="same")

    def take(self, kind: str, name: str, content: dict[str, Any], **parts: Any) -> None:
        self.second += 1
        self.world.take(resource(self.second, kind, name, content, **parts))

    def snapshot(self, name: str, **tags: str) -> None:
        """With these images of its components, as the watcher sends it."""
        components = [
            {"name": each, "containerImage": f"registry.example.com/{each}:{tag}"} for each, tag in tags.items()
        ]
        self.second += 1
        self.world.take(as_sent(self.second, SNAPSHOT.kind, name, {"application": "shop", "components": components}))

    def gone(self, kind: str, name: str) -> None:
        self.second += 1
        self.world.take(resource_gone(self.second, kind, name))

    def pass_time(self, time: timedelta) -> None:
        self.world.later += time
        while self.world.take_due():
            pass

    def run(self, name: str = "run", target: str = "dev", snapshot: str = "two", **parts: Any) -> None:
        promotion = parts.pop("promotion", {"manualPromotion": {"targetEnvironment": target}})
        content = {"application": parts.pop("application", "shop"), "snapshot": snapshot} | promotion
        self.take(PROMOTION_RUN.kind, name, content, **parts)

    def bind(
        self, snapshot: str, environment: str = "dev", answered: str | None = None, generation: int = 1, **parts: Any
    ) -> None:
        """A binding as the API server has it, and for which snapshot the build service has answered."""
        content = {"application": "shop", "environment": environment, "snapshot": snapshot}
        content |= {"components": [{"name": name} for name in COMPONENTS]}
        answer = [self.said(name, environment, answered) for name in COMPONENTS] if answered is not None else []
        for each in answer:
            each["gitopsRepository"]["generatedResources"] = parts.get("resources", [])
        status: dict[str, Any] = {"components": answer} if answer else {}
        if condition := parts.pop("condition", ""):
            status["gitopsRepoConditions"] = [{"type": "GitOpsResourcesGenerated", "status": condition}]
        parts.pop("resources", None)
        name = f"shop-{environment}"
        parts = {"created_at": created(self.second)} | parts
        self.take(BINDING.kind, name, content, status=status, generation=generation, uid=f"uid-{name}", **parts)

    def push(self, component: str, environment: str, snapshot: str) -> str:
        """The commit of a component, on top of the branch unless it is there."""
        key = (component, environment, snapshot)
        if key not in self.pushed:
            self.pushed[key] = hashlib.sha1("/".join(key).encode(), usedforsecurity=False).hexdigest()
            self.branch.append(self.pushed[key])
        return self.pushed[key]

    def said(self, component: str, environment: str, snapshot: str) -> dict[str, Any]:
        """What the build service says of a component once it has pushed it: git ends commits with a line feed."""
        where = {"url": "https://git.example.com/shop.git", "branch": "main", "path": component}
        commit = self.push(component, environment, snapshot)
        return {"name": component, "gitopsRepository": where | {"commitID": f"{commit}\n"}}

    def deploy(
        self, environment: str = "dev", health: str = "Healthy", revision: str = "", synced: tuple[str, ...] = ()
    ) -> None:
        """The deployments of a binding as the engine says they are: at the head of the branch, unless it lags behind.

        ``synced``: those components of which anything was changed.
        """
        head = revision or self.branch[-1]
        for name in COMPONENTS:
            deployment = f"shop-{environment}-shop-{environment}-{name}"
            self.second += 1
            source = {"source": {"repoURL": "https://git.example.com/shop.git", "path": name}}
            self.world.take(changed(self.second, deployment, uid=deployment, content=spec(**source), version=1))
            row = self.world.application(deployment)
            assert row is not None
            sync = {"status": "Synced", "revision": head}
            status: dict[str, Any] = {"sync": sync, "health": {"status": health}}
            if name in synced:
                self.applied[deployment] = head
            if deployment in self.applied:
                result = {"revision": self.applied[deployment]}
                status["operationState"] = {"phase": "Succeeded", "syncResult": result}
            reported = StatusReported(json.dumps(status), str(self.second))
            self.world.take(
                observed(self.second, reported, instance=row.engine_instance_id, name=f"gitopsdepl-{deployment}")
            )

    @property
    def orders(self) -> dict[str, ChildRow]:
        """What is wanted of bindings, by name."""
        return {row.name: row for row in self.world.child_objects.values() if row.kind == BINDING.kind}

    def status(self, name: str = "run") -> dict[str, Any]:
        (row,) = [row for row in self.world.workspace.values() if (row.kind, row.name) == (PROMOTION_RUN.kind, name)]
        return json.loads(row.status)  # type: ignore[no-any-return]

    def steps(self, name: str = "run") -> list[tuple[str, str, str]]:
        shown = self.status(name)["environmentStatus"]
        return [(each["environmentName"], each["status"], each["displayStatus"]) for each in shown]

    def error(self, name: str = "run") -> tuple[str, str]:
        (condition,) = [each for each in self.status(name)["conditions"] if each["type"] == "ErrorOccurred"]
        return (condition["status"], condition["message"])


def created(second: int) -> int:
    """As the API server says it."""
    return int(at(second).timestamp() * 1000)


def promoted(shop: Shop, environment: str, snapshot: str = "two", generation: int = 2) -> None:
    """The binding has the snapshot, the build service has answered, and everything is deployed."""
    shop.bind(snapshot, environment, answered=snapshot, generation=generation)
    shop.deploy(environment)


@pytest.fixture
def shop() -> Shop:
    """Where snapshot one is deployed to dev."""
    made = Shop()
    made.bind("one", answered="one")
    made.deploy()
    return made


def test_run_when_there_is_no_binding_then_one_is_made_that_belongs_to_nobody() -> None:
    shop = Shop()
    shop.run()
    (row,) = shop.orders.values()
    assert (row.name, row.uid, row.owner_name) == ("shop-dev-generated-binding", "", "run")
    wanted = json.loads(row.manifest)
    assert wanted["labels"] == {"appstudio.application": "shop", "appstudio.environment": "dev"}
    assert wanted["spec"] == {
        "application": "shop",
        "environment": "dev",
        "snapshot": "two",
        "components": [{"name": "api"}, {"name": "web"}],
    }
    assert (shop.status()["state"], shop.steps()) == ("Active", [("dev", "In Progress", WAITS_FOR_BINDING)])


def test_run_when_another_snapshot_is_bound_then_it_is_patched_and_it_succeeds_once_all_is_at_its_commit(
    shop: Shop,
) -> None:
    shop.run()
    (row,) = shop.orders.values()
    assert (row.name, row.uid, json.loads(row.manifest)["spec"]) == ("shop-dev", "uid-shop-dev", {"snapshot": "two"})
    shop.bind("two", answered="one", generation=2)
    assert shop.orders == {}, "the binding has it"
    assert shop.steps() == [("dev", "In Progress", WAITS_FOR_BINDING)], "all is well, but of snapshot one"
    shop.bind("two", answered="two", generation=2)
    assert "Waiting for following GitOpsDeployments" in shop.steps()[0][2]
    shop.deploy(health="Progressing")
    assert shop.status()["state"] == "Active"
    shop.deploy()
    status = shop.status()
    assert (status["state"], status["completionResult"], shop.steps()) == (
        "Complete",
        "Success",
        [("dev", "Success", DONE)],
    )
    assert status["activeBindings"] == ["shop-dev"]
    assert shop.error()[0] == "False"


def test_run_when_a_repository_is_closed_to_its_tenant_then_what_the_engine_says_of_it_is_no_success(
    shop: Shop,
) -> None:
    """A run and its binding see a deployment as its own status shows it."""
    shop.bind("two", answered="two", generation=2)
    shop.deploy()
    name = "shop-dev-shop-dev-api"
    row = shop.world.application(name)
    assert row is not None
    closed = Failed(row.digest, permanent=True, message=REPOSITORY_NEEDS_LOGIN.message, for_user=True)
    shop.world.take(observed(shop.second, closed, instance=row.engine_instance_id, name=f"gitopsdepl-{name}"))
    shop.run()
    ((_, status, display),) = shop.steps()
    assert (status, display) == ("In Progress", f"Waiting for following GitOpsDeployments to be Synced/Healthy: {name}")


def test_run_when_components_share_a_branch_then_each_is_deployed_with_the_newest_commit_and_all_succeed(
    shop: Shop,
) -> None:
    shop.run()
    shop.bind("two", answered="two", generation=2)
    assert shop.branch[-2:] == [shop.pushed[name, "dev", "two"] for name in COMPONENTS]
    shop.deploy(revision=shop.pushed["api", "dev", "two"])
    assert shop.status()["state"] == "Active", "web is not there yet"
    shop.deploy(revision=shop.pushed["web", "dev", "two"])
    assert shop.status()["completionResult"] == "Success"


def test_run_when_its_build_names_a_commit_and_an_older_one_is_deployed_then_it_waits(shop: Shop) -> None:
    """Whichever environment or snapshot the older one is of."""
    shop.run()
    shop.bind("one", "staging", answered="one")
    shop.bind("two", answered="two", generation=2)
    for older in shop.branch[:-2]:
        shop.deploy(revision=older, synced=COMPONENTS)
        assert shop.status()["state"] == "Active"
    shop.deploy(revision=hashlib.sha1(b"by hand", usedforsecurity=False).hexdigest())
    assert shop.status()["state"] == "Active", "nobody knows how old that is"


def test_automated_run_when_two_environments_share_the_repository_then_both_succeed_at_its_newest_commit() -> None:
    shop = Shop(dev="Manual", green="AppStudioAutomated", blue="AppStudioAutomated")
    blue = {"displayName": "blue", "deploymentStrategy": "AppStudioAutomated", "parentEnvironment": "dev"}
    shop.take(ENVIRONMENT.kind, "blue", blue, generation=2)
    for name in ("dev", "green", "blue"):
        shop.bind("one", name, answered="one")
        shop.deploy(name)
    shop.run(**AUTOMATED)
    promoted(shop, "dev")
    for name in ("green", "blue"):
        shop.bind("two", name, answered="two", generation=2)
    for name in ("green", "blue"):
        shop.deploy(name, revision=shop.pushed["web", "green", "two"])
    assert [step[:2] for step in shop.steps()] == [("dev", "Success"), ("blue", "In Progress"), ("green", "Success")]
    for name in ("green", "blue"):
        shop.deploy(name)
    assert shop.status()["completionResult"] == "Success"


def test_run_when_a_component_has_nothing_to_change_then_it_succeeds_at_the_newest_commit_of_its_binding(
    shop: Shop,
) -> None:
    shop.pushed["api", "dev", "two"] = shop.pushed["api", "dev", "one"]
    shop.run()
    shop.bind("two", answered="two", generation=2)
    assert shop.status()["state"] == "Active"
    shop.deploy()
    assert shop.status()["completionResult"] == "Success"


def test_run_when_bindings_are_told_of_long_after_they_were_made_then_the_order_of_what_they_name_is_unknown() -> None:
    """As after the database was lost: nothing is taken for newer that may be older, until it is named anew."""
    shop = Shop(dev="Manual", staging="Manual")
    shop.second = 10_000
    for name in ("staging", "dev"):
        shop.bind("one", name, answered="one", created_at=created(0))
        shop.deploy(name)
    shop.run(snapshot="one")
    assert shop.status()["state"] == "Active"
    shop.bind("two", "staging", answered="two", generation=2)
    shop.deploy()
    assert shop.status()["completionResult"] == "Success"


@pytest.fixture
def silent(shop: Shop) -> Shop:
    """Where the build service does not name commits anew: it has named each component once, and pushes all the same."""
    shop.run("before", snapshot="one")
    shop.run()
    shop.bind("two", answered="one", generation=2)
    return shop


def test_run_when_no_commit_is_named_and_the_images_are_the_same_then_it_succeeds_once_engines_would_have_noticed(
    silent: Shop,
) -> None:
    silent.pass_time(TIME_TO_ANSWER + TIME_TO_NOTICE - timedelta(seconds=1))
    assert silent.status()["state"] == "Active", "the state of before is no success"
    silent.pass_time(timedelta(seconds=1))
    assert silent.status()["completionResult"] == "Success"


@pytest.mark.parametrize("untold", [("one",), ("two",), ("one", "two")], ids=" and ".join)
def test_run_when_no_commit_is_named_and_images_are_unknown_then_what_was_there_before_is_no_success(
    shop: Shop, untold: tuple[str, ...]
) -> None:
    """As of Snapshots that the watcher of the release before has sent."""
    for name in untold:
        shop.take(SNAPSHOT.kind, name, {"application": "shop"})
    shop.run("before", snapshot="one")
    shop.run()
    shop.bind("two", answered="one", generation=2)
    shop.pass_time(TIME_TO_ANSWER + TIME_TO_NOTICE)
    assert shop.status()["state"] == "Active"
    shop.pass_time(3 * MINUTE)
    assert shop.status()["completionResult"] == "Failure"


def test_run_when_the_release_before_took_images_for_the_same_then_nobody_knows_it(silent: Shop) -> None:
    """It took what it knew nothing of for equal."""
    (row,) = [row for row in silent.world.resources.values() if (row.kind, row.name) == (PROMOTION_RUN.kind, "run")]
    kept = json.loads(row.progress)
    for step in kept["steps"]:
        step["unchanged"] = step.pop("sameImages")
    (step,) = rows.promotion_of(replace(row, progress=json.dumps(kept))).steps
    assert step.before is not None
    assert step.before.unchanged == ()


def test_run_when_conditions_alone_are_written_then_no_commit_is_named_anew(silent: Shop) -> None:
    """As after the build service has failed to push, and tried again."""
    silent.bind("two", answered="one", generation=2, condition="True")
    assert silent.status()["state"] == "Active"


@pytest.fixture
def down() -> Shop:
    """Where the build service was gone when snapshot two came, which has other images, and a run has failed."""
    shop = Shop()
    for snapshot in ("one", "two"):
        shop.snapshot(snapshot, api=snapshot, web=snapshot)
    shop.run("first", snapshot="one")
    promoted(shop, "dev", "one", generation=1)
    shop.run()
    shop.bind("two", answered="one", generation=2)
    shop.pass_time(10 * MINUTE)
    return shop


def written(shop: Shop, *components: str) -> None:
    """The build service has pushed commits of dev that it does not name, and Argo CD has synced what differs."""
    for each in components:
        shop.push(each, "dev", f"two of {each}")
    shop.deploy(synced=components)


def test_run_when_no_commit_is_named_and_the_images_differ_then_what_was_there_before_is_no_success(down: Shop) -> None:
    ((_, status, display),) = down.steps()
    assert (status, display.endswith("; wanted: a commit that is newer than the promotion")) == ("Failed", True)


def test_run_when_no_commit_is_named_then_each_component_with_another_image_has_to_be_synced_to_a_newer_one(
    down: Shop,
) -> None:
    """That one was, and that both are compared with the head of the branch since, tells nothing of the other."""
    down.run("again", created_at=created(down.second))
    down.pass_time(TIME_TO_ANSWER + TIME_TO_NOTICE)
    written(down, "api")
    assert down.status("again")["state"] == "Active"
    written(down, "web")
    assert down.status("again")["completionResult"] == "Success"


def test_run_when_one_image_differs_then_its_component_alone_has_to_be_synced_to_a_newer_one(down: Shop) -> None:
    down.snapshot("three", api="three", web="two")
    down.run("again", snapshot="three", created_at=created(down.second))
    down.bind("three", answered="one", generation=3)
    down.pass_time(TIME_TO_ANSWER)
    written(down, "web")
    assert down.status("again")["state"] == "Active", "what has the same image as before"
    written(down, "api")
    assert down.status("again")["completionResult"] == "Success"


def test_run_when_one_before_it_has_brought_the_snapshot_then_what_was_there_before_that_is_no_success(
    down: Shop,
) -> None:
    down.run("again", created_at=created(down.second))
    down.pass_time(9 * MINUTE)
    assert down.status("again")["state"] == "Active"
    written(down, *COMPONENTS)
    assert down.status("again")["completionResult"] == "Success"
    down.run("third", created_at=created(down.second))
    down.pass_time(TIME_TO_ANSWER)
    assert down.status("third")["completionResult"] == "Success", "it is there since, though no commit is named"


def test_run_when_the_build_service_cannot_write_then_what_was_there_before_is_no_success(silent: Shop) -> None:
    """As long as it says so the binding deploys what it had: that is synced and healthy, and nothing moves."""
    silent.bind("two", answered="one", generation=2, condition="False")
    silent.pass_time(TIME_TO_ANSWER + TIME_TO_NOTICE)
    assert silent.steps() == [("dev", "In Progress", WAITS_FOR_BINDING)]
    silent.pass_time(3 * MINUTE)
    ((_, status, display),) = silent.steps()
    assert status == "Failed"
    assert display.endswith("Cannot Reconcile Binding 'shop-dev', since GitOps Repo Conditions status is false.")


def test_run_when_the_same_commit_is_named_with_other_words_then_that_is_the_answer(silent: Shop) -> None:
    silent.bind("two", answered="one", generation=2, resources=["two.yaml"])
    assert silent.status()["completionResult"] == "Success"


def test_run_when_no_commit_is_named_then_it_succeeds_once_the_binding_was_synced_to_a_newer_one(silent: Shop) -> None:
    silent.push("api", "staging", "two")
    silent.deploy()
    silent.pass_time(TIME_TO_ANSWER)
    assert silent.status()["state"] == "Active", "the branch has moved on, for another environment"
    silent.push("web", "dev", "two")
    silent.deploy(synced=("web",))
    assert silent.status()["completionResult"] == "Success"


def test_run_when_no_commit_is_named_then_what_is_synced_within_a_minute_is_not_taken_for_all(silent: Shop) -> None:
    silent.push("api", "dev", "two")
    silent.deploy(synced=("api",))
    assert silent.status()["state"] == "Active"
    silent.pass_time(TIME_TO_ANSWER)
    assert silent.status()["completionResult"] == "Success"


def test_run_when_ten_minutes_are_over_then_it_fails_and_names_component_and_why(shop: Shop) -> None:
    shop.run()
    shop.bind("two", answered="two", generation=2)
    shop.deploy(health="Degraded")
    shop.pass_time(10 * MINUTE - timedelta(seconds=1))
    assert shop.status()["state"] == "Active"
    shop.pass_time(timedelta(seconds=1))
    ((environment, status, display),) = shop.steps()
    assert (environment, status, shop.status()["completionResult"]) == ("dev", "Failed", "Failure")
    assert display.startswith("Promotion Failed. Could not be completed in 10 Minutes. api is Synced, Degraded, at ")
    shop.deploy()
    assert shop.status()["completionResult"] == "Failure", "it is over"


def test_run_when_ten_minutes_are_over_while_no_planner_is_there_then_what_it_reads_since_counts(shop: Shop) -> None:
    shop.run()
    shop.bind("two", answered="two", generation=2)
    shop.deploy(health="Progressing")
    shop.pass_time(11 * MINUTE)
    assert shop.status()["state"] == "Active", "what engines have said meanwhile may be in the log"
    shop.world.memory.clear()
    shop.pass_time(2 * MINUTE - timedelta(seconds=1))
    shop.deploy()
    assert shop.status()["completionResult"] == "Success"


def test_runs_when_several_are_of_one_application_then_the_next_begins_when_one_is_complete(shop: Shop) -> None:
    shop.run("first")
    shop.run("second", snapshot="one")
    assert shop.status("second")["state"] == "Waiting"
    behind = "Waiting for PromotionRun 'first' of the same application to complete."
    assert shop.steps("second") == [("dev", "In Progress", behind)]
    shop.pass_time(9 * MINUTE)
    promoted(shop, "dev")
    assert (shop.status("first")["state"], shop.status("second")["state"]) == ("Complete", "Active")
    (row,) = shop.orders.values()
    assert json.loads(row.manifest)["spec"] == {"snapshot": "one"}
    shop.pass_time(9 * MINUTE)
    assert shop.status("second")["state"] == "Active", "its time began with its turn"


def test_run_when_an_older_one_that_had_begun_is_told_of_later_then_it_waits_and_has_all_of_its_time_after_that(
    shop: Shop,
) -> None:
    """As while a log is read again."""
    shop.run("younger", created_at=created(1))
    shop.second = 999_990
    shop.run("older", snapshot="three", created_at=created(0), recalled=UNDER_WAY)
    assert shop.status("younger")["state"] == "Waiting"
    behind = "Waiting for PromotionRun 'older' of the same application to complete."
    assert shop.steps("younger") == [("dev", "In Progress", behind)]
    shop.pass_time(10 * MINUTE)
    assert (shop.status("older")["completionResult"], shop.status("younger")["state"]) == ("Failure", "Active")
    shop.pass_time(10 * MINUTE - timedelta(seconds=1))
    assert shop.status("younger")["state"] == "Active"
    promoted(shop, "dev")
    assert shop.status("younger")["completionResult"] == "Success"


def test_run_when_it_is_deleted_then_nothing_is_asked_of_the_binding_any_more_and_the_next_one_begins(
    shop: Shop,
) -> None:
    shop.run("first")
    shop.run("second", snapshot="one")
    assert shop.orders
    shop.gone(PROMOTION_RUN.kind, "first")
    assert shop.orders == {}
    assert shop.status("second")["completionResult"] == "Success", "snapshot one is there still"


def test_run_when_its_snapshot_is_deleted_then_it_says_so_and_leaves_the_binding_as_it_is(shop: Shop) -> None:
    shop.run()
    shop.gone(SNAPSHOT.kind, "two")
    assert shop.error() == ("True", "Snapshot: two referred in Binding: shop-dev does not exist.")
    assert shop.orders == {}
    shop.pass_time(10 * MINUTE)
    assert shop.status()["completionResult"] == "Failure"


REMADE = (
    "Snapshot 'two' was deleted, and created again with other images than those that were promoted; create it under "
    "another name, and name that in spec.snapshot of another run"
)


def remade(shop: Shop, **tags: str) -> None:
    """Snapshot two was deleted and created again."""
    shop.gone(SNAPSHOT.kind, "two")
    shop.snapshot("two", **tags)


def is_remade(shop: Shop, name: str) -> bool:
    """Whether a run says so, and has failed."""
    return (shop.error(name), shop.status(name)["completionResult"]) == (("True", REMADE), "Failure")


def test_run_when_its_snapshot_was_made_anew_with_other_images_then_it_says_so_and_not_that_they_are_deployed(
    shop: Shop,
) -> None:
    shop.run("first")
    promoted(shop, "dev")
    remade(shop, api="other", web="same")
    shop.run("second", created_at=created(shop.second))
    assert is_remade(shop, "second")
    assert shop.orders == {}
    shop.run("third", created_at=created(shop.second))
    assert is_remade(shop, "third"), "though the second one has looked at it, too"


def test_run_when_one_before_it_has_made_the_binding_for_a_snapshot_of_that_name_then_it_says_so() -> None:
    shop = Shop()
    shop.run("first")
    promoted(shop, "dev", generation=1)
    assert shop.status("first")["completionResult"] == "Success"
    remade(shop, api="other", web="same")
    shop.run("second", created_at=created(shop.second))
    assert is_remade(shop, "second")


def test_run_when_its_snapshot_was_made_anew_with_the_same_images_then_they_are_deployed(shop: Shop) -> None:
    shop.run("first")
    promoted(shop, "dev")
    remade(shop, api="same", web="same")
    shop.run("second", created_at=created(shop.second))
    assert shop.status("second")["completionResult"] == "Success"


def test_run_when_its_snapshot_is_made_anew_meanwhile_then_it_goes_on_with_the_same_images_alone(shop: Shop) -> None:
    shop.run()
    remade(shop, api="same", web="same")
    assert shop.status()["state"] == "Active"
    remade(shop, api="other", web="same")
    assert is_remade(shop, "run")


def test_run_when_another_snapshot_was_bound_meanwhile_then_one_that_was_made_anew_is_ordered(shop: Shop) -> None:
    shop.run("first")
    promoted(shop, "dev")
    promoted(shop, "dev", "one", generation=3)
    remade(shop, api="other", web="same")
    shop.run("second", created_at=created(shop.second))
    assert shop.status("second")["state"] == "Active"
    assert json.loads(shop.orders["shop-dev"].manifest)["spec"] == {"snapshot": "two"}
    shop.bind("two", answered="two", generation=4)
    assert shop.status("second")["completionResult"] == "Success", "what the run before has brought counts no more"


def test_automated_run_when_its_snapshot_is_made_anew_on_its_way_then_no_other_images_follow() -> None:
    shop = Shop(dev="Manual", staging="AppStudioAutomated")
    shop.run(**AUTOMATED)
    promoted(shop, "dev", generation=1)
    assert [step[:2] for step in shop.steps()] == [("dev", "Success"), ("staging", "In Progress")]
    remade(shop, api="other", web="same")
    assert is_remade(shop, "run")
    assert shop.orders == {}


def not_in_force(kind: str, name: str, why: str) -> tuple[str, str]:
    return "True", f"{kind} '{name}' exists, but is not in force: {why}"


def test_run_when_its_snapshot_is_beyond_the_quota_then_it_says_so_until_there_is_room() -> None:
    shop = Shop()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({SNAPSHOT.kind: 2}))
    shop.take(SNAPSHOT.kind, "three", {"application": "shop"})
    shop.run(snapshot="three")
    assert shop.error() == not_in_force(SNAPSHOT.kind, "three", BEYOND_QUOTA)
    shop.gone(SNAPSHOT.kind, "one")
    assert (shop.error()[0], list(shop.orders)) == ("False", ["shop-dev-generated-binding"])


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        (ENVIRONMENT.kind, "next", {"displayName": "next", "deploymentStrategy": "Manual"}),
        (APPLICATION.kind, "blog", {}),
    ],
)
def test_run_when_what_it_names_is_beyond_the_quota_then_it_says_so_and_not_that_there_is_none(
    kind: str, name: str, content: dict[str, Any]
) -> None:
    shop = Shop()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({kind: 1}))
    shop.take(kind, name, content)
    shop.run(
        target=name if kind == ENVIRONMENT.kind else "dev",
        application=name if kind == APPLICATION.kind else "shop",
        snapshot="nowhere",
    )
    assert shop.error() == not_in_force(kind, name, BEYOND_QUOTA)


def test_run_when_the_spec_of_its_environment_is_not_valid_then_it_says_so_until_it_is(shop: Shop) -> None:
    shop.take(ENVIRONMENT.kind, "dev", {"displayName": "dev", "deploymentStrategy": "Often"}, generation=2)
    shop.run()
    assert shop.error() == not_in_force(ENVIRONMENT.kind, "dev", INVALID_SPEC)
    shop.take(ENVIRONMENT.kind, "dev", {"displayName": "dev", "deploymentStrategy": "Manual"}, generation=3)
    assert shop.error()[0] == "False"


def test_run_when_its_snapshot_is_of_another_application_then_it_fails_at_once_and_the_next_one_begins(
    shop: Shop,
) -> None:
    shop.take(SNAPSHOT.kind, "of-blog", {"application": "blog"})
    shop.run("first", snapshot="of-blog")
    shop.run("second")
    assert (shop.status("first")["completionResult"], shop.status("second")["state"]) == ("Failure", "Active")
    assert list(shop.orders) == ["shop-dev"]


def test_run_when_its_environment_is_being_deleted_then_it_fails_at_once(shop: Shop) -> None:
    shop.run()
    content = {"displayName": "dev", "deploymentStrategy": "Manual"}
    shop.take(ENVIRONMENT.kind, "dev", content, deleting=True, finalizers=("example.com/keep",))
    assert (shop.status()["completionResult"], shop.orders) == ("Failure", {})
    assert shop.error() == ("True", "Environment 'dev' is being deleted; name another one")


def test_run_when_its_environment_is_over_then_it_fails_at_once(shop: Shop) -> None:
    preview = {"configuration": {"target": {"deploymentTargetClaim": {"claimName": "claim"}}}}
    content = {"displayName": "pr", "deploymentStrategy": "Manual"} | preview
    over_at = {"annotations": {EXPIRES_AT: rfc3339(NOW + 5 * MINUTE)}}
    shop.take(ENVIRONMENT.kind, "pr", content, metadata=over_at, created_at=created(0))
    shop.run(target="pr")
    assert shop.status()["state"] == "Active"
    shop.pass_time(5 * MINUTE)
    assert shop.error() == ("True", "Environment 'pr' is over; name another one")


def test_run_when_nobody_has_told_of_what_it_names_yet_then_it_waits_and_goes_on() -> None:
    """Kinds are told of in any order."""
    shop = Shop()
    shop.run(target="qa", snapshot="first", application="blog")
    assert shop.error() == ("True", "Environment 'qa' does not exist; create it")
    shop.take(ENVIRONMENT.kind, "qa", {"displayName": "qa", "deploymentStrategy": "Manual"})
    assert shop.error() == ("True", "Application 'blog' does not exist; create it")
    shop.take(APPLICATION.kind, "blog", {})
    assert shop.error()[1].startswith("Snapshot: first referred in Binding")
    shop.take(SNAPSHOT.kind, "first", {"application": "blog"})
    assert (shop.error(), shop.orders) == (("True", "Application 'blog' has no components yet; create them"), {})
    shop.take(COMPONENT.kind, "posts", {"application": "blog"})
    assert (shop.error()[0], list(shop.orders)) == ("False", ["blog-qa-generated-binding"])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            [f"component-{number}" for number in range(251 - len(COMPONENTS))],
            "Application 'shop' has 251 components, and a binding at most 250; delete some",
        ),
        (["n" * 64], f"the name of component '{'n' * 64}' is longer than 63 characters; use a shorter one"),
    ],
    ids=["too many", "too long"],
)
def test_run_when_no_binding_can_be_made_of_the_components_then_it_says_so_and_its_tenant_goes_on(
    names: list[str], message: str
) -> None:
    shop = Shop()
    for name in names:
        shop.take(COMPONENT.kind, name, {"application": "shop"})
    shop.run()
    assert (shop.error(), shop.orders) == (("True", message), {})
    for name in names:
        shop.gone(COMPONENT.kind, name)
    assert list(shop.orders) == ["shop-dev-generated-binding"]


def test_run_when_components_are_told_of_after_it_then_its_binding_is_made_with_all_that_its_snapshot_has() -> None:
    """Kinds are told of in any order, and what a binding lacks when it is made is not added to it."""
    shop = Shop()
    shop.snapshot("two", api="two", web="two", cart="two", help="two")
    shop.run()
    lacks = (
        "Application 'shop' lacks {} of the components in Snapshot 'two'; create them, or promote a Snapshot without "
        "them"
    )
    assert (shop.error(), shop.orders) == (("True", lacks.format(2)), {})
    shop.take(COMPONENT.kind, "the-cart", {"application": "shop", "componentName": "cart"})
    assert (shop.error(), shop.orders) == (("True", lacks.format(1)), {})
    shop.take(COMPONENT.kind, "help", {"application": "shop"})
    (row,) = shop.orders.values()
    components = [each["name"] for each in json.loads(row.manifest)["spec"]["components"]]
    assert (shop.error()[0], components) == ("False", ["api", "cart", "help", "web"])


def test_run_when_a_component_of_its_snapshot_was_deleted_since_then_it_fails_in_time_and_the_next_one_begins() -> None:
    shop = Shop(dev="Manual", prod="Manual")
    shop.bind("one", answered="one")
    shop.gone(COMPONENT.kind, "web")
    shop.run(target="prod")
    shop.run("next", snapshot="three")
    shop.snapshot("three", api="three")
    shop.pass_time(10 * MINUTE)
    (step,) = shop.status()["environmentStatus"]
    lacks = "Application 'shop' lacks 1 of the components in Snapshot 'two': web"
    assert step["displayStatus"].startswith(f"Promotion Failed. Could not be completed in 10 Minutes. {lacks}; ")
    assert (shop.status()["completionResult"], list(shop.orders)) == ("Failure", ["shop-dev"])


def test_run_when_a_component_of_its_snapshot_is_beyond_the_quota_then_it_says_so_until_there_is_room() -> None:
    shop = Shop()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({COMPONENT.kind: 2}))
    shop.take(COMPONENT.kind, "the-cart", {"application": "shop", "componentName": "cart"})
    shop.snapshot("two", api="two", cart="two")
    shop.run()
    assert (shop.error(), shop.orders) == (not_in_force(COMPONENT.kind, "cart", BEYOND_QUOTA), {})
    shop.gone(COMPONENT.kind, "web")
    assert (shop.error()[0], list(shop.orders)) == ("False", ["shop-dev-generated-binding"])


@pytest.mark.parametrize("name", ["of-a-user", "shop-dev-generated-binding"])
def test_run_when_its_binding_is_beyond_the_quota_then_it_says_so_until_there_is_room(name: str) -> None:
    shop = Shop()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({BINDING.kind: 1}))
    content = {"application": "shop", "snapshot": "one", "components": [{"name": "api"}]}
    shop.take(BINDING.kind, "first", content | {"environment": "other"})
    shop.take(BINDING.kind, name, content | {"environment": "dev"})
    shop.run()
    assert (shop.error(), shop.orders) == (not_in_force(BINDING.kind, name, BEYOND_QUOTA), {})
    shop.gone(BINDING.kind, "first")
    assert (shop.error()[0], list(shop.orders)) == ("False", [name])


def test_run_when_its_binding_outgrows_the_quota_and_its_spec_is_not_kept_then_it_says_so_and_makes_no_other() -> None:
    shop = Shop()
    shop.bind("one", answered="one")
    shop.deploy()
    shop.run()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({}, bytes_=1))
    content = {
        "application": "shop",
        "environment": "dev",
        "snapshot": "one",
        "padding": "p" * quotas.KEPT_BEYOND_QUOTA,
    }
    shop.take(BINDING.kind, "shop-dev", content, generation=2, uid="uid-shop-dev", created_at=created(shop.second))
    assert shop.error() == not_in_force(BINDING.kind, "shop-dev", BEYOND_QUOTA)
    assert set(shop.orders) <= {"shop-dev"}


def test_run_when_a_binding_of_another_pair_has_the_name_beyond_the_quota_then_it_is_not_taken_for_its_own() -> None:
    shop = Shop()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({BINDING.kind: 0}))
    other = {"application": "blog", "environment": "dev", "snapshot": "one", "components": [{"name": "api"}]}
    shop.take(BINDING.kind, "shop-dev-generated-binding", other)
    shop.run()
    assert shop.error()[0] == "False"
    assert [name.startswith("generated-environment-binding-") for name in shop.orders] == [True]


def test_run_when_the_spec_of_its_binding_is_not_valid_then_it_says_so_until_it_is() -> None:
    shop = Shop()
    shop.take(BINDING.kind, "shop-dev-generated-binding", {"application": "shop"})
    shop.run()
    assert shop.error() == not_in_force(BINDING.kind, "shop-dev-generated-binding", INVALID_SPEC)
    content = {"application": "shop", "environment": "dev", "snapshot": "two", "components": [{"name": "api"}]}
    shop.take(BINDING.kind, "shop-dev-generated-binding", content, generation=2)
    assert shop.error()[0] == "False"


def test_run_when_the_clock_of_a_watcher_is_ahead_then_its_time_is_over_all_the_same() -> None:
    """By an hour: what it sees happens after the deadline, and the planner's clock has yet to come to that."""
    shop = Shop()
    shop.second = int((NOW - at(0)).total_seconds()) + 3600
    shop.run()
    assert shop.status()["state"] == "Active"
    shop.pass_time(10 * MINUTE)
    assert shop.status()["completionResult"] == "Failure"


def test_run_when_its_binding_has_no_component_then_it_does_not_succeed_and_says_why() -> None:
    shop = Shop()
    content = {"application": "shop", "environment": "dev", "snapshot": "two", "components": []}
    shop.take(BINDING.kind, "empty", content)
    shop.run()
    shop.pass_time(10 * MINUTE)
    assert shop.status()["completionResult"] == "Failure"
    (step,) = shop.status()["environmentStatus"]
    assert step["displayStatus"].endswith(NOTHING_BOUND)


AUTOMATED = {"promotion": {"automatedPromotion": {"initialEnvironment": "dev"}}}


def test_automated_run_when_an_environment_has_succeeded_then_its_automated_child_follows_and_the_manual_one_not() -> (
    None
):
    shop = Shop(dev="Manual", staging="AppStudioAutomated", prod="Manual")
    for name in ("dev", "staging", "prod"):
        shop.bind("one", name, answered="one")
        shop.deploy(name)
    shop.run(**AUTOMATED)
    assert list(shop.orders) == ["shop-dev"]
    promoted(shop, "dev")
    assert list(shop.orders) == ["shop-staging"]
    promoted(shop, "staging")
    assert [step[:2] for step in shop.steps()] == [("dev", "Success"), ("staging", "Success")]
    assert (shop.status()["completionResult"], shop.orders) == ("Success", {})


def test_automated_run_when_an_environment_fails_then_nothing_follows_and_the_run_fails() -> None:
    shop = Shop(dev="Manual", staging="AppStudioAutomated")
    shop.run(**AUTOMATED)
    shop.pass_time(10 * MINUTE)
    assert [step[:2] for step in shop.steps()] == [("dev", "Failed")]
    assert (shop.status()["completionResult"], shop.orders) == ("Failure", {})


@pytest.mark.parametrize("look", ["again", "from-the-database"])
def test_run_when_it_is_looked_at_again_then_nothing_is_written(shop: Shop, look: str) -> None:
    shop.run()
    before = shop.world.rows()
    if look == "from-the-database":
        shop.world.memory.clear()
    shop.take(SNAPSHOT.kind, "later", {"application": "shop"})
    after = shop.world.rows()
    assert (after["workspace"], after["child_objects"]) == (before["workspace"], before["child_objects"])


def test_run_when_the_database_was_lost_then_one_that_is_complete_stays_so_and_one_under_way_goes_on(
    shop: Shop,
) -> None:
    shop.run("first")
    promoted(shop, "dev")
    told = {name: shop.status(name) for name in ("first",)}
    rebuilt = Shop()
    rebuilt.bind("one", answered="one")
    rebuilt.run("first", recalled=json.dumps(told["first"]))
    assert rebuilt.orders == {}, "a promotion of long ago is not made again"
    assert rebuilt.status("first")["state"] == "Complete"
    assert rebuilt.steps("first") == [("dev", "Success", DONE)]
    rebuilt.second = 1_000_000
    rebuilt.run("second", recalled=UNDER_WAY)
    assert list(rebuilt.orders) == ["shop-dev"]


UNDER_WAY = json.dumps({"state": "Active", "promotionStartTime": "2026-05-04T12:00:00Z", "environmentStatus": [
    {"step": 1, "environmentName": "dev", "status": "In Progress", "displayStatus": ""}]})  # fmt: skip


@pytest.fixture
def forgotten(shop: Shop) -> Shop:
    """Where a run has brought snapshot two to the binding, and the database was lost before anything else happened."""
    shop.bind("two", answered="one", generation=2)
    shop.run(recalled=UNDER_WAY)
    return shop


def test_run_when_the_database_was_lost_after_its_order_then_what_there_is_counts_once_engines_would_have_noticed(
    forgotten: Shop,
) -> None:
    assert forgotten.steps() == [("dev", "In Progress", WAITS_FOR_BINDING)], "all is well, but of snapshot one"
    forgotten.world.memory.clear()
    forgotten.pass_time(TIME_TO_ANSWER + TIME_TO_NOTICE - timedelta(seconds=1))
    forgotten.deploy()
    assert forgotten.status()["state"] == "Active"
    forgotten.pass_time(timedelta(seconds=1))
    assert forgotten.status()["completionResult"] == "Success"
    forgotten.run("again", created_at=created(forgotten.second))
    assert forgotten.status("again")["completionResult"] == "Success", "what there was before is not known of it"


def test_run_when_the_database_was_lost_after_its_order_and_commits_are_named_then_they_count_at_once(
    forgotten: Shop,
) -> None:
    forgotten.bind("two", answered="two", generation=2)
    assert forgotten.status()["state"] == "Active"
    forgotten.deploy()
    assert forgotten.status()["completionResult"] == "Success"


def test_run_when_the_database_was_lost_and_engines_say_nothing_new_then_it_fails_in_time(forgotten: Shop) -> None:
    forgotten.deploy(health="Degraded")
    forgotten.pass_time(10 * MINUTE - timedelta(seconds=1))
    assert forgotten.status()["state"] == "Active"
    forgotten.pass_time(timedelta(seconds=1))
    assert forgotten.status()["completionResult"] == "Failure"


def test_run_when_the_database_was_lost_before_its_order_then_what_there_was_before_is_known() -> None:
    shop = Shop()
    for snapshot in ("one", "two"):
        shop.snapshot(snapshot, api=snapshot, web=snapshot)
    shop.bind("one", answered="one")
    shop.deploy()
    shop.second = 999_990
    shop.run(recalled=UNDER_WAY)
    shop.bind("two", answered="one", generation=2)
    shop.pass_time(10 * MINUTE)
    assert shop.status()["completionResult"] == "Failure"


def test_run_when_a_lost_database_has_begun_it_again_then_its_status_ends_it_before_it_does_anything(
    shop: Shop,
) -> None:
    """The log tells of its beginning first, and nothing is streamed before the log is read."""
    shop.run("first")
    assert shop.orders
    complete = {"state": "Complete", "completionResult": "Success", "environmentStatus": []}
    shop.run("first", recalled=json.dumps(complete), epoch=9)
    assert (shop.orders, shop.status("first")["state"]) == ({}, "Complete")


def test_run_when_a_lost_database_has_ended_it_otherwise_then_it_is_as_its_status_says(shop: Shop) -> None:
    """Its environment is over today, and was not then: the log tells of the run's beginning first."""
    shop.take(SNAPSHOT.kind, "of-blog", {"application": "blog"})
    shop.run("first", snapshot="of-blog")
    assert shop.status("first")["completionResult"] == "Failure"
    step = {"step": 1, "environmentName": "dev", "status": "Success", "displayStatus": DONE}
    complete = {"state": "Complete", "completionResult": "Success", "environmentStatus": [step]}
    shop.run("first", snapshot="of-blog", recalled=json.dumps(complete), epoch=9)
    assert shop.steps("first") == [("dev", "Success", DONE)]


def test_run_when_the_database_was_lost_after_it_had_failed_then_it_says_the_same_as_before(shop: Shop) -> None:
    shop.take(SNAPSHOT.kind, "of-blog", {"application": "blog"})
    shop.run(snapshot="of-blog")
    told = shop.status()
    anew = Shop()
    anew.run(snapshot="of-blog", recalled=json.dumps(told))
    assert told["completionResult"] == "Failure"
    assert (anew.error(), anew.steps()) == (shop.error(), shop.steps())


@pytest.fixture
def half_failed() -> Shop:
    """An automated run of which one environment of a level has failed, and another one is under way."""
    shop = with_siblings()
    shop.run(**AUTOMATED)
    promoted(shop, "dev")
    shop.take(ENVIRONMENT.kind, "us", US, deleting=True, generation=2)
    assert [step[:2] for step in shop.steps()] == [("dev", "Success"), ("eu", "In Progress"), ("us", "Failed")]
    assert shop.error() == GOES
    return shop


US = {"displayName": "us", "deploymentStrategy": "AppStudioAutomated", "parentEnvironment": "dev"}
GOES = ("True", "Environment 'us' is being deleted; name another one")


def with_siblings() -> Shop:
    """Where two environments follow one."""
    shop = Shop(dev="Manual", eu="AppStudioAutomated")
    shop.take(ENVIRONMENT.kind, "us", US)
    for name in ("dev", "eu"):
        shop.bind("one", name, answered="one")
        shop.deploy(name)
    return shop


def test_automated_run_when_the_database_was_lost_after_one_of_a_level_had_failed_then_it_says_why_to_its_end(
    half_failed: Shop,
) -> None:
    anew = with_siblings()
    promoted(anew, "dev")
    anew.second = 1_000_000
    anew.run(recalled=json.dumps(half_failed.status()), **AUTOMATED)
    assert (anew.error(), anew.steps()) == (GOES, half_failed.steps())
    promoted(anew, "eu")
    assert (anew.error(), anew.status()["completionResult"]) == (GOES, "Failure")


def test_automated_run_when_the_release_before_wrote_that_one_of_a_level_had_failed_then_it_says_why_to_its_end(
    half_failed: Shop,
) -> None:
    """That release kept the error of the whole run alone."""
    world = half_failed.world
    (row,) = [row for row in world.resources.values() if row.kind == PROMOTION_RUN.kind]
    kept = json.loads(row.progress)
    for step in kept["steps"]:
        del step["error"]
    world.resources[row.id] = replace(row, progress=json.dumps(kept))
    world.memory.clear()
    promoted(half_failed, "eu")
    assert (half_failed.error(), half_failed.status()["completionResult"]) == (GOES, "Failure")


def test_automated_run_when_what_it_shows_is_no_reason_of_the_one_that_has_failed_then_it_ends_without_it() -> None:
    """One fails in time, of whose spec nothing is wrong, while another one has an error that is mended."""
    shop = with_siblings()
    step = {"step": 2, "environmentName": "us", "status": "Failed", "displayStatus": "Promotion Failed. In time."}
    under_way = {"step": 3, "environmentName": "eu", "status": "In Progress", "displayStatus": "mend this"}
    wrong = {"type": "ErrorOccurred", "status": "True", "reason": "ErrorOccurred", "message": "mend this"}
    told = {"state": "Active", "environmentStatus": [step, under_way], "conditions": [wrong]}
    shop.run(recalled=json.dumps(told), **AUTOMATED)
    assert shop.error()[0] == "False"


def test_snapshot_when_an_open_run_names_it_then_it_is_at_hand_and_no_other(shop: Shop) -> None:
    shop.run()
    (kept,) = shop.world.memory.values()
    assert {row.name for row in kept.plain_resources_of_kind(SNAPSHOT.kind).values()} == {"two"}


def test_run_when_it_is_beyond_the_quota_then_it_says_so_and_takes_no_turn(shop: Shop) -> None:
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({PROMOTION_RUN.kind: 1}))
    shop.run("first")
    shop.run("second")
    assert "quota exceeded" in shop.error("second")[1]
    assert "state" not in shop.status("second")
    shop.gone(PROMOTION_RUN.kind, "first")
    assert shop.status("second")["state"] == "Active"


def test_run_when_things_happen_that_are_not_of_its_concern_then_it_is_due_at_its_deadline(shop: Shop) -> None:
    shop.run()
    shop.world.take(changed(900, "other", uid="uid-other"))
    (row,) = [row for row in shop.world.resources.values() if row.kind == PROMOTION_RUN.kind]
    assert row.due_at is not None
    assert row.due_at <= NOW + 10 * MINUTE


def audited(shop: Shop) -> list[tuple[str, str, str, str]]:
    """Of runs: name, action, state and message."""
    records = (each for each in shop.world.audit_records.values() if each.kind == PROMOTION_RUN.kind)
    return [(each.name, each.action, each.state, each.message) for each in records]


def test_audit_when_a_run_has_succeeded_then_it_says_who_asked_for_it_and_where_it_went(shop: Shop) -> None:
    shop.run()
    assert audited(shop) == [("run", "create", "Waiting", "")]
    promoted(shop, "dev")
    assert audited(shop) == [("run", "create", "Completed", "dev: Success")]
    (record,) = (each for each in shop.world.audit_records.values() if each.kind == PROMOTION_RUN.kind)
    assert (record.actor, record.generation) == ("kubectl", 1)


def test_audit_when_a_run_has_failed_then_it_says_where_and_why(shop: Shop) -> None:
    shop.run(snapshot="nowhere")
    shop.pass_time(10 * MINUTE)
    ((_, _, state, message),) = audited(shop)
    assert state == "Failed"
    assert message.startswith("dev: Promotion Failed. Could not be completed in 10 Minutes. Snapshot: nowhere referred")


def test_audit_when_a_run_is_deleted_before_its_end_then_both_changes_are_over(shop: Shop) -> None:
    shop.run()
    shop.gone(PROMOTION_RUN.kind, "run")
    assert audited(shop) == [
        ("run", "create", "Completed", "superseded by the deletion"),
        ("run", "delete", "Completed", ""),
    ]


def test_audit_when_the_database_was_lost_then_a_run_that_is_complete_is_told_as_that(shop: Shop) -> None:
    shop.run()
    promoted(shop, "dev")
    told = json.dumps(shop.status())
    anew = Shop()
    anew.run(recalled=told)
    assert audited(anew) == [("run", "create", "Completed", "dev: Success")]


def test_audit_when_a_run_is_beyond_the_quota_then_it_waits_for_room() -> None:
    shop = Shop()
    shop.world.policy = Policy(limits=REGISTRY.limits({PROMOTION_RUN.kind: 0}))
    shop.run()
    ((_, _, state, message),) = audited(shop)
    assert state == "Waiting"
    assert message.startswith("QuotaExceeded: ")


def hopeless(shop: Shop, first: int, last: int) -> None:
    """Runs that are complete as soon as they are told of."""
    for number in range(first, last):
        shop.run(f"run-{number:03}", snapshot="of-blog", created_at=created(number))


@pytest.fixture
def ending(shop: Shop) -> Shop:
    """Where a run of this snapshot ends at once."""
    shop.take(SNAPSHOT.kind, "of-blog", {"application": "blog"})
    return shop


def runs(shop: Shop) -> dict[str, bool]:
    """Those of which rows are at hand, as a planner reads them that has not seen the tenant, and whether they count."""
    (tenant,) = shop.world.tenants
    rows = shop.world.state(tenant).plain_resources_of_kind(PROMOTION_RUN.kind).values()
    return {row.name: not row.over_quota for row in rows}


def test_runs_when_they_are_complete_then_they_do_not_count_and_others_have_the_room(ending: Shop) -> None:
    ending.world.policy = replace(ending.world.policy, limits=REGISTRY.limits({PROMOTION_RUN.kind: 1}))
    hopeless(ending, 1, 5)
    ending.run("first")
    ending.run("second", snapshot="one")
    ending.run("third", snapshot="one")
    assert [ending.status(name).get("state") for name in ("run-004", "first", "second")] == ["Complete", "Active", None]
    promoted(ending, "dev")
    assert ending.status("first")["state"] == "Complete"
    assert (ending.status("second")["state"], ending.status("third").get("state")) == ("Active", None)
    ending.pass_time(10 * MINUTE)
    assert (ending.status("second")["completionResult"], ending.status("third")["state"]) == ("Failure", "Active")


def test_runs_when_each_ends_as_soon_as_there_is_room_then_all_of_them_do(ending: Shop) -> None:
    ending.world.policy = replace(ending.world.policy, limits=REGISTRY.limits({PROMOTION_RUN.kind: 1}))
    ending.run("first")
    hopeless(ending, 1, 5)
    assert "quota exceeded" in ending.error("run-001")[1]
    ending.gone(PROMOTION_RUN.kind, "first")
    ending.pass_time(promotions.NEXT_PLAN)
    assert results(ending, 4) == ["Failure"] * 4


def test_runs_when_many_end_as_soon_as_there_is_room_then_a_plan_ends_after_some_rounds_and_the_next_goes_on(
    ending: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dormancy, "WAITING_KEPT", 2)
    monkeypatch.setattr(promotions, "ROUNDS", 1)
    ending.world.policy = replace(ending.world.policy, limits=REGISTRY.limits({PROMOTION_RUN.kind: 1}))
    ending.run("first")
    hopeless(ending, 1, 10)
    ending.gone(PROMOTION_RUN.kind, "first")
    assert 0 < results(ending, 9).count("Failure") < 9
    for _ in range(9):
        ending.pass_time(promotions.NEXT_PLAN)
    assert results(ending, 9) == ["Failure"] * 9, "those, too, that were too many to be at hand"


def test_runs_when_only_reports_of_engines_end_them_then_those_that_were_too_many_to_be_at_hand_have_their_turn(
    ending: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No command comes, and no time passes."""
    monkeypatch.setattr(dormancy, "WAITING_KEPT", 2)
    ending.world.policy = replace(ending.world.policy, limits=REGISTRY.limits({PROMOTION_RUN.kind: 1}))
    ending.run("first")
    hopeless(ending, 1, 8)
    ending.bind("two", answered="two", generation=2)
    assert results(ending, 7) == [None] * 7
    for health in ("Healthy", "Progressing", "Healthy"):
        ending.deploy(health=health)
    assert results(ending, 7) == ["Failure"] * 7


def test_runs_when_those_that_are_complete_are_too_many_then_others_wait_until_one_is_deleted(
    ending: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "COMPLETE_AT_HAND", 1)
    monkeypatch.setattr(quotas, "TIMES_WITH_COMPLETE", 3)
    ending.world.policy = replace(ending.world.policy, limits=REGISTRY.limits({PROMOTION_RUN.kind: 1}))
    hopeless(ending, 1, 6)
    assert results(ending, 5) == ["Failure"] * 3 + [None] * 2
    assert "1 PromotionRuns that are not complete (10 times as many with those that are)" in ending.error("run-004")[1]
    ending.gone(PROMOTION_RUN.kind, "run-001")
    assert [ending.status(f"run-00{number}").get("completionResult") for number in (4, 5)] == ["Failure", None]


def results(shop: Shop, last: int) -> list[str | None]:
    """Of hopeless runs."""
    return [shop.status(f"run-{number:03}").get("completionResult") for number in range(1, last + 1)]


def test_bindings_when_runs_are_looked_at_again_and_again_then_each_version_of_a_status_is_read_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(model: type[BindingStatus], row: PlainResource) -> BindingStatus:
        read.append(row.name)
        return status_of(model, row)

    monkeypatch.setattr(bound_snapshots, "status_of", noted)
    shop.bind("one", "prod", answered="one")
    shop.run()
    for _ in range(3):
        shop.deploy("dev")
    assert set(read) == {"shop-dev", "shop-prod"}
    read.clear()
    for _ in range(3):
        shop.deploy("dev")
    assert read == []
    shop.bind("two", answered="two", generation=2)
    assert set(read) == {"shop-dev"}


def test_run_when_it_waits_for_an_environment_then_deployments_of_no_other_one_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(dev="Manual", qa="Manual", prod="Manual")
    for environment in ("dev", "qa", "prod"):
        shop.bind("one", environment, answered="one")
        shop.deploy(environment)
    looked_at: list[str] = []

    def noted(state: TenantState, name: str) -> DeploymentState:
        looked_at.append(name)
        return state_named(state, name)

    monkeypatch.setattr(bound_snapshots, "state_named", noted)
    shop.run()
    assert len(set(looked_at)) == 3 * len(COMPONENTS), "what is deployed anywhere is no answer to the snapshot"
    shop.bind("two", answered="two", generation=2)
    looked_at.clear()
    shop.deploy("qa")
    assert set(looked_at) == {f"shop-dev-shop-dev-{name}" for name in COMPONENTS}
    shop.deploy("dev")
    assert shop.status()["state"] == "Complete"


class Noted(PlainResource):
    """A row that notes when anything of it is read."""

    looked_at: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            Noted.looked_at.add(object.__getattribute__(self, "name"))
        return object.__getattribute__(self, name)


def noted(number: int, like: PlainResource, **changes: Any) -> Noted:
    given = {each.name: getattr(like, each.name) for each in fields(like)}
    name = f"other-{number}"
    return Noted(**given | {"id": UUID(int=number), "name": name, "uid": name} | changes)


@pytest.mark.parametrize("over_quota", [False, True], ids=["within-the-quota", "beyond-it"])
@pytest.mark.parametrize("kind", [SNAPSHOT, BINDING, APPLICATION], ids=lambda each: each.kind)
def test_run_when_its_tenant_has_thousands_of_what_it_does_not_name_then_none_of_these_is_looked_at(
    shop: Shop, kind: ApiResource, over_quota: bool
) -> None:
    shop.run()
    (state,) = shop.world.memory.values()
    like = next(iter(state.plain_resources_of_kind(kind.kind).values()))
    pairs = ({**json.loads(like.spec), "environment": f"e-{number}"} for number in range(2000))
    specs = (json.dumps(pair) if kind is BINDING else like.spec for pair in pairs)
    rows = (noted(number, like, spec=spec, over_quota=over_quota) for number, spec in enumerate(specs))
    state = state.with_plain_resources(*rows)
    wanted = PromotionRunSpec.model_validate(
        {"application": "shop", "snapshot": "two", "manualPromotion": {"targetEnvironment": "dev"}}
    )
    first = progress(wanted, "dev", surroundings(state))
    assert isinstance(first.order, SnapshotOrder)
    state.reset_baseline()
    (environment,) = state.plain_resources_of_kind(ENVIRONMENT.kind).values()
    Noted.looked_at.clear()
    later = state.with_plain_resources(replace(environment, generation=7))
    assert (progress(wanted, "dev", surroundings(later)), len(Noted.looked_at)) == (first, 0)


def test_values_on_demand_when_all_are_asked_for_then_that_is_refused() -> None:
    """As that would make all of them."""
    made: list[str] = []
    values = OnDemand[str, str](lambda key: made.append(key) or (key if key == "there" else None))  # type: ignore[func-returns-value]
    assert (values["there"], "there" in values, values.get("there")) == ("there", True, "there")
    assert ("absent" in values, values.get("absent"), values.get("absent", "")) == (False, None, "")
    with pytest.raises(KeyError, match="absent"):
        values["absent"]
    with pytest.raises(TypeError, match="not iterable"):
        iter(values)  # type: ignore[call-overload]
    assert made == ["there", "absent"], "each once"


def test_runs_when_they_are_complete_then_the_newest_are_at_hand_and_the_others_cost_nothing(
    ending: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "COMPLETE_AT_HAND", 3)
    hopeless(ending, 1, 10)
    assert runs(ending) == {f"run-{number:03}": True for number in (7, 8, 9)}
    (kept,) = ending.world.memory.values()
    assert {row.name for row in kept.plain_resources_of_kind(PROMOTION_RUN.kind).values()} == runs(ending).keys()
    ending.run("open")
    assert ending.status("open")["state"] == "Active", "none of them counts"
    assert ending.status("run-001")["completionResult"] == "Failure", "and all of them say what they said"


def test_run_when_it_is_complete_for_long_then_it_can_be_told_again_and_goes_when_it_is_deleted(
    ending: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "COMPLETE_AT_HAND", 1)
    hopeless(ending, 1, 4)
    told = {"created_at": created(1), "recalled": json.dumps(ending.status("run-001"))}
    ending.run("run-001", snapshot="of-blog", epoch=9, **told)
    assert runs(ending) == {"run-003": True}
    ending.gone(PROMOTION_RUN.kind, "run-001")
    assert {row.name for row in ending.world.resources.values() if row.kind == PROMOTION_RUN.kind} == {
        "run-002",
        "run-003",
    }


def test_run_when_it_is_complete_for_long_then_its_row_does_not_keep_what_its_snapshot_was_compared_with(
    ending: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "COMPLETE_AT_HAND", 1)
    ending.run("first")
    promoted(ending, "dev")
    (before,) = progress_of(ending, "first")
    assert before["reported"]
    hopeless(ending, 1, 2)
    (after,) = progress_of(ending, "first")
    assert (after["reported"], after["deployed"], after["status"]) == (None, [], "Success")
    assert (bool(before["images"]), after["images"]) == (True, "")


def progress_of(shop: Shop, name: str) -> list[dict[str, Any]]:
    """The steps that the row of a run keeps."""
    (row,) = [row for row in shop.world.resources.values() if (row.kind, row.name) == (PROMOTION_RUN.kind, name)]
    return json.loads(row.progress)["steps"]  # type: ignore[no-any-return]
