"""Promotions of AppStudio: each has succeeded, in all of its environments, unless something explains that it has not.

Failures need an explanation each: the ten minutes that an environment has are over, a planner had a wrong clock, or a
user has deleted the Snapshot. When a run has ended the API server knows: that was when its status was written last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from chaos.api import SNAPSHOT
from chaos.checker.conditions import error_of
from chaos.checker.difference import Difference, difference_of
from chaos.checker.tenants import Tenant
from chaos.record import Record, WrongClock
from services.common.kubernetes import Manifest

TIME = timedelta(minutes=10)
"""Of an environment. By the clock of the API server, which nobody sets."""
SUCCEEDED, FAILED = ("Complete", "Success"), ("Complete", "Failure")
AUTOMATED = "AppStudioAutomated"


def promotion_differences(tenants: Sequence[Tenant], record: Record) -> Iterator[Difference]:
    """All of them."""
    for tenant in tenants:
        runs = tenant.own(tenant.world.promotions)
        held_up = {run["metadata"]["name"] for run in runs if _lacks_snapshot(run, tenant) and _state(run) != SUCCEEDED}
        for run in runs:
            if text := _problem(run, tenant, record, is_held_up=bool(held_up)):
                yield difference_of("status", run, text)


def count_failed(runs: Sequence[Manifest]) -> int:
    """How many have failed, for whatever reason."""
    return sum(_state(run) == FAILED for run in runs)


def _problem(run: Manifest, tenant: Tenant, record: Record, *, is_held_up: bool) -> str:
    status = run.get("status") or {}
    match _state(run):
        case ("Complete", "Success"):
            return _incompleteness(run, tenant)
        case ("Complete", "Failure"):
            return "" if _is_explained(run, record) else f"it has failed: {status.get('environmentStatus')}"
        case ("Active", _) if _lacks_snapshot(run, tenant):
            return "" if error_of(run) else "its Snapshot is gone, and no error says so"
        case ("Waiting", _) if is_held_up:
            return ""
        case (state, result):
            return f"it is {state} with {result}: {status.get('environmentStatus')}"
    raise AssertionError


def _state(run: Manifest) -> tuple[str | None, str | None]:
    status = run.get("status") or {}
    return status.get("state"), status.get("completionResult")


def _incompleteness(run: Manifest, tenant: Tenant) -> str:
    wanted = [(name, "Success") for name in _environments(run["spec"], tenant)]
    shown = [(each["environmentName"], each["status"]) for each in run["status"].get("environmentStatus") or ()]
    return "" if shown == wanted else f"it has succeeded with {shown}, not {wanted}"


def _environments(spec: Manifest, tenant: Tenant) -> list[str]:
    """Where it leads: from one environment, if it is automated, to its automated children, a level at a time."""
    automated = spec.get("automatedPromotion")
    if not automated:
        return [spec["manualPromotion"]["targetEnvironment"]]
    level = [automated["initialEnvironment"]]
    found = list(level)
    while level:
        children = sorted(name for name, each in tenant.app_environments.items() if _parent(each) in level)
        level = [name for name in children if name not in found]
        found += level
    return found


def _parent(environment: Manifest) -> str:
    spec = environment["spec"]
    return spec.get("parentEnvironment", "") if spec["deploymentStrategy"] == AUTOMATED else ""


def _lacks_snapshot(run: Manifest, tenant: Tenant) -> bool:
    return all(item["metadata"]["name"] != run["spec"]["snapshot"] for item in tenant.own(tenant.world.snapshots))


def _is_explained(run: Manifest, record: Record) -> bool:
    meta = run["metadata"]
    began = datetime.fromisoformat(meta["creationTimestamp"])
    times = [datetime.fromisoformat(each["time"]) for each in meta.get("managedFields") or () if each.get("time")]
    ended = max(times, default=began)
    return (
        ended - began >= TIME
        or (SNAPSHOT.kind, meta["namespace"], run["spec"]["snapshot"]) in record.deleted
        or any(each.since <= ended and began <= each.until for each in record.wrong_clocks if _ends_steps(each))
    )


def _ends_steps(clock: WrongClock) -> bool:
    """Whether by it the time of what had just begun is over, when it is set or when it is right again."""
    return clock.process.startswith("planner") and abs(clock.seconds) >= TIME.total_seconds()
