"""A deployment's way is told by the uid of its CR, whatever else travels by the same topics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from devstack.harness import journey
from devstack.harness.journey import Passage, Stage
from services.common.argocd_names import application_name
from services.common.messages import Applied, Checked, EngineResource, Observation, Removed, RowKind
from services.common.messages.observation import ObservationEvent

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)


def observed(event: ObservationEvent, kind: str = RowKind.APPLICATION, name: str = application_name("uid-1")) -> object:
    return list(journey._of_observation(Observation("one", "team-a", "argocd-1", kind, name, NOW, event)))


@pytest.mark.parametrize(
    ("event", "stage"),
    [
        (Applied("d"), Stage.APPLIED),
        (Applied("d", drift_repaired=True), Stage.DRIFTED),
        (Removed(forced=False), Stage.REMOVED),
    ],
    ids=lambda value: str(value) if isinstance(value, Stage) else "",
)
def test_observation_when_of_an_application_then_its_deployment_has_passed_a_stage(
    event: ObservationEvent, stage: Stage
) -> None:
    assert observed(event) == [Passage("uid-1", stage, NOW)]


def test_observation_when_of_something_else_then_no_deployment_has_moved() -> None:
    assert observed(Applied("d"), RowKind.CLUSTER_SECRET, "managed-env-1") == []
    assert observed(Checked("d", "Succeeded", "")) == []


def row(kind: str, *, deleted: bool = False) -> EngineResource:
    return EngineResource(
        engine_instance_id="argocd-1",
        kind=kind,
        namespace="argocd",
        name=application_name("uid-1"),
        workspace="one",
        tenant_namespace="team-a",
        lane="project",
        wave=1,
        desired="present",
        manifest="{}",
        digest="d",
        trace_id="",
        seen_at=NOW,
        deleted=deleted,
    )


def test_row_when_of_an_application_then_it_was_planned_and_streamed() -> None:
    passed = list(journey._of_engine(row(RowKind.APPLICATION), NOW, LATER))
    assert passed == [Passage("uid-1", Stage.PLANNED, NOW), Passage("uid-1", Stage.STREAMED, LATER)]


def test_row_when_of_another_kind_or_gone_then_it_tells_of_nothing() -> None:
    assert list(journey._of_engine(row(RowKind.SYNC_OPERATION), NOW, LATER)) == []
    assert list(journey._of_engine(row(RowKind.APPLICATION, deleted=True), None, LATER)) == []
