"""Promotions of AppStudio: each has succeeded, in all of its environments, unless something explains that it has not.

Those of a Snapshot of another application have failed, in their first environment, and say why. Other failures need an
explanation each: the ten minutes that an environment has are over, a planner had a wrong clock, or a user has deleted
the Snapshot. When a run has ended the API server knows: that was when its status was written last.

A success is believed if an Application of each component was seen at a commit that the build service has named for the
snapshot in that environment, or at a later one of the branch, between the making of the run and its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from chaos.api import SNAPSHOT
from chaos.checker.conditions import error_of
from chaos.checker.difference import Difference, difference_of
from chaos.checker.tenants import Tenant
from chaos.record import Build, Record, WrongClock, key_of, version_of
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
            for name in _undeployed(run, record):
                text = f"it tells a success in {name}, and nobody saw the commits of its snapshot there"
                yield difference_of("status", run, text)


def count_judged_by_commits(tenants: Sequence[Tenant], record: Record) -> int:
    """Of how many runs somebody watched what was deployed, from when they were made until they had succeeded."""
    runs = [run for tenant in tenants for run in tenant.own(tenant.world.promotions)]
    return sum(_state(run) == SUCCEEDED and _interval(run, record) is not None for run in runs)


def count_failed(runs: Sequence[Manifest]) -> int:
    """How many have failed, for whatever reason."""
    return sum(_state(run) == FAILED for run in runs)


def _problem(run: Manifest, tenant: Tenant, record: Record, *, is_held_up: bool) -> str:
    status = run.get("status") or {}
    if is_of_another(run["spec"], tenant.name, record):
        return _wrong_failure(run, is_held_up=is_held_up)
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


def is_of_another(spec: Manifest, namespace: str, record: Record) -> bool:
    """Whether the Snapshot that a run names is of another application: no name ever changes its application."""
    key = (SNAPSHOT.kind, namespace, spec["snapshot"])
    told = [record.contents[uid][0] for uid, known in record.names.items() if known == key]
    return any(each["application"] != spec["application"] for each in told)


def _wrong_failure(run: Manifest, *, is_held_up: bool) -> str:
    """What is wrong with a run that has to fail."""
    state, steps = _state(run), (run.get("status") or {}).get("environmentStatus") or ()
    if state[0] == "Waiting" and is_held_up:
        return ""
    if state != FAILED or [each["status"] for each in steps] != ["Failed"]:
        return f"its Snapshot is of another application, and it is {state[0]} with {state[1]}: {[*steps]}"
    return "" if error_of(run) else "it has failed, and no error says why"


def _state(run: Manifest) -> tuple[str | None, str | None]:
    status = run.get("status") or {}
    return status.get("state"), status.get("completionResult")


def is_complete(run: Manifest) -> bool:
    """Whether it is over, with success or without."""
    return _state(run)[0] == "Complete"


def reached_environments(run: Manifest, *statuses: str) -> list[str]:
    """Where it has been, in order; with ``statuses`` only those that have one of these."""
    steps = (run.get("status") or {}).get("environmentStatus") or ()
    return [each["environmentName"] for each in steps if not statuses or each["status"] in statuses]


def _undeployed(run: Manifest, record: Record) -> Iterator[str]:
    """Environments in which it tells a success that nothing confirms."""
    between = _interval(run, record)
    if between is None:
        return
    for name in reached_environments(run, "Success"):
        builds = record.builds.get((run["metadata"]["namespace"], name, run["spec"]["snapshot"]), [])
        if not any(_was_deployed(each, record, *between) for each in builds):
            yield name


def _was_deployed(build: Build, record: Record, since: int, until: int) -> bool:
    return all(
        record.history.was_synced((each.url, each.path), record.this_or_later(each), since, until)
        for each in build.commits
    )


def _interval(run: Manifest, record: Record) -> tuple[int, int] | None:
    """Versions between which it was made and had ended; None: it has not ended, or nobody watched for a while."""
    made = record.present.get(key_of(run))
    if made is None or not is_complete(run):
        return None
    between = version_of(made), version_of(run)
    return None if any(gap.overlaps(*between) for gap in record.witness_gaps) else between


def _incompleteness(run: Manifest, tenant: Tenant) -> str:
    wanted = [(name, "Success") for name in environments_of(run["spec"], tenant)]
    shown = [(each["environmentName"], each["status"]) for each in run["status"].get("environmentStatus") or ()]
    return "" if shown == wanted else f"it has succeeded with {shown}, not {wanted}"


def environments_of(spec: Manifest, tenant: Tenant) -> list[str]:
    """Where a run leads: from one environment, if it is automated, to its automated children, a level at a time."""
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
