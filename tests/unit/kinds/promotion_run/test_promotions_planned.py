"""Promotion runs in the planner: rows in, statuses and changes of bindings out, and time that passes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.gitops_deployment.catalogue import REPOSITORY_NEEDS_LOGIN
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.rules import TIME_TO_ANSWER, TIME_TO_NOTICE
from services.kinds.registry import REGISTRY
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.policy import Policy
from services.planner.rows import ChildRow
from tests.unit.planner.given import Failed, StatusReported, at, changed, observed, resource, resource_gone, spec
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
            self.take(SNAPSHOT.kind, name, {"application": "shop"})

    def take(self, kind: str, name: str, content: dict[str, Any], **parts: Any) -> None:
        self.second += 1
        self.world.take(resource(self.second, kind, name, content, **parts))

    def gone(self, kind: str, name: str) -> None:
        self.second += 1
        self.world.take(resource_gone(self.second, kind, name))

    def pass_time(self, time: timedelta) -> None:
        self.world.later += time
        while self.world.take_due():
            pass

    def run(self, name: str = "run", target: str = "dev", snapshot: str = "two", **parts: Any) -> None:
        promotion = parts.pop("promotion", {"manualPromotion": {"targetEnvironment": target}})
        content = {"application": "shop", "snapshot": snapshot} | promotion
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


def test_run_when_conditions_alone_are_written_then_no_commit_is_named_anew(silent: Shop) -> None:
    """As after the build service has failed to push, and tried again."""
    silent.bind("two", answered="one", generation=2, condition="True")
    assert silent.status()["state"] == "Active"


@pytest.fixture
def down() -> Shop:
    """Where the build service was gone when snapshot two came, which has other images, and a run has failed."""
    shop = Shop()
    for snapshot in ("one", "two"):
        images = [{"name": each, "containerImage": f"registry.example.com/{each}:{snapshot}"} for each in COMPONENTS]
        shop.take(SNAPSHOT.kind, snapshot, {"application": "shop", "components": images})
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
    images = {"api": "registry.example.com/api:three", "web": "registry.example.com/web:two"}
    content = [{"name": name, "containerImage": image} for name, image in images.items()]
    down.take(SNAPSHOT.kind, "three", {"application": "shop", "components": content})
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


def test_run_when_its_snapshot_is_beyond_the_quota_then_it_says_so() -> None:
    shop = Shop()
    shop.world.policy = replace(shop.world.policy, limits=REGISTRY.limits({SNAPSHOT.kind: 2}))
    shop.take(SNAPSHOT.kind, "three", {"application": "shop"})
    shop.run(snapshot="three")
    assert shop.error() == (
        "True",
        "Snapshot 'three' is beyond the quota of this namespace; delete older Snapshots",
    )
    shop.gone(SNAPSHOT.kind, "one")
    assert (shop.error()[0], list(shop.orders)) == ("False", ["shop-dev-generated-binding"])


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
    under_way = {"state": "Active", "promotionStartTime": "2026-05-04T12:00:00Z", "environmentStatus": [
        {"step": 1, "environmentName": "dev", "status": "In Progress", "displayStatus": ""}]}  # fmt: skip
    rebuilt.second = 1_000_000
    rebuilt.run("second", recalled=json.dumps(under_way))
    assert list(rebuilt.orders) == ["shop-dev"]


def test_run_when_a_lost_database_has_begun_it_again_then_its_status_ends_it_before_it_does_anything(
    shop: Shop,
) -> None:
    """The log tells of its beginning first, and nothing is streamed before the log is read."""
    shop.run("first")
    assert shop.orders
    complete = {"state": "Complete", "completionResult": "Success", "environmentStatus": []}
    shop.run("first", recalled=json.dumps(complete), epoch=9)
    assert (shop.orders, shop.status("first")["state"]) == ({}, "Complete")


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
