"""One change costs what it concerns, however much the tenant has: nothing else is compiled again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from services.common.messages import Applied
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event
from services.planner.domain.indexed_rows import Counts, Groups, Subset, Totals
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.domain.steps import environments, quotas, syncs
from services.planner.engines.argocd.implementation import ArgoCD
from tests.unit.planner.given import (
    SYNC_RUN,
    changed,
    credential,
    environment,
    observed,
    resource,
    resource_gone,
    secret,
    spec,
    status,
    sync_run,
)
from tests.unit.planner.tenant import MANUAL
from tests.unit.planner.world import World

MANY = 20


class Counting(ArgoCD):
    """Argo CD, and how often it was asked to compile what."""

    def __init__(self) -> None:
        self.compiled: Counter[str] = Counter()

    def objects(self, placement: Any, resource: Any, desired: Any, **options: Any) -> Any:
        self.compiled[type(desired).__name__] += 1
        return super().objects(placement, resource, desired, **options)


def _counted(name: str) -> Callable[..., Any]:
    def compile_it(self: Counting, *args: Any, **options: Any) -> Any:
        self.compiled[name] += 1
        return getattr(ArgoCD, name)(self, *args, **options)

    return compile_it


for method in ("deployment", "projects", "sync_request"):
    setattr(Counting, method, _counted(method))


@pytest.fixture
def engine() -> Counting:
    return Counting()


@pytest.fixture
def crowded(engine: Counting) -> World:
    """A tenant with many of everything, each with a Secret or a repository of its own."""
    world = World(engines={"argocd": engine})
    for number in range(MANY):
        world.take(secret(number, f"s-{number}"), environment(100 + number, f"e-{number}", f"s-{number}"))
        world.take(secret(200 + number, f"l-{number}", "repository-credential"))
        world.take(credential(300 + number, f"c-{number}", f"l-{number}"))
        world.take(changed(400 + number, f"w-{number}", uid=f"uid-{number}", content=MANUAL))
        world.take(sync_run(500 + number, f"r-{number}", f"w-{number}"))
    engine.compiled.clear()
    return world


REPORT = observed(900, status(1, sync={"status": "Synced"}), instance="engine-2", name="gitopsdepl-uid-7")
OTHER = spec(type="manual", source={"path": "other"})


@pytest.mark.parametrize(
    ("event", "compiled"),
    [
        (changed(900, "w-7", uid="uid-7", generation=2, content=OTHER), {"deployment": 1, "sync_request": 1}),
        (environment(900, "e-7", "s-7", generation=2, namespaces=["a"]), {"Cluster": 1, "projects": 1}),
        (secret(900, "s-7"), {"Cluster": 1}),
        (secret(900, "l-7", "repository-credential"), {"Repository": 1}),
        (resource(900, "Secret", "another", {"type": "t", "sealed": "x", "keyId": "k"}), {}),
        (sync_run(900, "late", "w-7"), {"sync_request": 1}),
        (resource_gone(900, SYNC_RUN, "r-7"), {"sync_request": 1}),
        (REPORT, {}),
        (changed(407, "w-7", uid="uid-7", content=MANUAL, epoch=2), {}),
        (environment(107, "e-7", "s-7", epoch=2), {}),
        (secret(7, "s-7", epoch=2), {}),
    ],
    ids=[
        "deployment",
        "environment",
        "kubeconfig",
        "login",
        "another Secret",
        "sync run",
        "run gone",
        "status",
        "deployment seen",
        "environment seen",
        "Secret seen",
    ],
)
def test_plan_when_one_thing_changes_then_only_what_it_concerns_is_compiled(
    crowded: World, engine: Counting, event: Event, compiled: dict[str, int]
) -> None:
    crowded.take(event)
    assert engine.compiled == compiled


class Counted(dict[str, int]):
    """How often a function was called, by its name."""

    def watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            self[name] = self.get(name, 0) + 1
            return original(*args, **options)

        monkeypatch.setattr(owner, name, counted)


@pytest.fixture
def looked_at(crowded: World, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """What a plan looks at of a crowded tenant, besides what it compiles."""
    found = Counted()
    for name in ("_claim", "_claim_of_one"):
        found.watch(monkeypatch, quotas, name)
    found.watch(monkeypatch, environments, "_view")
    found.watch(monkeypatch, syncs.sync_run, "arrange")
    for view in (Totals, Groups, Subset, Counts):
        found.watch(monkeypatch, view, "of")
    return found


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (changed(900, "w-7", uid="uid-7", generation=2, content=OTHER), {"arrange": 1}),
        (environment(900, "e-7", "s-7", generation=2, namespaces=["a"]), {"_view": 2}),
        (secret(900, "s-7"), {"_view": 2}),
        (resource(900, "Secret", "another", {"type": "t", "sealed": "x", "keyId": "k"}), {}),
        (sync_run(900, "late", "w-7"), {"arrange": 1}),
        (resource_gone(900, SYNC_RUN, "r-7"), {"arrange": 1}),
        (REPORT, {}),
    ],
    ids=["deployment", "environment", "kubeconfig", "another Secret", "sync run", "run gone", "status"],
)
def test_plan_when_one_thing_changes_then_only_what_it_concerns_is_looked_at(
    crowded: World, looked_at: Counted, event: Event, expected: dict[str, int]
) -> None:
    crowded.take(event)
    assert looked_at == expected


def test_plan_when_one_is_beyond_a_quota_then_only_its_kind_is_compared(crowded: World, looked_at: Counted) -> None:
    crowded.policy = Policy(limits=REGISTRY.limits({MANAGED_ENVIRONMENT.kind: MANY}))
    crowded.take(environment(900, "late", "s-7"))
    assert {name: looked_at.get(name, 0) for name in ("_claim", "_claim_of_one")} == {
        "_claim": 0,
        "_claim_of_one": MANY + 1,
    }


def test_plan_when_an_agent_reports_the_same_again_then_no_status_is_compiled(
    crowded: World, engine: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = crowded.application("uid-7")
    assert row is not None
    again = observed(901, Applied(row.digest), instance="engine-2", name="gitopsdepl-uid-7")
    crowded.take(REPORT, again)
    monkeypatch.setattr(engine, "read_status", None)
    assert crowded.take(REPORT, again) == Changes()
    later = status(2, sync={"status": "OutOfSync"})
    crowded.take(observed(902, later, instance="engine-2", name="gitopsdepl-uid-7"))
    assert crowded.parked, "asked for a report that is new, it fails"


def test_plan_when_a_batch_changes_many_then_their_names_are_looked_up_once_for_all_of_them(
    crowded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    look_up = TenantState.ids_named
    monkeypatch.setattr(
        TenantState, "ids_named", lambda state, names: looks.append(len(names)) or look_up(state, names)
    )
    crowded.take(*(changed(901 + number, f"w-{number}", uid=f"uid-{number}", content=spec()) for number in range(MANY)))
    assert [count for count in looks if count] == [MANY]


def test_resources_when_deployments_are_asked_for_then_that_is_refused(crowded: World) -> None:
    (tenant,) = crowded.tenants
    with pytest.raises(ValueError, match="no plain resources"):
        crowded.state(tenant).plain_resources_of_kind("GitOpsDeployment")
