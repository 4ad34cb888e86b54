"""Where the first deployment of an environment goes: to the own instance, to one where the tenant has a part, or on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from services.planner.domain.fleet.placement.assignments import PlacementRules, WorkspaceAssignment
from services.planner.domain.fleet.placement.parts import has_room, part_for
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant
from tests.unit.planner.given import at
from tests.unit.planner.world import FLEET

OWN, *_ = FLEET
OWN = replace(OWN, id="own", capacity=10)
PART, FREE, OTHER = (replace(OWN, id=each, namespace=f"argocd-{each}") for each in ("part", "free", "other"))
ITS_OWN = replace(OWN, dedicated_to="local")
TENANT = Tenant(UUID(int=1), "local", "team-a", 0, OWN.id)
PROD = UUID(int=7)


def fleet(*instances: PlacementCandidate, load: Mapping[str, int] | None = None, ring: str = "") -> PlacementView:
    assigned = {"local": WorkspaceAssignment("local", "", ring, at(1))} if ring else {}
    return PlacementView(
        {each.id: each for each in instances}, ENGINES, load=load or {}, rules=PlacementRules(assigned)
    )


@pytest.mark.parametrize(("deployments", "expected"), [(0, True), (6, True), (7, False), (12, False)])
def test_instance_when_seven_tenths_of_it_are_taken_then_a_tenant_has_no_more_room(
    deployments: int, expected: bool
) -> None:
    assert has_room(OWN, deployments) is expected


CASES: dict[str, tuple[PlacementView, dict[str, int], str]] = {
    "room on its own": (fleet(OWN, FREE), {"own": 6}, "own"),
    "none on its own": (fleet(OWN, FREE), {"own": 7}, "free"),
    "a part with room": (fleet(OWN, PART, FREE), {"own": 7, "part": 6}, "part"),
    "a part without room": (fleet(OWN, PART, FREE), {"own": 7, "part": 7}, "free"),
    "a part that takes nobody": (fleet(OWN, replace(PART, accepting=False), FREE), {"own": 7, "part": 1}, "free"),
    "room on its own again": (fleet(OWN, PART, FREE), {"own": 3, "part": 1}, "own"),
    "its own takes no other tenants": (fleet(replace(OWN, accepting=False), FREE), {"own": 3}, "own"),
    "a part on an instance that nobody knows": (fleet(OWN, FREE), {"own": 7, "part": 1}, "free"),
    "no other": (fleet(OWN), {"own": 7}, "own"),
    "another that is full": (fleet(OWN, replace(FREE, accepting=False)), {"own": 7}, "own"),
    "another that is down": (fleet(OWN, replace(FREE, is_down=True), OTHER), {"own": 7}, "other"),
    "another that is not ready": (fleet(OWN, replace(FREE, unready=True)), {"own": 7}, "own"),
    "another of another cluster": (fleet(OWN, replace(FREE, engine_cluster="far")), {"own": 7}, "own"),
    "another of another engine": (fleet(OWN, replace(FREE, engine="flux")), {"own": 7}, "own"),
    "another workspace's": (fleet(OWN, replace(FREE, dedicated_to="team")), {"own": 7}, "own"),
    "a shared one beside its workspace's": (fleet(ITS_OWN, FREE), {"own": 7}, "own"),
    "another of its workspace": (fleet(ITS_OWN, FREE, replace(OTHER, dedicated_to="local")), {"own": 7}, "other"),
    "a shared one beside one of its workspace that is full": (
        fleet(OWN, FREE, replace(OTHER, dedicated_to="local", accepting=False)),
        {"own": 7},
        "own",
    ),
    "a part on a shared one": (fleet(ITS_OWN, PART, FREE), {"own": 7, "part": 1}, "own"),
    "a shared one while its workspace's are of another cluster": (
        fleet(OWN, FREE, replace(OTHER, dedicated_to="local", engine_cluster="far")),
        {"own": 7},
        "free",
    ),
    "another of another ring": (fleet(OWN, replace(FREE, ring="early"), ring="general"), {"own": 7}, "own"),
    "another that carries more than its share": (fleet(OWN, FREE, OTHER, load={"free": 90}), {"own": 7}, "other"),
}


@pytest.mark.parametrize(("known", "parts", "expected"), CASES.values(), ids=CASES)
def test_environment_when_its_first_deployment_comes_then_it_goes_where_there_is_room(
    known: PlacementView, parts: dict[str, int], expected: str
) -> None:
    assert part_for(PROD, TENANT, parts, known) == expected


def test_environments_when_there_are_many_then_they_spread_and_each_goes_the_same_way_whenever_it_is_asked() -> None:
    known = fleet(OWN, FREE, OTHER)
    asked = [part_for(UUID(int=number), TENANT, {"own": 7}, known) for number in range(40)]
    assert asked == [part_for(UUID(int=number), TENANT, {"own": 7}, known) for number in range(40)]
    assert min(asked.count("free"), asked.count("other")) > 10
