"""What an agent tells of an Argo CD, and how often."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from services.agent.instances.engine_inspection import FIRST_RETRY_SECONDS, RETRY_SECONDS, EngineInspection
from services.agent.instances.engine_requirements import UNREADABLE, Acceptance
from services.agent.objects.engine_state import EngineState
from services.agent.objects.fleet import Fleet
from services.common.errors import Retry, Wait
from services.common.kubernetes import ApiResource, Manifest, NotFound, Rejected
from services.common.kubernetes.access import GRACE_SECONDS
from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED
from tests.unit.agent.instances.shipped import PROJECT, SHIPPED, workloads_of
from tests.unit.agent.instances_of_fleet import HERE, instance_row
from tests.unit.fake_clock import FakeClock, settle

PERMISSIVE = {"spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}}
KEEPS_ALL = {"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}}}
SCHEMAS = {
    "components": {
        "schemas": {
            kind: KEEPS_ALL | {"x-kubernetes-group-version-kind": [{"kind": kind}]}
            for kind in ("Application", "AppProject")
        }
    }
}


class FakeCluster:
    """Has the objects that are read."""

    def __init__(self) -> None:
        workloads = workloads_of("v3.2.11")
        self.config: Any = SHIPPED["argocd-cm"]
        self.project: Any = PROJECT
        self.schemas: Any = SCHEMAS
        self.rights: set[str] = set()
        """What the controller may do: a resource, or a verb and a resource."""
        self.server, self.controller = workloads.repo_server, workloads.controller

    async def read_schemas(self, group: str, version: str) -> Manifest:
        if isinstance(self.schemas, Exception):
            raise self.schemas
        schemas: Manifest = self.schemas
        return schemas

    async def get_object(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest:
        found: Any = SHIPPED | {"argocd-cm": self.config, "default": self.project}
        found |= {"argocd-repo-server": self.server, "argocd-application-controller": self.controller}
        found = found[name]
        if isinstance(found, Exception):
            raise found
        manifest: Manifest = found
        return manifest

    async def create_object(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> Manifest:
        asked = manifest["spec"]
        assert asked["user"] == "system:serviceaccount:argocd:argocd-application-controller"
        attributes = asked["resourceAttributes"]
        wanted = {attributes["resource"], f"{attributes['verb']} {attributes['resource']}"}
        return {"status": {"allowed": bool(wanted & self.rights)}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def state() -> EngineState:
    return EngineState()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def inspection_by(cluster: Any, state: EngineState, clock: FakeClock, accepted: Acceptance) -> EngineInspection:
    """Of one instance."""
    fleet = Fleet(HERE, [instance_row("one", namespace="argocd")])
    return EngineInspection(cluster, fleet, defaultdict(EngineState, one=state), clock, accepted)


@pytest.fixture
def inspection(cluster: FakeCluster, state: EngineState, clock: FakeClock) -> EngineInspection:
    return inspection_by(cluster, state, clock, Acceptance())


def gauge(name: str = "unmet_requirements") -> float | None:
    return REGISTRY.get_sample_value(f"gitops_engine_{name}", {"instance": "one"})


async def test_inspection_when_a_requirement_is_not_met_then_it_warns_once_and_counts_it(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.project = PERMISSIVE
    with capture_logs() as logs:
        await inspection.inspect_engines()
        await inspection.inspect_engines()
    assert [(line["log_level"], line["instance"]) for line in logs] == [("warning", "one"), ("error", "one")]
    assert (gauge(), gauge("refused")) == (1, 1)


async def test_inspection_when_the_controller_may_do_more_than_tenants_then_that_is_not_met(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.rights = {"rolebindings", "networkpolicies", "configmaps"}
    with capture_logs() as logs:
        await inspection.inspect_engines()
    assert "may write rolebindings, networkpolicies in its own cluster" in logs[0]["lacks"]
    assert (gauge(), gauge("refused")) == (1, 1)


@pytest.mark.parametrize(("right", "told"), [
    ("patch rolebindings", True), ("update resourcequotas", True), ("delete networkpolicies", True),
    ("create applications", True), ("create appprojects", True),
    ("patch applications", False), ("patch appprojects", False), ("delete configmaps", False),
])  # fmt: skip
async def test_inspection_when_the_controller_may_only_change_or_take_away_then_that_is_told_too(
    cluster: FakeCluster, inspection: EngineInspection, right: str, told: bool
) -> None:
    cluster.rights = {right}
    await inspection.inspect_engines()
    assert (gauge(), gauge("refused")) == (told, told)


async def test_inspection_when_the_operator_has_mended_it_then_it_says_so(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.config = NotFound("404")
    await inspection.inspect_engines()
    cluster.config = SHIPPED["argocd-cm"]
    with capture_logs() as logs:
        await inspection.inspect_engines()
    assert [line["log_level"] for line in logs] == ["info"]
    assert (gauge(), gauge("refused")) == (0, 0)


FORBIDDEN = Rejected("API server answered 403 Forbidden: no", 403)


async def test_engine_when_it_may_not_be_read_from_the_beginning_then_it_is_refused_until_it_may(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState
) -> None:
    cluster.controller = FORBIDDEN
    with capture_logs() as logs:
        assert not await inspection.inspect_engines(), "rights may be on their way: it looks again soon"
    assert "403" in logs[0]["lacks"]
    assert (state.refusal, gauge("refused")) == (UNREADABLE, 1)
    cluster.controller = workloads_of("v3.2.11").controller
    assert await inspection.inspect_engines()
    assert (state.refusal, gauge("refused")) == ("", 0)


@pytest.mark.parametrize("what", ["config", "schemas"])
@pytest.mark.parametrize(
    ("outcome", "is_inaccessible"), [(FORBIDDEN, True), (Retry("away"), False)], ids=["closed", "away"]
)
async def test_engine_when_it_may_not_be_looked_at_then_it_is_closed_until_it_may(
    cluster: FakeCluster,
    inspection: EngineInspection,
    state: EngineState,
    outcome: Exception,
    is_inaccessible: bool,
    what: str,
) -> None:
    await inspection.inspect_engines()
    assert not state.is_inaccessible
    before = getattr(cluster, what)
    setattr(cluster, what, outcome)
    await inspection.inspect_engines()
    assert state.is_inaccessible is is_inaccessible
    setattr(cluster, what, before)
    await inspection.inspect_engines()
    assert not state.is_inaccessible


@pytest.mark.parametrize("what", ["controller", "project", "config", "schemas"])
async def test_engine_when_it_may_not_be_read_any_more_then_it_is_refused_after_a_while(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState, clock: FakeClock, what: str
) -> None:
    await inspection.inspect_engines()
    setattr(cluster, what, FORBIDDEN)
    assert not await inspection.inspect_engines()
    assert (state.refusal, gauge()) == ("", 0)
    await clock.advance(GRACE_SECONDS)
    await inspection.inspect_engines()
    assert state.refusal == UNREADABLE


async def test_engine_when_it_could_be_read_meanwhile_then_what_is_forbidden_is_borne_anew(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState, clock: FakeClock
) -> None:
    for outcome in (SHIPPED["argocd-cm"], FORBIDDEN, SHIPPED["argocd-cm"], FORBIDDEN):
        cluster.config = outcome
        await inspection.inspect_engines()
        await clock.advance(GRACE_SECONDS - 1)
    assert state.refusal == ""


async def test_engine_when_it_does_not_answer_any_more_then_it_is_not_refused_for_that(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState, clock: FakeClock
) -> None:
    await inspection.inspect_engines()
    cluster.server = Retry("away")
    for _ in range(3):
        await inspection.inspect_engines()
        await clock.advance(GRACE_SECONDS)
    state.require_acceptance(ENGINE_NOT_ACCEPTED)


@pytest.mark.parametrize("what", ["server", "schemas"])
async def test_engine_when_it_has_not_answered_yet_then_nothing_new_is_deployed_until_it_has(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState, clock: FakeClock, what: str
) -> None:
    answer = getattr(cluster, what)
    setattr(cluster, what, Retry("away"))
    running = asyncio.create_task(inspection.run())
    await settle()
    with pytest.raises(Wait, match="not inspected yet"):
        state.require_acceptance(ENGINE_NOT_ACCEPTED)
    setattr(cluster, what, answer)
    await clock.advance(FIRST_RETRY_SECONDS)
    state.require_acceptance(ENGINE_NOT_ACCEPTED)
    running.cancel()


async def test_engine_when_it_is_refused_then_it_is_looked_at_often_and_used_as_soon_as_it_is_mended(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState, clock: FakeClock
) -> None:
    before, cluster.config = cluster.config, NotFound("it is just being made")
    running = asyncio.create_task(inspection.run())
    await settle()
    for _ in range(10):
        await clock.advance(RETRY_SECONDS)
    assert "there is no ConfigMap argocd-cm" in state.refusal
    cluster.config = before
    await clock.advance(RETRY_SECONDS)
    state.require_acceptance(ENGINE_NOT_ACCEPTED)
    running.cancel()


async def test_engine_when_it_is_unisolated_and_operators_accept_that_then_it_is_used_and_told_as_an_error(
    cluster: FakeCluster, state: EngineState
) -> None:
    accepting = inspection_by(cluster, state, FakeClock(), Acceptance(unisolated=True))
    patched = workloads_of("v3.4.13")
    cluster.server, cluster.controller, cluster.project = patched.repo_server, patched.controller, PERMISSIVE
    with capture_logs() as logs:
        await accepting.inspect_engines()
    state.require_acceptance(ENGINE_NOT_ACCEPTED)
    assert [line["log_level"] for line in logs] == ["warning", "error"]
    assert "ACCEPT_UNISOLATED_ENGINES" in logs[1]["event"]
    assert (gauge(), gauge("refused")) == (1, 0)


@pytest.mark.parametrize("accepted", [Acceptance(unseen=True), Acceptance(unisolated=True)])
async def test_engine_when_it_may_not_be_read_then_accepting_it_unseen_or_unisolated_alone_is_not_enough(
    cluster: FakeCluster, state: EngineState, accepted: Acceptance
) -> None:
    cluster.config = FORBIDDEN
    await inspection_by(cluster, state, FakeClock(), accepted).inspect_engines()
    assert (state.refusal, gauge("refused")) == (UNREADABLE, 1)


async def test_engine_when_operators_accept_it_unseen_and_unisolated_then_one_that_may_not_be_read_keeps_its_verdict(
    cluster: FakeCluster, state: EngineState
) -> None:
    accepted = Acceptance(unseen=True, unisolated=True)
    accepting = inspection_by(cluster, state, FakeClock(), accepted)
    cluster.config = FORBIDDEN
    with capture_logs() as logs:
        await accepting.inspect_engines()
    assert (state.refusal, gauge(), gauge("refused")) == ("", 1, 0)
    assert [line["log_level"] for line in logs] == ["warning", "error"]
    cluster.config, cluster.project = SHIPPED["argocd-cm"], PERMISSIVE
    await accepting.inspect_engines()
    refused = state.refusal
    assert refused, "this one was seen"
    cluster.project = FORBIDDEN
    await accepting.inspect_engines()
    assert state.refusal == refused


async def test_inspection_when_the_api_server_is_away_then_the_last_verdict_stands(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.project = PERMISSIVE
    await inspection.inspect_engines()
    cluster.config = Retry("away")
    with capture_logs() as logs:
        await inspection.inspect_engines()
    assert logs == []
    assert gauge() == 1


async def test_engine_when_it_is_refused_then_only_until_it_is_mended(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState
) -> None:
    cluster.project = PERMISSIVE
    await inspection.inspect_engines()
    assert "3.2.11" in state.refusal
    cluster.project = PROJECT
    await inspection.inspect_engines()
    assert state.refusal == ""


async def test_schemas_when_they_drop_what_can_be_left_out_then_the_appliers_leave_it_out(
    cluster: FakeCluster, inspection: EngineInspection, state: EngineState
) -> None:
    known = {"properties": {"limit": {}}}
    policy = {
        "properties": {"syncOptions": {}, "automated": {"x-kubernetes-preserve-unknown-fields": True}, "retry": known}
    }
    keeps = {"x-kubernetes-preserve-unknown-fields": True}
    spec = {"properties": {"project": {}, "source": keeps, "destination": keeps, "syncPolicy": policy}}
    schema = {"x-kubernetes-group-version-kind": [{"kind": "Application"}], "properties": {"spec": spec}}
    both = SCHEMAS["components"]["schemas"] | {"Application": schema}
    cluster.schemas = {"components": {"schemas": both}}
    assert await inspection.inspect_engines()
    retry = {"limit": -1, "refresh": True}
    given = {"kind": "Application", "spec": {"project": "p", "syncPolicy": {"retry": retry}}}
    assert state.served_part(given)["spec"] == {"project": "p", "syncPolicy": {"retry": {"limit": -1}}}
    assert (state.refusal, gauge()) == ("", 0)
    del known["properties"]["limit"]
    await inspection.inspect_engines()
    assert "Application.spec.syncPolicy.retry.limit" in state.refusal


async def test_inspection_when_the_api_server_does_not_answer_then_it_is_soon_repeated(
    cluster: FakeCluster, inspection: EngineInspection
) -> None:
    cluster.schemas = Retry("away")
    assert not await inspection.inspect_engines()


async def test_instance_when_it_is_added_then_it_is_inspected_at_once(cluster: FakeCluster, clock: FakeClock) -> None:
    fleet, states, of_all = Fleet(HERE), defaultdict[str, EngineState](EngineState), cast("Any", cluster)
    inspection = EngineInspection(of_all, fleet, states, clock, Acceptance())
    running = asyncio.create_task(inspection.run())
    await settle()
    fleet.store_rows([instance_row("one", namespace="argocd")])
    inspection.inspect_at_once()
    await settle()
    states["one"].require_acceptance(ENGINE_NOT_ACCEPTED)
    running.cancel()


async def test_instance_when_its_rights_come_after_it_then_it_is_used_a_second_later(
    cluster: FakeCluster, clock: FakeClock
) -> None:
    fleet, states, of_all = Fleet(HERE), defaultdict[str, EngineState](EngineState), cast("Any", cluster)
    inspection = EngineInspection(of_all, fleet, states, clock, Acceptance())
    running = asyncio.create_task(inspection.run())
    before, cluster.config = cluster.config, FORBIDDEN
    await settle()
    fleet.store_rows([instance_row("one", namespace="argocd")])
    inspection.inspect_at_once()
    await settle()
    assert states["one"].refusal == UNREADABLE
    cluster.config = before
    await clock.advance(FIRST_RETRY_SECONDS)
    states["one"].require_acceptance(ENGINE_NOT_ACCEPTED)
    running.cancel()


async def test_instance_when_it_is_retired_then_nothing_is_told_of_it_any_more(
    cluster: FakeCluster, state: EngineState
) -> None:
    fleet, of_all = Fleet(HERE, [instance_row("one", namespace="argocd")]), cast("Any", cluster)
    cluster.project = PERMISSIVE
    inspection = EngineInspection(of_all, fleet, defaultdict(EngineState, one=state), FakeClock(), Acceptance())
    await inspection.inspect_engines()
    fleet.store_rows([instance_row("one", namespace="argocd", state="retired")])
    assert await inspection.inspect_engines()
    assert [gauge(name) for name in ("unmet_requirements", "refused")] == [None, None]
