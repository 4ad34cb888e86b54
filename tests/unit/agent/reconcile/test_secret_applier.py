"""How an instance holds Secrets that are composed beside it, in virtual time."""

from __future__ import annotations

import asyncio
import base64
import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.agent.credentials.account_cleanups import AT_ONCE
from services.agent.credentials.check_result import CheckResult
from services.common.errors import Permanent, Retry
from services.common.kubernetes import Rejected
from services.common.messages import Applied, Checked, EngineResource, Failed, Removed
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import LABEL, secret_of
from tests.unit.agent.rows import application_row, cluster_row, project_row, repository_row
from tests.unit.fake_clock import EPOCH, settle

NAME = "managed-env-1"
BAD = CheckResult(None, "UnableToLocateContext", "no such context")


def secret(driver: Driver, name: str = NAME) -> dict[str, Any]:
    return driver.cluster.objects["Secret", name]


def value(driver: Driver, key: str, name: str = NAME) -> str:
    return base64.b64decode(secret(driver, name)["data"][key]).decode()


def checked(row: EngineResource, reason: str = "Succeeded", message: str = "") -> Checked:
    return Checked(row.digest, reason, message)


def elsewhere(name: str, row: EngineResource) -> EngineResource:
    """An Application that is deployed to the cluster of ``row``."""
    made = application_row(name, lane=row.lane)
    return replace(made, manifest=made.manifest.replace("in-cluster", row.name))


async def test_secret_when_its_check_succeeds_then_it_is_made_reported_and_acknowledged(driver: Driver) -> None:
    await driver.begin()
    row = cluster_row()
    await driver.apply(row)
    assert value(driver, "server") == "uid-1"
    assert secret(driver)["metadata"]["labels"] == {"argocd.argoproj.io/secret-type": "cluster"} | LABEL
    assert driver.reports.of(NAME) == [checked(row), Applied(row.digest)]
    assert driver.acknowledged == [0]


async def test_secret_when_one_of_its_observations_is_lost_then_both_are_sent_again(driver: Driver) -> None:
    await driver.begin()
    driver.reports.behind = True
    row = cluster_row()
    await driver.apply(row)
    driver.reports.catch_up(arrived=False)
    await settle()
    assert driver.reports.of(NAME) == [checked(row), Applied(row.digest)] * 2
    assert driver.acknowledged == [0]


async def test_secret_when_its_check_fails_then_nothing_is_made_and_it_is_acknowledged(driver: Driver) -> None:
    await driver.begin()
    driver.checker.outcomes[NAME] = BAD
    row = cluster_row()
    await driver.apply(row)
    assert driver.cluster.names("Secret") == []
    assert driver.reports.of(NAME) == [checked(row, BAD.reason, BAD.message)]
    assert driver.acknowledged == [0]


