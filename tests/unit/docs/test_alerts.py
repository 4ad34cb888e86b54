"""The rules for Prometheus that k8s/alerts ships ask for metrics that there are, and for labels that these have."""

from __future__ import annotations

import math
import re
from typing import Any, get_args

import pytest
import yaml

from devstack.paths import DOCS, ROOT
from services.common.telemetry import metrics
from services.planner.domain.fleet.rows import OVER, MoveStep
from tests.unit.docs.promql import NOW, Series, firing
from tests.unit.docs.test_links import anchor_of

(GROUP,) = yaml.safe_load((ROOT / "k8s" / "alerts" / "rules.yaml").read_text())["groups"]
RULES: list[dict[str, Any]] = GROUP["rules"]
DECLARED = {
    name: set(item._labelnames)
    for item in vars(metrics).values()
    if isinstance(item, metrics.Counter | metrics.Gauge)
    for name in (item._name, f"{item._name}_total")
}


def by_alert(rule: dict[str, Any]) -> str:
    return str(rule["alert"])


OF_KUBERNETES = {"kube_cronjob_status_last_successful_time": {"namespace", "cronjob"}}
"""Metrics of kube-state-metrics that rules ask for, with their labels."""


@pytest.mark.parametrize("rule", RULES, ids=by_alert)
def test_alert_when_evaluated_then_its_metric_has_the_labels_that_it_groups_by(rule: dict[str, Any]) -> None:
    metrics, others = ({*re.findall(rf"\b{prefix}_\w+", rule["expr"])} for prefix in ("gitops", "kube"))
    assert others <= OF_KUBERNETES.keys()
    assert metrics or others, "it asks for something"
    grouped = re.findall(r"by \(([\w, ]+)\)", rule["expr"])
    # Prometheus keeps `instance` for what it scrapes, and renames a label of ours.
    labels = {label.removeprefix("exported_") for labels in grouped for label in labels.split(", ")}
    declared = DECLARED | OF_KUBERNETES
    assert labels <= {label for name in metrics | others for label in declared[name]}
    assert all(f"`{name}" in (DOCS / "metrics.md").read_text() for name in metrics)


def test_alerts_when_read_then_each_says_what_it_means_and_how_bad_it_is() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    assert {rule["labels"]["severity"] for rule in RULES} <= {"warning", "critical"}
    assert all(rule["annotations"]["summary"].endswith(".") for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=by_alert)
def test_alert_when_it_comes_then_its_runbook_is_there_and_names_it(rule: dict[str, Any]) -> None:
    assert f"`{rule['alert']}`" in runbook(rule)


@pytest.mark.parametrize("rule", [rule for rule in RULES if "#" in rule["annotations"]["runbook"]], ids=by_alert)
def test_alert_when_its_runbook_is_a_section_then_that_says_how_it_shows_what_to_type_and_that_it_worked(
    rule: dict[str, Any],
) -> None:
    text = runbook(rule)
    assert text.partition("\n")[2].startswith("**Symptom**")
    assert "```sh\ngitopsctl " in text
    assert "**It worked** when" in text


def test_alert_when_a_rollout_has_stopped_then_its_runbook_is_the_section_about_that() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "GitOpsRolloutStopped"]
    assert rule["annotations"]["runbook"] == "docs/operations/rollouts.md#a-rollout-has-stopped"


def runbook(rule: dict[str, Any]) -> str:
    """The page, or the section of it that the alert leads to, from its heading to the next."""
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    text = (ROOT / page).read_text()
    sections = re.split(r"^#+ (?=.)", text, flags=re.MULTILINE) if anchor else []
    return next((each for each in sections if anchor_of(each.partition("\n")[0]) == anchor), "" if anchor else text)


def test_readiness_when_no_process_of_a_service_tells_anything_then_that_is_an_alert_too() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "GitOpsNotReady"]
    assert set(re.findall(r'absent\(gitops_ready\{service="(\w+)"\}\)', rule["expr"])) == {
        "watcher",
        "planner",
        "agent",
    }


def ready(service: str, workspace: str = "", value: float = 1.0) -> Series:
    labels = {"__name__": "gitops_ready", "service": service}
    return (labels | {"workspace": workspace} if workspace else labels, value)


def age(workspace: str, seconds: float) -> Series:
    labels = {"service": "planner", "workspace": workspace, "kind": "Secret"}
    return ({"__name__": "gitops_complete_epoch_age_seconds", **labels}, seconds)


HOUR, DAY = 3_600.0, 86_400.0
READY = [
    ready("watcher", "one"), ready("watcher", "two"), ready("watcher", "two", 0.0), ready("planner"), ready("agent"),
]  # fmt: skip


def expression(alert: str) -> str:
    (rule,) = [rule for rule in RULES if rule["alert"] == alert]
    return str(rule["expr"])


def test_readiness_when_one_watcher_of_each_workspace_leads_then_there_is_no_alert() -> None:
    assert firing(expression("GitOpsNotReady"), [*READY, age("one", DAY), age("two", DAY)]) == []


def test_readiness_when_one_workspace_of_two_has_no_watcher_any_more_then_it_is_named() -> None:
    left = [each for each in READY if each[0].get("workspace") != "two"]
    assert firing(expression("GitOpsNotReady"), [*left, age("one", DAY), age("two", DAY)]) == [{"workspace": "two"}]


def test_readiness_when_no_watcher_of_one_workspace_is_ready_then_it_is_named_though_the_others_are() -> None:
    left = [each for each in READY if each != ready("watcher", "two")]
    found = firing(expression("GitOpsNotReady"), [*left, age("one", DAY), age("two", DAY)])
    assert found == [{"service": "watcher", "workspace": "two"}]


