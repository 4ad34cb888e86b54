"""What tenants' Applications say of their engine instance, and which of them say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.agent.health.applications import Refreshes, StandingQueue, applications_signal
from services.agent.health.signals import ApplicationsSignal, Signals
from services.agent.objects.live import LiveObject, live_object
from services.agent.objects.managed_kinds import APPLICATION_KIND, ObjectKey
from services.agent.objects.reconciliation import REFRESH, SKIP
from services.common.times import rfc3339

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WITHIN = timedelta(minutes=3)


def ago(**duration: float) -> str:
    return rfc3339(NOW - timedelta(**duration))


def application(
    reconciled: str = "",
    created: str = ago(days=1),
    project: str = "one",
    error: str = "",
    refusal: str = "",
    written: Sequence[Mapping[str, object]] = (),
    **annotations: str,
) -> LiveObject:
    """``written``: by whom which of its fields, and when, as the API server notes it."""
    told = {"ComparisonError": error, "InvalidSpecError": refusal}
    conditions = [{"type": type_, "message": message} for type_, message in told.items() if message]
    manifest = {
        "metadata": {
            "uid": "uid",
            "resourceVersion": "1",
            "creationTimestamp": created,
            "annotations": {name.replace("_", "-"): value for name, value in annotations.items()},
            "managedFields": [*written],
        },
        "spec": {"project": project},
        "status": {"reconciledAt": reconciled, "conditions": conditions},
    }
    return live_object(APPLICATION_KIND, manifest)


def measured(
    *found: LiveObject, within: timedelta | None = WITHIN, refreshes: Refreshes | None = None, later: float = 0
) -> ApplicationsSignal:
    by_key = {ObjectKey("Application", "argocd", str(number)): each for number, each in enumerate(found)}
    at = NOW + timedelta(seconds=later)
    return applications_signal(by_key, refreshes or Refreshes(), at, within)


def test_application_when_it_was_not_compared_in_time_then_it_is_late() -> None:
    found = measured(application(ago(minutes=6)), application(ago(minutes=8)))
    assert (found.total, found.late, found.late_of_others, found.waiting) == (2, 1, 1, 0)


def test_applications_when_argocd_refuses_them_then_none_is_late_and_each_counts_as_one_that_cannot_be_compared() -> (
    None
):
    """As when a token has expired, or an environment's Secret is gone: Argo CD looks at them, and writes no time."""
    refusal = "application repo https://git.example/shop.git is not permitted in project 'app-project-one'"
    refused = (application(ago(days=2), refusal=refusal), application(created=ago(days=2), refusal=refusal))
    found = measured(*refused, application(ago(seconds=5), project="two"), application(ago(seconds=5), project="three"))
    assert (found.late, found.late_share, found.late_tenants, found.waiting) == (0, 0.0, 0, 0)
    assert (found.comparison_errors, found.failing_tenants, found.comparison_p95_ms) == (2, 1, 5_000)


def test_application_when_argocd_does_not_compare_by_itself_then_none_that_was_compared_is_late() -> None:
    assert measured(application(ago(days=8)), within=None).late == 0


@pytest.mark.parametrize(("within", "minutes"), [(WITHIN, 7), (timedelta(minutes=12), 16), (None, 4)])
def test_application_when_it_was_never_compared_then_it_is_late_once_argocd_could_not_keep_an_error_to_itself(
    within: timedelta | None, minutes: int
) -> None:
    """For three minutes it does, and tells it with the next comparison."""
    new, other = application(created=ago(minutes=minutes)), application(created=ago(minutes=minutes, seconds=1))
    found = measured(new, other, within=within)
    assert (found.late, found.waiting) == (1, 2)


def test_applications_when_some_are_late_then_each_tenant_weighs_the_same_however_many_it_has() -> None:
    late, in_time = ago(minutes=8), ago(minutes=1)
    found = measured(
        *[application(late, project="app-project-one") for _ in range(19)],
        application(late, project="app-project-one-cluster"),
        application(late, project="app-project-two"),
        application(in_time, project="app-project-two"),
        application(in_time, project="app-project-three"),
    )
    assert (found.total, found.late, found.late_of_others) == (23, 21, 8), "a third of three others'"
    assert (found.tenants, found.late_tenants, found.late_share) == (3, 2, 0.5)
    assert (measured().tenants, measured().late_share) == (0, 0)


def test_applications_when_those_of_the_largest_tenant_are_late_then_the_share_of_the_others_counts() -> None:
    found = measured(
        *(application(ago(minutes=8 if each % 2 else 1), project="large") for each in range(500)),
        *(application(ago(minutes=8 if each % 2 else 1), project="small") for each in range(10)),
    )
    assert (found.total, found.late, found.late_of_others) == (510, 255, 255)
    one = [application(ago(minutes=8), project="one") for _ in range(3)]
    alone = measured(*one, application(ago(minutes=1), project="two"))
    assert (alone.late, alone.late_of_others) == (3, 0)