async def test_secret_when_a_newer_row_fails_then_the_former_stays_and_is_still_repaired(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(cluster_row())
    driver.checker.outcomes[NAME] = BAD
    row = cluster_row(uid="uid-2")
    await driver.apply(row)
    driver.cluster.remove("Secret", NAME)
    await settle()
    assert value(driver, "server") == "uid-1"
    assert driver.reports.of(NAME)[-1] == checked(row, BAD.reason, BAD.message)


async def test_secret_when_somebody_edits_or_deletes_it_then_it_is_repaired_at_once_without_asking(
    driver: Driver,
) -> None:
    await driver.begin()
    row = cluster_row()
    await driver.apply(row)
    driver.cluster.edit("Secret", NAME, {"data": {"server": "ZXZpbA==", "shard": "MQ=="}})
    await settle()
    assert value(driver, "server") == "uid-1"
    assert "shard" not in secret(driver)["data"]
    driver.cluster.remove("Secret", NAME)
    await settle()
    assert value(driver, "server") == "uid-1"
    assert driver.reports.of(NAME)[2:] == [Applied(row.digest, drift_repaired=True)] * 2
    assert len(driver.checker.composed) == 1


@pytest.mark.parametrize("change", [{"type": "kubernetes.io/tls"}, {"immutable": True}])
async def test_secret_when_it_cannot_be_changed_back_then_it_is_made_anew(
    driver: Driver, change: dict[str, Any]
) -> None:
    await driver.begin()
    await driver.apply(cluster_row())
    before = secret(driver)["metadata"]["uid"]
    driver.cluster.edit("Secret", NAME, change)
    await settle()
    assert (secret(driver)["type"], secret(driver).get("immutable")) == ("Opaque", None)
    assert secret(driver)["metadata"]["uid"] != before


async def test_secret_when_it_is_taken_over_then_its_present_state_goes_into_the_composition(driver: Driver) -> None:
    row = cluster_row()
    await driver.begin(row)
    await driver.instance.suspend()
    driver.cluster.calls.clear()
    driver.instance.start_work([row])
    await settle()
    assert driver.checker.composed[-1][1] == secret(driver)
    assert driver.cluster.writes() == []
    assert driver.reports.of(NAME)[-1] == checked(row)


CLUSTER_RECIPE: dict[str, Any] = {
    "apiURL": "https://api.example.com",
    "server": "https://api.example.com?managedEnvironment=e1",
    "insecure": False,
    "createServiceAccount": False,
    "namespaces": ["web"],
    "clusterResources": False,
}
SEALED = {"name": "kube", "sealed": "sealed"}


@pytest.mark.parametrize(
    ("row", "scope"),
    [
        (cluster_row(**CLUSTER_RECIPE, secret=SEALED), {"project": "project", "namespaces": "web"}),
        (repository_row(secret=SEALED), {"project": "project"}),
    ],
    ids=["cluster", "repository"],
)
async def test_secret_when_its_check_fails_after_a_take_over_then_it_is_ours_and_its_tenants_again(
    driver: Driver, row: EngineResource, scope: dict[str, str]
) -> None:
    """The agent that knew it to be good is gone, and meanwhile somebody has meddled with it."""
    driver.checker.outcomes[row.name] = CheckResult(secret_of(row, token="good", **scope), "Succeeded", "")
    await driver.begin(project_row(), row)
    before = copy.deepcopy(secret(driver, row.name))
    await driver.instance.suspend()
    driver.checker.outcomes[row.name] = BAD
    stripped = {"labels": dict.fromkeys(before["metadata"]["labels"])}
    everybodys = {"project": "ZGVmYXVsdA==", "clusterResources": "dHJ1ZQ==", "namespaces": None}
    driver.cluster.edit("Secret", row.name, {"metadata": stripped, "data": everybodys})
    driver.instance.start_work([project_row(), row])
    await settle()
    after = secret(driver, row.name)
    assert (after["metadata"]["labels"], after["data"]) == (before["metadata"]["labels"], before["data"])
    assert driver.reports.of(row.name)[-1] == checked(row, BAD.reason, BAD.message)


async def test_composition_when_it_is_repeated_then_only_news_are_reported(driver: Driver) -> None:
    await driver.begin()
    row = cluster_row()
    await driver.apply(row)
    await driver.clock.advance(1900)
    assert len(driver.checker.composed) == 4
    assert driver.reports.of(NAME) == [checked(row), Applied(row.digest)]
    driver.checker.outcomes[NAME] = BAD
    await driver.clock.advance(600)
    assert driver.reports.of(NAME)[2:] == [checked(row, BAD.reason, BAD.message)]
    assert driver.cluster.names("Secret") == [NAME]


async def test_composition_when_it_has_to_be_renewed_then_it_is_and_no_drift_is_reported(driver: Driver) -> None:
    await driver.begin()
    row = cluster_row()
    renewal = EPOCH + timedelta(seconds=100)
    driver.checker.outcomes[NAME] = CheckResult(secret_of(row, token="old"), "Succeeded", "", renewal)
    await driver.apply(row)
    driver.checker.outcomes[NAME] = CheckResult(secret_of(row, token="new"), "Succeeded", "")
    await driver.clock.advance(101)
    assert value(driver, "token") == "new"
    assert driver.reports.of(NAME)[2:] == [Applied(row.digest, drift_repaired=False)]


async def test_composition_when_its_renewal_is_long_due_then_it_does_not_spin(driver: Driver) -> None:
    await driver.begin()
    row = cluster_row()
    driver.checker.outcomes[NAME] = CheckResult(secret_of(row), "Succeeded", "", EPOCH - timedelta(days=1))
    await driver.apply(row)
    await driver.clock.advance(60)
    assert len(driver.checker.composed) == 7


async def test_composition_when_it_takes_long_then_no_worker_is_held_and_nobody_else_waits(driver: Driver) -> None:
    await driver.begin()
    rows = [cluster_row(f"managed-env-{number}") for number in range(30)]
    for row in rows:
        driver.checker.gates[row.name] = asyncio.Event()
    await driver.apply(*rows, project_row(), application_row(), application_row("other", lane="other-lane"))
    assert driver.cluster.names("Application") == ["app", "other"]
    assert driver.instance.pending == 0
    assert driver.checker.in_flight == 30


async def test_application_when_its_cluster_is_still_checked_then_it_comes_right_after_the_secret(
    driver: Driver,
) -> None:
    await driver.begin()
    gate = driver.checker.gates[NAME] = asyncio.Event()
    row = cluster_row()
    await driver.apply(row, elsewhere("app", row), application_row("another"))
    assert driver.cluster.names("Application") == ["another"]
    gate.set()
    await settle()
    assert driver.cluster.writes()[-2:] == [("create", NAME), ("create", "app")]


async def test_application_when_the_check_of_its_cluster_fails_then_it_comes_all_the_same(driver: Driver) -> None:
    await driver.begin()
    driver.checker.outcomes[NAME] = BAD
    row = cluster_row()
    await driver.apply(row, elsewhere("app", row))
    assert driver.cluster.names("Application") == ["app"]


@pytest.mark.parametrize(
    "repository", ["https://example.com/repo", "https://EXAMPLE.com/repo.git", " https://example.com/repo "]
)
async def test_application_when_its_repository_is_still_checked_then_it_waits(driver: Driver, repository: str) -> None:
    await driver.begin()
    driver.checker.gates["repo-cred-1"] = asyncio.Event()
    await driver.apply(repository_row(repository=repository), application_row())
    assert driver.cluster.names("Application") == []


async def test_application_when_another_tenant_checks_the_same_repository_then_it_does_not_wait(
    driver: Driver,
) -> None:
    await driver.begin()
    driver.checker.gates["repo-cred-1"] = asyncio.Event()
    await driver.apply(repository_row(lane="other-lane"), application_row())
    assert driver.cluster.names("Application") == ["app"]


async def test_application_when_its_secret_is_there_already_then_a_new_check_does_not_hold_it(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(cluster_row())
    driver.checker.gates[NAME] = asyncio.Event()
    row = cluster_row(uid="uid-2")
    await driver.apply(row, elsewhere("app", row))
    assert driver.cluster.names("Application") == ["app"]


async def test_application_when_the_row_it_waits_for_goes_then_it_waits_no_longer(driver: Driver) -> None:
    await driver.begin()
    driver.checker.gates[NAME] = asyncio.Event()
    row = cluster_row()
    await driver.apply(row, elsewhere("app", row))
    await driver.apply(replace(row, deleted=True))
    assert driver.cluster.names("Application") == ["app"]
    assert driver.acknowledged == [0, 1, 2]


async def test_newer_row_when_the_former_is_still_composed_then_only_the_newest_counts(driver: Driver) -> None:
    await driver.begin()
    gate = driver.checker.gates[NAME] = asyncio.Event()
    await driver.apply(*(cluster_row(uid=f"uid-{number}") for number in range(5)))
    gate.set()
    await settle()
    assert value(driver, "server") == "uid-4"
    assert driver.checker.in_flight == 0
    assert driver.acknowledged == list(range(5))


async def test_composition_when_we_are_in_trouble_then_it_is_tried_again(driver: Driver) -> None:
    await driver.begin()
    driver.checker.outcomes[NAME] = Retry("no socket left")
    await driver.apply(cluster_row())
    assert driver.acknowledged == []
    del driver.checker.outcomes[NAME]
    await driver.clock.advance(2)
    assert driver.acknowledged == [0]


async def test_row_when_it_is_not_one_that_can_be_composed_then_it_is_refused(driver: Driver) -> None:
    await driver.begin()
    driver.checker.outcomes[NAME] = Permanent("no recipe")
    row = cluster_row()
    await driver.apply(row)
    assert driver.reports.of(NAME) == [Failed(row.digest, permanent=True, message="no recipe")]
    assert driver.acknowledged == [0]


async def test_composition_when_it_fails_in_an_unforeseen_way_then_only_its_row_suffers_and_nothing_is_quoted(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    await driver.begin()
    driver.checker.outcomes[NAME] = ValueError("hunter2")
    await driver.apply(cluster_row(), application_row())
    [event] = driver.reports.of(NAME)
    assert isinstance(event, Failed)
    captured = capsys.readouterr()
    assert "hunter2" not in event.message + captured.out + captured.err
    assert driver.cluster.names("Application") == ["app"]


async def test_secret_when_the_api_server_refuses_it_then_what_it_quotes_is_kept_back(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    await driver.begin()
    driver.cluster.refusing[NAME] = Rejected("denied: hunter2", 403)
    await driver.apply(cluster_row())
    await driver.clock.advance(90)
    [event] = driver.reports.of(NAME)
    assert isinstance(event, Failed)
    assert "403" in event.message
    assert "hunter2" not in event.message
    captured = capsys.readouterr()
    assert "hunter2" not in captured.out + captured.err


async def test_secret_when_a_refused_repair_succeeds_at_last_then_the_outcome_of_its_check_is_told_again(
    driver: Driver,
) -> None:
    await driver.begin()
    row = cluster_row()
    await driver.apply(row)
    driver.cluster.refusing[NAME] = Rejected("denied", 422)
    driver.cluster.edit("Secret", NAME, {"data": {"server": "ZXZpbA=="}})
    await settle()
    assert isinstance(driver.reports.of(NAME)[-1], Failed)
    del driver.cluster.refusing[NAME]
    await driver.clock.advance(300)
    assert value(driver, "server") == "uid-1"
    assert driver.reports.of(NAME)[-2:] == [checked(row), Applied(row.digest, drift_repaired=True)]


@pytest.mark.parametrize("taken_over", [False, True])
async def test_secret_when_its_recipe_changes_and_the_check_fails_then_the_former_stays_untouched_and_whole(
    driver: Driver, taken_over: bool
) -> None:
    await driver.begin()
    row = cluster_row()
    content = {"name": NAME, "project": "project-cluster", "clusterResources": "true"}
    driver.checker.outcomes[NAME] = CheckResult(secret_of(row, **content), "Succeeded", "")
    await driver.apply(row)
    before = copy.deepcopy(secret(driver))
    if taken_over:
        await driver.instance.suspend()
        driver.instance.start_work([row])
    driver.checker.outcomes[NAME] = BAD
    changed = cluster_row(clusterResources=False)
    await driver.apply(changed)
    await driver.clock.advance(3600)
    assert secret(driver) == before
    assert driver.reports.of(NAME)[-1] == checked(changed, BAD.reason, BAD.message)


async def test_composition_when_it_fails_then_it_is_tried_again_within_a_minute_and_a_good_one_after_ten(
    driver: Driver,
) -> None:
    await driver.begin()
    driver.checker.outcomes[NAME] = BAD
    await driver.apply(cluster_row())
    await driver.clock.advance(29)
    assert len(driver.checker.composed) == 1
    await driver.clock.advance(31)
    assert len(driver.checker.composed) == 2
    del driver.checker.outcomes[NAME]
    await driver.clock.advance(60)
    assert driver.cluster.names("Secret") == [NAME]
    known = len(driver.checker.composed)
    await driver.clock.advance(500)
    assert len(driver.checker.composed) == known


async def test_absent_secret_when_the_api_server_does_not_show_it_then_its_cluster_is_not_given_up(
    driver: Driver,
) -> None:
    await driver.begin(cluster_row())
    driver.cluster.failing = Retry("silent")
    await driver.apply(cluster_row(desired="absent"))
    await driver.clock.advance(600)
    driver.cluster.failing = None
    await driver.clock.advance(60)
    assert driver.checker.disposed == [NAME]
    assert driver.reports.of(NAME)[-1] == Removed(forced=False)


async def test_absent_secret_when_its_turn_comes_then_it_is_disposed_then_deleted_then_reported(
    driver: Driver,
) -> None:
    row = cluster_row()
    await driver.begin(row)
    gate = driver.checker.gates[NAME] = asyncio.Event()
    await driver.apply(cluster_row(desired="absent"), application_row())
    assert driver.cluster.names("Secret") == [NAME]
    assert driver.cluster.names("Application") == ["app"]
    there = copy.deepcopy(secret(driver))
    gate.set()
    await settle()
    assert driver.cluster.names("Secret") == []
    assert driver.checker.disposed == [NAME]
    assert driver.checker.removed_with == [there]
    assert driver.reports.of(NAME)[-1] == Removed(forced=False)
    assert driver.acknowledged == [0, 1]


async def test_absent_secret_when_applications_are_still_going_then_it_is_not_disposed_yet(driver: Driver) -> None:
    await driver.begin(cluster_row(), application_row())
    await driver.apply(application_row(desired="absent"), cluster_row(desired="absent"))
    assert driver.checker.disposed == []
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": None}})
    await settle()
    assert driver.checker.disposed == [NAME]
    assert driver.cluster.objects == {}


async def test_absent_secret_when_its_cluster_is_silent_then_it_is_given_up_at_the_deadline(driver: Driver) -> None:
    await driver.begin(cluster_row())
    driver.checker.removal_errors[NAME] = Retry("silent")
    await driver.apply(cluster_row(desired="absent"))
    await driver.clock.advance(59)
    assert driver.cluster.names("Secret") == [NAME]
    await driver.clock.advance(2)
    assert driver.reports.of(NAME)[-1] == Removed(forced=True)
    assert driver.checker.disposed[-1] == NAME
    assert driver.acknowledged == [0]


async def test_absent_secret_when_its_deadline_is_long_over_then_it_gets_one_attempt(driver: Driver) -> None:
    await driver.begin(cluster_row())
    driver.checker.removal_errors[NAME] = Retry("silent")
    await driver.clock.advance(3600)
    await driver.apply(cluster_row(desired="absent"))
    assert driver.checker.disposed == [NAME]
    assert driver.reports.of(NAME)[-1] == Removed(forced=True)


async def test_absent_secrets_when_their_clusters_are_silent_then_few_of_a_tenant_are_tried_and_all_end_in_time(
    driver: Driver,
) -> None:
    names = [f"managed-env-{number}" for number in range(50)]
    await driver.begin(*(cluster_row(name) for name in names), cluster_row("other", lane="other"))
    await driver.clock.advance(3600)
    for name in names:
        driver.checker.gates[name] = asyncio.Event()
    await driver.apply(*(cluster_row(name, "absent") for name in names), cluster_row("other", "absent", "other"))
    await settle()
    assert len(driver.checker.disposed) == AT_ONCE + 1
    assert "other" not in driver.cluster.names("Secret")
    await driver.clock.advance(61)
    assert len(driver.cluster.names("Secret")) == AT_ONCE  # their attempts have not ended
    assert len(driver.checker.disposed) == AT_ONCE + 1
    for gate in driver.checker.gates.values():
        gate.set()
    await settle()
    assert driver.cluster.names("Secret") == []


async def test_absent_secret_when_the_ones_before_it_have_gone_then_its_turn_comes(driver: Driver) -> None:
    names = [f"managed-env-{number}" for number in range(20)]
    await driver.begin(*(cluster_row(name) for name in names))
    await driver.apply(*(cluster_row(name, "absent") for name in names))
    await settle()
    await settle()
    assert sorted(driver.checker.disposed) == sorted(names)
    assert driver.cluster.names("Secret") == []


async def test_absent_secret_when_nothing_was_made_for_it_then_it_goes_at_once_whatever_is_before_it(
    driver: Driver,
) -> None:
    silent = [f"silent-{number}" for number in range(2 * AT_ONCE)]
    await driver.begin(*(cluster_row(name) for name in silent), cluster_row())
    for name in silent:
        driver.checker.gates[name] = asyncio.Event()
    driver.checker.without_account = {NAME}
    await driver.apply(*(cluster_row(name, "absent") for name in silent), cluster_row(desired="absent"))
    assert NAME not in driver.checker.disposed
    assert driver.reports.of(NAME)[-1] == Removed(forced=False)


async def test_absent_secrets_when_the_instance_is_suspended_then_nobody_waits_in_line(driver: Driver) -> None:
    names = [f"managed-env-{number}" for number in range(2 * AT_ONCE)]
    await driver.begin(*(cluster_row(name) for name in names))
    for name in names:
        driver.checker.gates[name] = asyncio.Event()
    await driver.apply(*(cluster_row(name, "absent") for name in names))
    await driver.instance.suspend()
    assert driver.checker.in_flight == 0
    assert len(driver.checker.disposed) == AT_ONCE


async def test_secret_when_it_is_wanted_again_while_going_then_it_is_composed_again(driver: Driver) -> None:
    await driver.begin(cluster_row())
    gate = driver.checker.gates[NAME] = asyncio.Event()
    await driver.apply(cluster_row(desired="absent"))
    await driver.apply(cluster_row(uid="uid-2"))
    gate.set()
    await settle()
    assert value(driver, "server") == "uid-2"
    assert driver.checker.in_flight == 0
    assert driver.acknowledged == [0, 1]


async def test_suspended_instance_when_compositions_run_then_they_end(driver: Driver) -> None:
    await driver.begin()
    driver.checker.gates[NAME] = asyncio.Event()
    driver.checker.gates["managed-env-2"] = asyncio.Event()
    await driver.apply(cluster_row(), cluster_row("managed-env-2", "absent"))
    assert driver.checker.in_flight == 2
    await driver.instance.suspend()
    assert driver.checker.in_flight == 0
    await driver.clock.advance(3600)
    assert len(driver.checker.composed) == 1


async def test_orphaned_secret_when_it_is_not_argo_cds_then_it_is_left_alone(driver: Driver) -> None:
    driver.cluster.objects["Secret", "ours"] = {
        "kind": "Secret",
        "metadata": {"name": "ours", "namespace": "argocd", "uid": "u", "resourceVersion": "1", "labels": dict(LABEL)},
    }
    await driver.begin(cluster_row(), application_row())
    await driver.clock.advance(3600)
    assert "ours" in driver.cluster.names("Secret")


async def test_row_when_it_names_a_secret_itself_then_it_is_refused_and_the_composed_one_stays(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(cluster_row())
    await driver.apply(replace(cluster_row(), kind="Secret"))
    assert isinstance(driver.reports.of(NAME)[-1], Failed)
    driver.cluster.remove("Secret", NAME)
    await settle()
    assert driver.cluster.names("Secret") == [NAME]
