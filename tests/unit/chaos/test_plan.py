"""From a seed to a plan, and back from its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import get_args

import pytest

from chaos.__main__ import AT_WORK, targets_of
from chaos.api import REFUSALS
from chaos.plan.faults import (
    FAULTS,
    LEADER,
    Cut,
    FailCalls,
    Fault,
    FillDisk,
    Kill,
    KillAll,
    Meanwhile,
    ResetConnector,
    RestoreBackup,
    Slow,
    StepClock,
    Stop,
    may_overlap,
    takes_long,
    target_of,
)
from chaos.plan.generate import generate
from chaos.plan.operations import (
    OPERATIONS,
    REFUSED_PATHS,
    AskForSync,
    CustomKind,
    DrainInstance,
    EngineKind,
    Forge,
    Meddle,
    MoveTenant,
    Promote,
    PutAppEnvironment,
    PutClaim,
    PutDeployment,
    PutEnvironment,
    PutLogin,
    PutRefused,
    RemakeNamespace,
    Remove,
    ReplaceInstance,
    UndrainInstance,
)
from chaos.plan.plan import Plan
from chaos.plan.random_applications import (
    AUTOMATED,
    CLAIMS,
    FOREIGN_SNAPSHOT,
    PROMOTED_TO,
    REMOVED_SNAPSHOT,
    SNAPSHOTS,
    steady_applications,
)
from chaos.plan.random_faults import FAILOVERS, LEASES
from chaos.plan.random_operations import STEADY
from chaos.plan.size import Size, Targets
from services.watcher.settings import WatcherSettings

TARGETS = Targets(("planner", "agent-1"), ("kafka",), (("planner", "postgres"),), ("watcher",), (1, 2))
PLAN = generate(7, Size(operations=2000, tenants=5, faults=60), TARGETS)


def test_plan_when_made_again_from_its_seed_then_it_is_the_same() -> None:
    assert generate(7, Size(operations=2000, tenants=5, faults=60), TARGETS) == PLAN


def test_plan_when_made_from_another_seed_then_it_is_another() -> None:
    assert generate(8, Size(operations=2000, tenants=5, faults=60), TARGETS).steps != PLAN.steps


def test_plan_when_it_is_long_then_every_kind_of_operation_is_in_it() -> None:
    assert {type(each) for each in PLAN.operations} == set(OPERATIONS)


def test_plan_when_it_is_long_then_every_kind_of_object_is_meddled_with_and_forged() -> None:
    for intrusion in (Meddle, Forge):
        assert {each.kind for each in PLAN.operations if isinstance(each, intrusion)} == set(get_args(EngineKind))


def test_instances_when_one_is_emptied_then_it_accepts_again_before_any_other_is() -> None:
    emptied: list[DrainInstance] = []
    orders = [each for each in PLAN.operations if isinstance(each, DrainInstance | UndrainInstance | ReplaceInstance)]
    for each in orders:
        if isinstance(each, UndrainInstance):
            assert emptied.pop().instance == each.instance
        assert not emptied
        if isinstance(each, DrainInstance):
            emptied.append(each)
    assert {type(each) for each in orders} == {DrainInstance, UndrainInstance, ReplaceInstance}
    assert len({each.tenant for each in orders}) == 1, "one follows the other"


def test_moves_when_there_are_many_then_some_are_taken_back_and_most_are_not() -> None:
    moves = [each for each in PLAN.operations if isinstance(each, MoveTenant)]
    taken_back = sum(each.cancelled_after is not None for each in moves)
    assert 0 < taken_back < len(moves) / 2


def test_faults_when_there_are_enough_then_each_kind_comes_equally_often() -> None:
    assert Counter(type(each) for each in PLAN.faults) == dict.fromkeys(FAULTS, 60 // len(FAULTS))


def test_faults_when_there_are_many_then_some_begin_while_one_goes_on_that_leaves_room_for_them() -> None:
    steps = PLAN.steps
    places = [place for place, step in enumerate(steps) if isinstance(step, Meanwhile)]
    pairs = [(steps[place - 1], steps[place + 1]) for place in places if isinstance(steps[place - 1], Fault)]
    assert pairs
    assert all(isinstance(two, Fault) and may_overlap(one, two) for one, two in pairs if isinstance(one, Fault))


def test_faults_when_one_takes_long_then_others_begin_at_places_of_their_own_while_it_goes_on() -> None:
    alone: Fault | None = None
    beside: Counter[type] = Counter()
    for before, step in pairwise(PLAN.steps):
        if isinstance(step, Fault) and not isinstance(before, Meanwhile):
            alone = step
        if isinstance(step, Meanwhile) and isinstance(before, OPERATIONS):
            assert alone is not None
            assert takes_long(alone)
            beside[type(alone)] += 1
    assert beside.keys() == {RestoreBackup, ResetConnector, KillAll}


@pytest.mark.parametrize(
    ("one", "other", "at_once"),
    [
        pytest.param(Kill("kafka", 1), Stop("postgres", 1), True, id="two processes"),
        pytest.param(Kill("kafka", 1), Stop("kafka", 1), False, id="one process"),
        pytest.param(Kill(LEADER, 1), Stop("watcher-2", 1), False, id="the leading watcher and one that may lead"),
        pytest.param(Kill(LEADER, 1), Stop("planner-2", 1), True, id="the leading watcher and a planner"),
        pytest.param(Kill("watcher-1", 1), Stop("watcher-2", 1), True, id="two watchers"),
        pytest.param(RestoreBackup(1), Stop(LEADER, 1), False, id="a runbook and the watcher that it restarts"),
        pytest.param(Kill("kafka", 1), Cut("planner", "kafka", 1), True, id="a process and its link"),
        pytest.param(Cut("planner", "kafka", 1), Slow("agent-1", "kafka", 50, 1), False, id="two links"),
        pytest.param(StepClock("planner", 60, 1), Cut("planner", "kafka", 1), True, id="a clock and a link"),
        pytest.param(StepClock("planner", 60, 1), StepClock("agent-1", 60, 1), False, id="two clocks"),
        pytest.param(RestoreBackup(1), Kill("planner-1", 1), False, id="a runbook and a process that it stops"),
        pytest.param(RestoreBackup(1), FillDisk("postgres", 1), False, id="a runbook and what it empties"),
        pytest.param(RestoreBackup(1), Kill("kafka", 1), True, id="a runbook and a process that it leaves alone"),
        pytest.param(RestoreBackup(1), Cut("planner-1", "kafka", 1), True, id="a runbook and a link"),
        pytest.param(RestoreBackup(1), StepClock("planner-1", 60, 1), True, id="a runbook and a clock"),
        pytest.param(ResetConnector(), Kill("connect", 1), True, id="another runbook and a process"),
        pytest.param(ResetConnector(), FailCalls(0.2, 1), True, id="a runbook and calls that fail"),
        pytest.param(ResetConnector(), RestoreBackup(1), False, id="two runbooks"),
        pytest.param(ResetConnector(), KillAll(), False, id="a runbook and all processes"),
        pytest.param(Kill("kafka", 1), KillAll(), False, id="a process and all of them"),
        pytest.param(Cut("planner", "kafka", 1), KillAll(), True, id="a link and all processes"),
    ],
)
def test_faults_when_they_would_get_in_each_others_way_then_they_are_not_at_once(
    one: Fault, other: Fault, *, at_once: bool
) -> None:
    assert may_overlap(one, other) == may_overlap(other, one) == at_once


def test_plan_when_it_was_kept_before_faults_could_be_at_once_then_it_is_read() -> None:
    kept = """{"seed": 7, "steps": [
{"step": "PutLogin", "tenant": 0, "version": 1},
{"step": "Cut", "process": "planner-1", "server": "kafka", "seconds": 2.5},
{"step": "PutEnvironment", "tenant": 1, "name": "e0", "namespaces": ["web"], "cluster_resources": false, "afresh": true}
]}"""
    assert Plan.from_json(kept) == Plan(
        7, (PutLogin(0, 1), Cut("planner-1", "kafka", 2.5), PutEnvironment(1, "e0", ("web",), afresh=True))
    )


def test_logins_when_a_plan_is_long_then_most_open_the_repositories_and_some_do_not() -> None:
    versions = Counter(each.version == 0 for each in PLAN.operations if isinstance(each, PutLogin))
    assert versions[True] > versions[False] > 0


def test_faults_when_spread_then_operations_come_before_the_first_and_after_the_last() -> None:
    kinds = ["fault" if isinstance(step, FAULTS) else "operation" for step in PLAN.steps]
    assert (kinds[0], kinds[-1]) == ("operation", "operation")


def test_plan_when_kept_in_a_file_then_it_comes_back() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN


def test_runs_when_a_plan_is_long_then_most_are_of_deployments_that_nobody_changes_or_takes_away() -> None:
    runs = Counter(each.deployment in STEADY for each in PLAN.operations if isinstance(each, AskForSync))
    changes = {each for each in PLAN.operations if isinstance(each, PutDeployment) and each.name in STEADY}
    assert runs[True] > 3 * runs[False]
    assert changes == {
        PutDeployment(tenant, name, 0, "apps/0", "", automated=False) for tenant in range(5) for name in STEADY
    }
    assert not [each for each in PLAN.operations if isinstance(each, Remove | Meddle) and each.name in STEADY]


def test_namespace_when_it_is_made_again_then_its_steady_deployments_are() -> None:
    steps = PLAN.operations
    after = [steps[place + 1 : place + 3] for place, step in enumerate(steps) if isinstance(step, RemakeNamespace)]
    assert after
    assert all([each.name for each in two if isinstance(each, PutDeployment)] == list(STEADY) for two in after)


def test_project_when_it_is_meddled_with_then_its_tenant_is_one_of_few() -> None:
    meddled = {each.tenant for each in PLAN.operations if isinstance(each, Meddle) and each.kind == "project"}
    assert {0} <= meddled <= {0, 4}


def test_promotions_when_their_snapshot_comes_and_goes_then_their_tenant_is_one_of_few() -> None:
    promotions = [each for each in PLAN.operations if isinstance(each, Promote)]
    assert {0} <= {each.tenant for each in promotions if each.snapshot == REMOVED_SNAPSHOT} <= {0, 4}
    assert {each.automated for each in promotions if each.snapshot in SNAPSHOTS} == {False, True}


def test_promotions_when_their_snapshot_is_foreign_then_nobody_removes_it() -> None:
    promotions = [each for each in PLAN.operations if isinstance(each, Promote)]
    assert {each.automated for each in promotions if each.snapshot == FOREIGN_SNAPSHOT} == {False, True}
    assert not [each for each in PLAN.operations if isinstance(each, Remove) and each.name == FOREIGN_SNAPSHOT]


def test_environments_when_promotions_go_to_them_then_nobody_removes_or_changes_them() -> None:
    changes = [each for each in PLAN.operations if isinstance(each, PutAppEnvironment | Remove)]
    theirs = [each for each in changes if each.name in {PROMOTED_TO, *AUTOMATED}]
    assert theirs
    assert all(each in steady_applications(each.tenant) for each in theirs)


def test_claims_when_a_name_comes_again_then_its_class_and_target_do() -> None:
    claims = [each for each in PLAN.operations if isinstance(each, PutClaim)]
    assert {each.name for each in claims} == CLAIMS.keys()
    assert all((each.class_name, each.target) == CLAIMS[each.name] for each in claims)


def test_runs_when_a_tenant_has_many_then_it_takes_the_oldest_back_before_its_quota_is_reached() -> None:
    there, most = set[str](), 0
    for each in generate(7, Size(operations=2000, tenants=1, faults=0), TARGETS).operations:
        if isinstance(each, AskForSync):
            there.add(each.name)
        if isinstance(each, Remove) and each.kind == "run":
            there.discard(each.name)
        most = max(most, len(there))
    assert 100 < most <= 150


FIRST = ("planner-1", "kafka", "postgres", "etcd", "agent-1", ("planner-1", "kafka"), ("agent-1", "kafka"))
MANY = ("agent-1", "agent-2", "etcd", "kafka", "planner-1", "planner-2", "postgres", "registry")
WAYS = (("agent-1", "kafka"), ("agent-1", "registry"), ("planner-1", "kafka"), ("planner-1", "registry"))


@pytest.mark.parametrize(("kind", "number"), [(Kill, 5), (Stop, 5), (Cut, 2), (Slow, 2)])
def test_faults_when_there_are_few_of_a_kind_then_each_hits_another_of_what_comes_first(
    kind: type[Fault], number: int
) -> None:
    targets = Targets(MANY, MANY, WAYS, (), (1, 2), FIRST, (kind,))
    begun = set[str]()
    for seed in range(20):
        hit = [target_of(each) for each in generate(seed, Size(100, 1, number), targets).faults]
        first = {" to ".join(each) if isinstance(each, tuple) else each for each in FIRST}
        assert len(set(hit)) == number
        assert set(hit) <= first
        begun.add(hit[0])
    assert len(begun) > 1, "not every seed begins with the same"


def test_faults_when_what_comes_first_was_hit_then_all_others_are_before_any_comes_again() -> None:
    plan = generate(3, Size(100, 1, len(MANY)), Targets(MANY, MANY, WAYS, (), (1, 2), FIRST, (Kill,)))
    assert sorted(map(target_of, plan.faults)) == sorted(MANY)


LEASE_SECONDS = WatcherSettings.model_fields["lease_seconds"].default
SERVICES = ("watcher", "planner", "agent")
EACH_FAILOVER = (2 * len(SERVICES) + 1) * FAILOVERS
"""Faults of a run that has each of them."""


def by_service(faults: Iterable[Fault], kind: type[Kill | Stop], seconds: float = 0) -> Counter[str]:
    """Of the processes that are at work, faults that last for so long."""
    at_work = {process: process.rpartition("-")[0] for service in AT_WORK for process in service}
    hit = (each for each in faults if isinstance(each, kind) and each.seconds > seconds)
    return Counter(at_work[each.process] for each in hit if each.process in at_work)


@pytest.mark.parametrize("number", [EACH_FAILOVER, 30, 55, 100])
def test_faults_when_there_are_enough_then_each_service_is_killed_and_stopped_until_another_has_taken_over(
    number: int,
) -> None:
    for seed in range(50):
        faults = generate(seed, Size(1000, 1, number), targets_of(8)).faults
        assert by_service(faults, Kill).keys() == set(SERVICES)
        assert by_service(faults, Stop, LEASE_SECONDS).keys() == set(SERVICES)


@pytest.mark.parametrize("number", [EACH_FAILOVER, 55])
def test_faults_when_there_are_enough_then_the_leading_watcher_is_cut_off_for_longer_than_its_lease(
    number: int,
) -> None:
    for seed in range(50):
        faults = generate(seed, Size(1000, 1, number), targets_of(8)).faults
        cuts = [each for each in faults if isinstance(each, Cut) and each.process == LEADER]
        assert cuts
        assert all(each.server == LEASES and each.seconds > LEASE_SECONDS for each in cuts)


def test_faults_when_there_are_few_then_each_service_is_killed_or_stopped_before_one_is_again() -> None:
    for seed in range(50):
        faults = generate(seed, Size(100, 1, FAILOVERS * 2 + 1), targets_of(8)).faults[::FAILOVERS]
        assert by_service(faults, Kill) + by_service(faults, Stop) == dict.fromkeys(SERVICES, 1)


def test_faults_when_only_some_kinds_are_chosen_then_failovers_are_of_these() -> None:
    of_processes = generate(7, Size(1000, 1, 40), targets_of(8, (Kill, KillAll))).faults
    assert {type(each) for each in of_processes} == {Kill, KillAll}
    assert by_service(of_processes, Kill).keys() == set(SERVICES)
    assert not by_service(generate(7, Size(1000, 1, 40), targets_of(8, (KillAll,))).faults, Kill)


@pytest.mark.parametrize("number", [30, 55])
def test_faults_when_there_are_failovers_then_every_other_kind_comes_as_well(number: int) -> None:
    for seed in range(50):
        assert {type(each) for each in generate(seed, Size(1000, 1, number), targets_of(8)).faults} == set(FAULTS)


def test_specs_when_a_plan_is_long_then_some_are_refused_by_crds_and_some_after_them() -> None:
    refused = Counter(each.kind for each in PLAN.operations if isinstance(each, PutRefused))
    paths = {each.path for each in PLAN.operations if isinstance(each, PutDeployment)}
    assert refused.keys() == set(get_args(CustomKind))
    assert paths > set(REFUSED_PATHS) == REFUSALS.keys()
    assert not set(PLAN.paths) & set(REFUSED_PATHS), "nothing is deployed from these"