def test_application_when_argocd_is_to_leave_it_alone_then_it_is_not_counted() -> None:
    paused = application(ago(days=1), **{SKIP: "true"})
    assert measured(paused).total == 0


def test_refresh_when_it_is_not_taken_up_then_it_is_told_how_long_it_waits_since_it_was_seen() -> None:
    asked, refreshes = application(ago(minutes=1), **{REFRESH: "normal"}), Refreshes()
    assert measured(asked, refreshes=refreshes).waits_seconds == (0.0,)
    assert measured(asked, refreshes=refreshes, later=40).waits_seconds == (40.0,)
    assert measured(application(ago(minutes=1)), refreshes=refreshes, later=50).waits_seconds == ()
    assert measured(asked, refreshes=refreshes, later=60).waits_seconds == (0.0,)


def written(at: object, *annotations: str, manager: str = "argocd-server") -> Mapping[str, object]:
    fields = {f"f:{name}": {} for name in annotations}
    return {
        "manager": manager,
        "operation": "Update",
        "time": at,
        "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, **fields}}},
    }


WRITTEN: Mapping[str, tuple[Sequence[Mapping[str, object]], float]] = {
    "nobody": ((), 0),
    "somebody": ((written(ago(seconds=400), REFRESH),), 400),
    "somebody else something else": ((written(ago(seconds=900), "other"), written(ago(seconds=400), REFRESH)), 400),
    "two": ((written(ago(seconds=400), REFRESH), written(ago(seconds=100), REFRESH, manager="kubectl")), 400),
    "a clock that is ahead": ((written(ago(seconds=-30), REFRESH),), 0),
    "no time": ((written(None, REFRESH),), 0),
    "a time of no time zone": ((written("2026-01-01T11:00:00", REFRESH),), 0),
    "other fields": (({"time": ago(seconds=400), "fieldsV1": {"f:spec": {}}}, {"fieldsV1": 7}, {}), 0),
}


@pytest.mark.parametrize(("noted", "waited"), WRITTEN.values(), ids=WRITTEN)
def test_refresh_when_another_agent_has_seen_it_before_then_it_waits_since_the_api_server_has_noted_it(
    noted: Sequence[Mapping[str, object]], waited: float
) -> None:
    asked = application(ago(minutes=20), written=noted, **{REFRESH: "normal"})
    assert measured(asked).waits_seconds == (waited,)


def test_refresh_when_it_is_asked_for_again_while_it_waits_then_it_waits_since_it_was_first() -> None:
    refreshes = Refreshes()
    for second, kind in ((400, "normal"), (100, "hard")):
        asked = application(ago(minutes=20), written=[written(ago(seconds=second), REFRESH)], **{REFRESH: kind})
        assert measured(asked, refreshes=refreshes).waits_seconds == (400,)


def test_refresh_when_it_was_taken_up_then_the_time_of_the_last_one_does_not_count() -> None:
    compared = application(ago(minutes=1), written=[written(ago(seconds=400), "other")])
    assert compared.reconciliation.asked_at is None
    assert measured(compared).waits_seconds == ()


def test_refreshes_when_several_tenants_wait_for_them_then_each_is_told_once_with_its_longest() -> None:
    refreshes = Refreshes()
    first, second, third = (
        application(ago(minutes=1), project=each, **{REFRESH: "hard"}) for each in ("one", "one", "two")
    )
    assert measured(first, refreshes=refreshes).waits_seconds == (0.0,)
    assert sorted(measured(first, second, third, refreshes=refreshes, later=40).waits_seconds) == [0.0, 40.0]


def synced(began: str, ended: str, phase: str = "Succeeded", project: str = "one") -> LiveObject:
    manifest = {
        "metadata": {"uid": "1", "resourceVersion": "1", "creationTimestamp": ago(days=1)},
        "spec": {"project": project},
        "status": {"operationState": {"phase": phase, "startedAt": began, "finishedAt": ended}},
    }
    return live_object(APPLICATION_KIND, manifest)


def test_syncs_when_some_have_failed_then_these_are_counted_and_the_times_of_those_that_ended_of_late() -> None:
    found = measured(
        synced(ago(minutes=2), ago(minutes=1)),
        synced(ago(minutes=2), ago(minutes=1, seconds=50), "Failed"),
        synced(ago(days=2), ago(days=1), "Error"),
        synced(ago(minutes=1), "", "Running"),
        synced(ago(minutes=9), ago(minutes=7), project="two"),
    )
    assert (found.failed_syncs, found.sync_p95_ms) == (2, 60_000)