def test_readiness_when_a_service_tells_nothing_then_it_is_named() -> None:
    left = [each for each in READY if each[0]["service"] != "agent"]
    assert firing(expression("GitOpsNotReady"), [*left, age("one", DAY)]) == [{"service": "agent"}]


@pytest.mark.parametrize("days", [8.0, math.inf])
def test_log_when_the_watchers_of_one_workspace_of_two_list_no_more_then_it_is_named(days: float) -> None:
    found = firing(expression("GitOpsLogIncomplete"), [age("one", DAY), age("two", days * DAY)])
    assert found == [{"workspace": "two", "kind": "Secret"}]


def test_log_when_every_workspace_was_listed_within_a_week_then_there_is_no_alert() -> None:
    assert firing(expression("GitOpsLogIncomplete"), [age("one", DAY), age("two", 6 * DAY)]) == []


def test_log_when_no_planner_tells_anything_then_that_is_an_alert_too() -> None:
    assert firing(expression("GitOpsLogIncomplete"), READY) == [{}]


@pytest.mark.parametrize(("hours", "is_alert"), [(0, False), (3, False), (5, True)])
def test_rebuild_when_it_was_begun_hours_ago_and_not_ended_then_that_is_an_alert(hours: int, *, is_alert: bool) -> None:
    labels = {"__name__": "gitops_rebuild_age_seconds", "service": "planner"}
    assert firing(expression("GitOpsRebuildOpen"), [(labels, hours * HOUR)]) == ([{}] if is_alert else [])


HALF_AN_HOUR = 1800.0


def moving(longest_at: str, seconds: float) -> list[Series]:
    """As a planner tells it while one step has a move that began with it ``seconds`` ago, and no other step has any."""
    steps = (step for step in get_args(MoveStep) if step not in OVER)
    return [
        ({"__name__": "gitops_move_age_seconds", "step": step}, seconds if step == longest_at else 0.0)
        for step in steps
    ]


@pytest.mark.parametrize("step", [step for step in get_args(MoveStep) if step not in (*OVER, "ordered")])
def test_move_when_it_is_at_one_step_for_more_than_half_an_hour_then_that_is_an_alert_that_names_it(step: str) -> None:
    two_planners = [*moving(step, HALF_AN_HOUR + 1), *moving(step, HALF_AN_HOUR + 11)]
    assert firing(expression("GitOpsMoveStuck"), two_planners) == [{"step": step}]


def test_move_when_it_gets_on_then_there_is_no_alert() -> None:
    assert firing(expression("GitOpsMoveStuck"), moving("adopting", HALF_AN_HOUR - 1)) == []


def test_move_when_it_only_waits_for_its_turn_then_there_is_no_alert_however_long() -> None:
    assert firing(expression("GitOpsMoveStuck"), moving("ordered", DAY)) == []


def test_drain_when_tenants_are_left_that_nobody_moves_then_that_is_an_alert_that_names_the_instance() -> None:
    """Prometheus keeps ``instance`` for the process that it asks."""
    told: list[Series] = [
        ({"__name__": "gitops_engine_tenants_left", "instance": planner, "exported_instance": "argocd-7"}, 2.0)
        for planner in ("planner-0", "planner-1")
    ]
    assert firing(expression("GitOpsDrainUnfinished"), told) == [{"exported_instance": "argocd-7"}]
    assert firing(expression("GitOpsDrainUnfinished"), []) == []


@pytest.mark.parametrize(
    ("state", "is_alert"), [("stalled", True), ("paused", True), ("failed", True), ("running", False)]
)
def test_rollout_when_it_has_stopped_or_does_not_get_on_then_that_is_an_alert(state: str, *, is_alert: bool) -> None:
    states = ("running", "stalled", "paused", "reverting", "done", "failed", "aborted")
    told = [({"__name__": "gitops_rollouts", "state": each}, float(each == state)) for each in states]
    assert firing(expression("GitOpsRolloutStopped"), told) == ([{"state": state}] if is_alert else [])


BACKUP = {"namespace": "gitops-service", "cronjob": "backup"}


def backed_up(days: float, **labels: str) -> Series:
    name = "kube_cronjob_status_last_successful_time"
    return ({"__name__": name, **BACKUP, **labels}, NOW - days * DAY)


def test_backup_when_the_newest_is_of_yesterday_then_there_is_no_alert() -> None:
    assert firing(expression("GitOpsBackupOld"), [backed_up(1)]) == []


def test_backup_when_none_has_succeeded_for_two_days_then_that_is_an_alert() -> None:
    assert firing(expression("GitOpsBackupOld"), [backed_up(2.1)]) == [BACKUP]


def test_backup_when_only_other_jobs_succeed_then_that_is_an_alert_too() -> None:
    others = [backed_up(1, cronjob="others"), backed_up(1, namespace="others")]
    assert firing(expression("GitOpsBackupOld"), others) == [BACKUP]


def test_backup_when_the_alert_looks_for_it_then_it_is_the_cron_job_that_is_installed() -> None:
    (job,) = [each for each in manifests("cron-job.yaml") if each["kind"] == "CronJob"]
    (kustomization,) = manifests("kustomization.yaml")
    assert {"namespace": kustomization["namespace"], "cronjob": job["metadata"]["name"]} == BACKUP


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "k8s" / "backup" / name).read_text()))


@pytest.mark.parametrize(("seconds", "is_alert"), [(0, False), (HOUR, False), (HOUR + 1, True)])
def test_manifests_when_no_instance_has_got_them_for_an_hour_and_others_wait_then_that_is_an_alert(
    seconds: float, is_alert: bool
) -> None:
    told: Series = ({"__name__": "gitops_engine_manifests_held_seconds", "instance": "provisioner"}, seconds)
    assert firing(expression("GitOpsManifestsHeld"), [told]) == ([{}] if is_alert else [])
