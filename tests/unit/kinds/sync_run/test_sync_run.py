"""One sync each, one at a time, in order, never twice."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.messages import SyncMoved
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.registry import REGISTRY
from services.kinds.shared.conditions import Refused
from services.kinds.shared.resource import PlainResource
from services.kinds.sync_run.catalogue import TERMINATED_FOR_MOVE
from services.kinds.sync_run.model import SYNC_RUN
from services.kinds.sync_run.rows import SyncRun
from services.kinds.sync_run.rules import ACTIVE, arrange, first_seen, moved, revision_to_sync, terminated_for_move
from services.kinds.sync_run.status import NEVER_RUNS, recalled, sync_status
from services.kinds.sync_run.validation import accept
from tests.unit.kinds.given import conditions, deployment, id_of, inputs, sync

MISSING = "Unable to retrieve GitOpsDeployment 'web' referenced by the GitOpsDeploymentSyncRun"
AUTOMATED = "invalid GitOpsDeploymentSyncRun 'a'. Syncing a GitOpsDeployment with Automated sync policy is not allowed"
NAME_CHANGED = "deployment name field is immutable: changing it from its initial value is not supported"
REVISION_CHANGED = "revision change is not supported: changing it from its initial value is not supported"
TERMINATED = TERMINATED_FOR_MOVE.message
DELETED = "the GitOpsDeployment was deleted before the sync ended"
NOT_ACCEPTED = "waiting until the GitOpsDeployment has been accepted; see its conditions"
LIMITS = REGISTRY.limits()
FINE = {"ErrorOccurred": ("False", "", "")}


def error(message: str) -> dict[str, tuple[str, str, str]]:
    return {"ErrorOccurred": ("True", "ErrorOccurred", message)}


def event(phase: str, message: str = "", revision: str = "", finished_at: str = "") -> SyncMoved:
    return SyncMoved("uid-a", phase, message, revision, "2026-05-04T12:00:00Z", finished_at)


def waiting(name: str = "a", spec: dict[str, Any] | None = None, **changes: Any) -> tuple[PlainResource, SyncRun]:
    resource = sync(name, spec, **changes)
    return resource, first_seen(resource)


def arranged(
    *runs: tuple[PlainResource, SyncRun], target: Deployment | None, sequence: int = 0
) -> list[tuple[str, str, str]]:
    """State and message of each, by name, in the order of their turns."""
    names = {resource.id: resource.name for resource, _ in runs}
    rows, _ = arrange(runs, target, sequence)
    return [(names[row.resource_id], row.state, row.message) for row in rows]


def running(name: str = "a", **changes: Any) -> tuple[PlainResource, SyncRun]:
    resource, run = waiting(name)
    (row,), _ = arrange([(resource, run)], deployment(), 0)
    return replace(resource, **changes), row


def test_run_when_first_seen_then_it_waits_with_what_it_was_made_for() -> None:
    _, run = waiting(spec={"revisionID": "v1'; x"})
    assert (run.state, run.deployment_name, run.revision, run.sequence) == ("Waiting", "web", "v1 x", 0)


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        pytest.param(sync("a", omitted="too long"), "too long", id="omitted"),
        pytest.param(
            replace(sync("a"), spec="{}"), "spec.gitopsDeploymentName is missing; set it", id="without-deployment"
        ),
        pytest.param(
            sync("a", {"revisionID": "--upload-pack=x"}),
            "spec.revisionID: a revision cannot begin with '-'",
            id="option-as-revision",
        ),
        pytest.param(
            sync("a", {"revisionID": "'--x"}),
            "spec.revisionID: a revision cannot begin with '-'",
            id="option-after-filtering",
        ),
    ],
)
def test_run_when_its_spec_is_of_no_use_then_it_is_refused_for_good(resource: PlainResource, message: str) -> None:
    with pytest.raises(Refused):
        accept(resource)
    run = first_seen(resource)
    assert (run.state, run.message) == ("Refused", message)
    (after,), sequence = arrange([(resource, run)], deployment(), 0)
    assert (after, sequence) == (run, 0)
    assert conditions(sync_status(inputs(resource, run))) == error(message)


def test_run_when_its_deployment_is_there_then_it_starts() -> None:
    rows, sequence = arrange([waiting()], deployment(), 4)
    assert [(row.state, row.sequence, row.deployment_id) for row in rows] == [("Running", 5, id_of("deployment"))]
    assert sequence == 5


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(None, ("a", "Waiting", MISSING), id="missing"),
        pytest.param(deployment(present=False), ("a", "Waiting", MISSING), id="gone"),
        pytest.param(deployment(deleting=True), ("a", "Waiting", MISSING), id="being-deleted"),
        pytest.param(
            deployment(spec=None),
            ("a", "Waiting", NOT_ACCEPTED),
            id="without-application",
        ),
        pytest.param(deployment("automated"), ("a", "Refused", AUTOMATED), id="automated"),
        pytest.param(deployment("Automated"), ("a", "Refused", AUTOMATED), id="automated-in-capitals"),
        pytest.param(
            deployment(pending_spec=deployment().spec), ("a", "Waiting", NOT_ACCEPTED), id="newer-spec-pending"
        ),
        pytest.param(deployment(error="wrong"), ("a", "Waiting", NOT_ACCEPTED), id="newer-spec-wrong"),
        pytest.param(deployment(pending_reason="no environment"), ("a", "Waiting", NOT_ACCEPTED), id="no-environment"),
        pytest.param(
            deployment("automated", pending_spec=deployment().spec),
            ("a", "Waiting", NOT_ACCEPTED),
            id="manual-pending",
        ),
        pytest.param(
            deployment(pending_spec=deployment("automated").spec), ("a", "Refused", AUTOMATED), id="automated-pending"
        ),
        pytest.param(deployment("automated", error="wrong"), ("a", "Waiting", NOT_ACCEPTED), id="nobody-knows"),
    ],
)
def test_run_when_its_deployment_is_not_ready_then_it_waits_or_is_refused(
    target: Deployment | None, expected: tuple[str, str, str]
) -> None:
    assert arranged(waiting(), target=target) == [expected]


def test_run_when_it_waited_for_its_deployment_then_it_starts_once_that_appears() -> None:
    resource, run = waiting()
    (held,), _ = arrange([(resource, run)], None, 0)
    (started,), _ = arrange([(resource, held)], deployment(), 0)
    assert (started.state, started.message) == ("Running", "")


def test_run_when_it_was_refused_then_it_stays_so_even_if_the_deployment_becomes_manual() -> None:
    resource, run = waiting()
    (refused,), _ = arrange([(resource, run)], deployment("automated"), 0)
    assert arrange([(resource, refused)], deployment("manual"), 0) == ([refused], 0)


def test_runs_when_there_are_several_then_they_take_turns_by_age() -> None:
    runs = [waiting("c", created_at=2), waiting("b", created_at=1, resource_version="10")]
    runs.append(waiting("a", created_at=1, resource_version="9"))
    names_and_states = [(name, state) for name, state, _ in arranged(*runs, target=deployment())]
    assert names_and_states == [("a", "Running"), ("b", "Waiting"), ("c", "Waiting")]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Error"])
def test_run_when_the_one_before_it_has_ended_in_whatever_way_then_it_starts(phase: str) -> None:
    first_resource, first = running("a")
    rows, sequence = arrange([(first_resource, moved(first, event(phase))), waiting("b")], deployment(), 1)
    assert [(row.state, row.sequence) for row in rows] == [("Ended", 1), ("Running", 2)]
    assert sequence == 2


@pytest.mark.parametrize("state", ["Running", "Terminating"])
def test_run_when_the_one_before_it_is_under_way_then_it_waits_for_its_turn(state: str) -> None:
    resource, first = running("a", present=state == "Running")
    rows = arranged((resource, first), waiting("b"), target=deployment())
    assert [row[1] for row in rows] == [state, "Waiting"]
    assert rows[1][2] == "waiting for the sync before it to end"


def test_run_when_it_is_beyond_the_quota_then_others_go_first() -> None:
    rows = arranged(waiting("a", over_quota=True), waiting("b"), target=deployment())
    assert [row[:2] for row in rows] == [("a", "Waiting"), ("b", "Running")]
    resource, run = waiting("a", over_quota=True)
    assert conditions(sync_status(inputs(resource, run))) == error(LIMITS.message(SYNC_RUN.kind))


@pytest.mark.parametrize("changes", [{"present": False}, {"deleting": True}])
def test_run_when_its_cr_goes_then_a_waiting_one_ends_and_a_running_one_is_terminated(changes: dict[str, Any]) -> None:
    resource, run = waiting()
    assert arranged((replace(resource, **changes), run), target=deployment()) == [("a", "Ended", "")]
    assert arranged(running(**changes), target=deployment()) == [("a", "Terminating", "")]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(None, id="gone"),
        pytest.param(deployment(deleting=True), id="being-deleted"),
        pytest.param(deployment(spec=None), id="without-application"),
        pytest.param(deployment(id=id_of("another"), uid="uid-2"), id="made-anew"),
    ],
)
@pytest.mark.parametrize("changes", [{}, {"present": False}])
def test_run_when_the_deployment_it_was_started_for_is_gone_then_it_ends(
    target: Deployment | None, changes: dict[str, Any]
) -> None:
    resource, run = running(**changes)
    rows, _ = arrange([(resource, run)], target, 1)
    assert [(row.state, row.phase, row.message) for row in rows] == [("Ended", "Error", DELETED)]


def test_run_when_the_deployment_becomes_automated_meanwhile_then_it_goes_on() -> None:
    assert arranged(running(), target=deployment("automated")) == [("a", "Running", "")]


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Running", "Running"),
        ("Terminating", "Running"),
        ("Succeeded", "Ended"),
        ("Failed", "Ended"),
        ("Error", "Ended"),
    ],
)
def test_run_when_the_engine_reports_then_it_moves(phase: str, state: str) -> None:
    _, run = running()
    now = moved(run, event(phase, "m\0\x1b[2J", "abc", "2026-05-04T12:00:09Z"))
    assert (now.state, now.phase, now.message, now.synced_revision) == (state, phase, "m[2J", "abc")
    assert now.finished_at == ("2026-05-04T12:00:09Z" if state == "Ended" else "")


@pytest.mark.parametrize(
    ("phase", "state", "shown_phase", "message"),
    [
        ("Running", "Terminating", "Running", TERMINATED),
        ("Terminating", "Terminating", "Terminating", TERMINATED),
        ("Failed", "Ended", "Failed", TERMINATED),
        pytest.param("Terminated", "Ended", "Failed", TERMINATED, id="before-it-began"),
        pytest.param("Succeeded", "Ended", "Succeeded", "m", id="in-time"),
    ],
)
def test_run_when_a_move_has_it_terminated_then_it_says_so_until_it_has_ended_and_after_that(
    phase: str, state: str, shown_phase: str, message: str
) -> None:
    resource, run = running()
    ordered = terminated_for_move(run)
    assert arranged((resource, ordered), target=deployment()) == [("a", "Terminating", TERMINATED)]
    now = moved(ordered, event(phase, "m"))
    assert (now.state, now.phase, now.message) == (state, shown_phase, message)


def test_status_when_a_move_has_had_it_terminated_then_that_is_an_error_and_known_once_the_database_is_lost() -> None:
    resource, run = running()
    ended = moved(terminated_for_move(run), event("Terminated", "", finished_at="2026-05-04T12:00:09Z"))
    assert shown(resource, ended)[0] == error(TERMINATED)
    again = recalled(waiting()[1], resource, sync_status(inputs(resource, ended)))
    assert (again.state, again.phase, again.message) == ("Ended", "Failed", TERMINATED)


@pytest.mark.parametrize("state", ["Waiting", "Ended", "Refused"])
def test_run_when_it_is_not_under_way_then_a_report_changes_nothing(state: Any) -> None:
    run = replace(waiting()[1], state=state)
    assert moved(run, event("Running")) == run


def test_run_when_the_engine_reports_a_time_that_is_none_then_it_is_left_out() -> None:
    report = replace(event("Running"), started_at="yesterday")
    assert moved(running()[1], report).started_at == ""


@pytest.mark.parametrize(
    ("own", "tracked", "expected"),
    [("v1", "main", "v1"), (None, "main", "main"), (None, None, "HEAD"), ("", None, "HEAD")],
)
def test_revision_when_the_engine_is_told_then_it_is_the_run_s_the_deployment_s_or_head(
    own: str | None, tracked: str | None, expected: str
) -> None:
    _, run = waiting(spec={"revisionID": own})
    assert revision_to_sync(run, deployment(revision=tracked)) == expected


def shown(resource: PlainResource, run: SyncRun, previous: str = "{}") -> tuple[dict[str, Any], dict[str, Any]]:
    text = sync_status(inputs(resource, run, previous=previous))
    return conditions(text), json.loads(text).get("operation", {})


def test_status_when_the_deployment_is_missing_then_the_documented_error_shows_until_it_starts() -> None:
    resource, run = waiting()
    (held,), _ = arrange([(resource, run)], None, 0)
    previous = sync_status(replace(inputs(resource, held), target_exists=False))
    assert conditions(previous) == error(MISSING)
    (started,), _ = arrange([(resource, held)], deployment(), 0)
    assert shown(resource, started, previous) == (FINE, {"phase": "Running"})


@pytest.mark.parametrize(
    ("message", "target_exists", "expected"),
    [("in other words", False, error(MISSING)), (MISSING, True, FINE)],
    ids=["missing", "there"],
)
def test_status_when_a_run_waits_then_its_deployment_decides_on_the_error_and_not_a_text(
    message: str, target_exists: bool, expected: dict[str, Any]
) -> None:
    resource, run = waiting()
    waits = replace(inputs(resource, replace(run, message=message)), target_exists=target_exists)
    assert conditions(sync_status(waits)) == expected


def test_status_when_it_waits_for_its_turn_then_that_is_no_error() -> None:
    waits = waiting("b")
    rows, _ = arrange([running("a"), waits], deployment(), 1)
    expected = {"phase": "Waiting", "message": "waiting for the sync before it to end"}
    assert shown(waits[0], rows[1]) == (FINE, expected)


def test_status_when_the_sync_has_succeeded_then_the_operation_tells_all() -> None:
    resource, run = running()
    ended = moved(run, event("Succeeded", "successfully synced", "abc", "2026-05-04T12:00:09Z"))
    assert shown(resource, ended) == (
        FINE,
        {
            "phase": "Succeeded",
            "message": "successfully synced",
            "revision": "abc",
            "startedAt": "2026-05-04T12:00:00Z",
            "finishedAt": "2026-05-04T12:00:09Z",
        },
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [("one or more objects failed", "one or more objects failed"), ("", "an unknown error occurred")],
)
def test_status_when_the_sync_has_failed_then_that_is_an_error(message: str, expected: str) -> None:
    resource, run = running()
    assert shown(resource, moved(run, event("Failed", message)))[0] == error(expected)


def test_status_when_it_was_refused_then_the_documented_text_shows_and_that_it_never_takes_place() -> None:
    resource, run = waiting()
    (refused,), _ = arrange([(resource, run)], deployment("automated"), 0)
    assert shown(resource, refused) == (error(AUTOMATED), {"phase": "Error", "message": NEVER_RUNS})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"gitopsDeploymentName": "other", "revisionID": "v1"}, NAME_CHANGED),
        ({"revisionID": "v2"}, REVISION_CHANGED),
        ({"revisionID": None}, REVISION_CHANGED),
        ({"revisionID": "-v2"}, "spec.revisionID: a revision cannot begin with '-'"),
    ],
)
def test_status_when_an_immutable_field_changes_then_it_says_so_and_the_first_value_counts(
    spec: dict[str, Any], message: str
) -> None:
    _, run = waiting(spec={"revisionID": "v1"})
    resource = sync("a", spec)
    assert shown(resource, run)[0] == error(message)
    (started,), _ = arrange([(resource, run)], deployment(), 0)
    assert revision_to_sync(started, deployment()) == "v1"


def test_status_when_its_change_was_held_back_then_throttled_shows_until_one_was_not() -> None:
    resource, run = running()
    held = sync_status(inputs(replace(resource, held_back_ms=1000), run))
    assert conditions(held)["Throttled"][:2] == ("True", "Throttled")
    assert conditions(sync_status(inputs(resource, run, previous=held, second=1)))["Throttled"] == (
        "False",
        "ThrottledResolved",
        "",
    )


def test_status_when_nothing_changes_then_it_is_the_same_text() -> None:
    resource, run = running()
    first = sync_status(inputs(resource, run))
    assert sync_status(inputs(resource, run, previous=first, second=60)) == first


class World:
    """Some runs of one deployment, and whatever may happen to them."""

    def __init__(self, ages: list[int]) -> None:
        self.deployment: Deployment | None = None
        self.sequences = {0: 0}
        self.incarnation = 0
        self.runs = [waiting(f"run-{number}", created_at=age) for number, age in enumerate(ages)]
        self.started: list[Any] = []

    def happen(self, what: str, which: int) -> None:
        resource, run = self.runs[which % len(self.runs)]
        match what:
            case "create":
                self.incarnation += self.deployment is None
                self.deployment = deployment(id=id_of(f"deployment-{self.incarnation}"))
            case "delete":
                self.deployment = None
            case "automate" if self.deployment is not None:
                self.deployment = replace(self.deployment, spec=deployment("automated").spec)
            case "go":
                resource = replace(resource, present=False)
            case phase:
                run = moved(run, event(phase))
        self.runs[which % len(self.runs)] = (resource, run)
        self.settle()

    def settle(self) -> None:
        before = {run.resource_id: run for _, run in self.runs}
        resources = {resource.id: resource for resource, _ in self.runs}
        sequence = self.sequences.get(self.incarnation, 0)
        rows, self.sequences[self.incarnation] = arrange(self.runs[::-1], self.deployment, sequence)
        assert arrange([(resources[row.resource_id], row) for row in rows], self.deployment, sequence)[0] == rows
        for row in rows:
            if row.state == "Running" and before[row.resource_id].state == "Waiting":
                self.started.append(row.resource_id)
                self._is_the_oldest(row, before, resources)
        self.runs = [(resources[row.resource_id], row) for row in rows]
        assert sum(row.state in ACTIVE for row in rows) <= 1
        assert len(set(self.started)) == len(self.started)

    def _is_the_oldest(self, row: SyncRun, before: dict[Any, SyncRun], resources: dict[Any, PlainResource]) -> None:
        waited = [
            resources[known] for known, run in before.items() if run.state == "Waiting" and resources[known].present
        ]
        oldest = min(waited, key=lambda resource: (resource.created_at, resource.name))
        assert row.resource_id == oldest.id


HAPPENINGS = st.sampled_from(
    ["create", "create", "delete", "automate", "go", "Running", "Terminating", "Succeeded", "Failed", "Error"]
)


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=5), st.lists(st.tuples(HAPPENINGS, st.integers(0, 4)), max_size=30)
)
def test_runs_when_anything_happens_in_any_order_then_one_runs_at_a_time_each_once_and_none_is_stuck(
    ages: list[int], happenings: list[tuple[str, int]]
) -> None:
    world = World(ages)
    for what, which in happenings:
        world.happen(what, which)
    world.happen("create", 0)
    for _ in ages:
        for number in range(len(ages)):
            world.happen("Succeeded", number)
    assert {run.state for _, run in world.runs} <= {"Ended", "Refused"}