def test_syncs_when_those_of_one_tenant_take_long_then_they_are_left_out_and_no_other_time_is_hidden() -> None:
    hooked = synced(ago(minutes=10), ago(minutes=1))
    assert measured(hooked).sync_p95_ms is None
    assert measured(hooked, hooked, synced(ago(seconds=9), ago(seconds=5), project="two")).sync_p95_ms == 4_000
    slow = [synced(ago(minutes=9), ago(minutes=1), project=f"project-{number}") for number in range(3)]
    assert measured(hooked, *slow).sync_p95_ms == 480_000


def test_tenants_when_applications_of_theirs_fail_then_each_counts_once_however_many_and_in_whatever_project() -> None:
    found = measured(
        *(application(project="one", error="no such path") for _ in range(9)),
        synced(ago(minutes=2), ago(minutes=1), "Failed", "one-cluster"),
        synced(ago(minutes=2), ago(minutes=1), "Failed", "two"),
        application(ago(minutes=1), project="two"),
        application(ago(minutes=1), project="three"),
    )
    assert (found.tenants, found.failing_tenants) == (3, 2)
    assert (measured().tenants, measured().failing_tenants) == (0, 0)


@pytest.mark.parametrize("began", ["", "yesterday", "2026-01-01T11:59:00", 7])
def test_sync_when_its_time_is_none_then_it_is_left_out(began: Any) -> None:
    assert measured(synced(began, ago(minutes=1)), synced(began, ago(minutes=1), project="two")).sync_p95_ms is None


def test_comparisons_when_they_fail_then_they_are_counted_and_how_old_they_are_is_told() -> None:
    found = measured(*(application(ago(seconds=each)) for each in range(1, 101)), application(error="no such path"))
    assert (found.comparison_errors, found.comparison_p95_ms) == (1, 95_000)
    assert measured().comparison_p95_ms is None


def test_comparisons_when_one_tenant_has_the_oldest_then_its_own_do_not_count_unless_it_is_alone() -> None:
    hanging = [application(ago(days=1), project="one"), application(ago(seconds=1), project="one")]
    assert measured(*hanging, application(ago(seconds=5), project="two")).comparison_p95_ms == 5_000
    assert measured(*hanging).comparison_p95_ms == 86_400_000


UNAVAILABLE = (
    "Failed to load target state: failed to generate manifest for source 1 of 1: "
    'rpc error: code = Unavailable desc = connection error: desc = "dial tcp 10.0.0.1:8081: connection refused"'
)
OF_GIT = "rpc error: code = Unknown desc = failed to list refs: dial tcp 192.0.2.1:443: connect: connection refused"


def test_repo_server_when_it_does_not_answer_then_who_says_so_is_counted_and_errors_of_git_servers_are_not() -> None:
    found = measured(
        application(error=UNAVAILABLE),
        application(error=UNAVAILABLE, project="two"),
        application(error=UNAVAILABLE, project="two"),
        application(error=OF_GIT, project="three"),
    )
    assert (found.lacking_repo_server, found.lacking_tenants, found.lacking_share) == (3, 2, pytest.approx(2 / 3))


@pytest.mark.parametrize("error", [
    "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: code = Unknown desc = "
    f"`helm template .` failed exit status 1: Error: execution error: {UNAVAILABLE}",
    f"Failed to load live state: failed to get cluster info for \"https://cluster.example\": {UNAVAILABLE}",
    "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
], ids=["what a chart says", "what a cluster says", "which may wait for a git server"])  # fmt: skip
def test_repo_server_when_a_tenant_has_written_that_it_does_not_answer_then_that_is_none_of_it(error: str) -> None:
    assert measured(*(application(error=error, project=each) for each in "abc")).lacking_repo_server == 0


def queue(*waiting: int) -> int:
    """What stands in it after these measurements."""
    standing = StandingQueue()
    return [standing.follow(Signals(applications=ApplicationsSignal(waiting=each))) for each in waiting][-1]


def test_queue_when_a_burst_is_over_before_the_report_then_what_stands_is_the_fewest_that_waited() -> None:
    assert (queue(0, 300, 40), queue(40, 300, 50), queue(7)) == (0, 40, 7)


def test_queue_when_it_was_told_then_it_begins_anew_and_what_could_not_be_seen_tells_nothing() -> None:
    standing = StandingQueue()
    standing.follow(Signals(applications=ApplicationsSignal(waiting=3)))
    standing.start_over()
    assert standing.follow(Signals(api_error="no answer")) == 0
    assert standing.follow(Signals(applications=ApplicationsSignal(waiting=9))) == 9
    assert standing.follow(Signals(is_inaccessible=True)) == 9
