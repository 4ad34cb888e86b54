"""The planner plans a kind that it was never told of but by its registry."""

from __future__ import annotations

from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.api_group import FINALIZER
from services.planner.domain.dormancy import WAITING_KEPT
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from tests.unit.kinds.toy.kind import FREEZE, KIND
from tests.unit.planner.given import resource, resource_gone
from tests.unit.planner.tenant import conditions
from tests.unit.planner.world import World

WITH_TOY = Registry((*REGISTRY.kinds, KIND))


def world() -> World:
    return World(policy=Policy(kinds=WITH_TOY, limits=WITH_TOY.limits()))


def freeze(second: int, name: str = "holidays", reason: str = "nobody is here", *, deleting: bool = False) -> Event:
    content = {"gitopsDeploymentName": "web", "reason": reason}
    generation = 2 if deleting else 1
    return resource(
        second, FREEZE.kind, name, content, finalizers=(FINALIZER,), deleting=deleting, generation=generation
    )


def audit_records(planned: World) -> list[tuple[str, str, str]]:
    """Kind, action and state of each, in order."""
    return [(known.kind, known.action, known.state) for known in planned.resources_audited]


def test_kind_when_its_command_comes_then_its_status_is_shown_and_its_operation_has_ended() -> None:
    planned = world()
    planned.take(freeze(1))
    assert conditions(planned, FREEZE.kind, "holidays") == {"Frozen": ("True", "Frozen", "nobody is here")}
    assert audit_records(planned) == [(FREEZE.kind, "create", "Completed")]
    assert planned.engine == {}


def test_kind_when_its_spec_is_refused_then_status_and_operation_say_so() -> None:
    planned = world()
    planned.take(freeze(1, reason=""))
    assert conditions(planned, FREEZE.kind, "holidays")["Frozen"] == ("False", "NoReason", "reason must not be empty")
    assert audit_records(planned) == [(FREEZE.kind, "create", "Failed")]


def test_kind_when_a_tenant_has_more_than_its_quota_then_the_newest_waits_until_one_goes() -> None:
    planned = world()
    planned.take(freeze(1, "first"), freeze(2, "second"), freeze(3, "third"))
    assert conditions(planned, FREEZE.kind, "third")["Frozen"][1] == "QuotaExceeded"
    planned.take(resource_gone(4, FREEZE.kind, "first"))
    assert conditions(planned, FREEZE.kind, "third")["Frozen"][1] == "Frozen"


def test_kind_when_very_many_wait_then_those_beyond_are_dormant_until_an_event_names_them() -> None:
    planned = world()
    planned.take(*(freeze(second, f"freeze-{second:03d}") for second in range(1, 2 * WAITING_KEPT)))
    assert planned.dormant
    youngest = f"freeze-{2 * WAITING_KEPT - 1:03d}"
    planned.take(freeze(1000, youngest, reason="another one"))
    assert conditions(planned, FREEZE.kind, youngest)["Frozen"][1] == "QuotaExceeded"
    planned.take(resource_gone(1001, FREEZE.kind, "freeze-001"))
    assert conditions(planned, FREEZE.kind, "freeze-003")["Frozen"][1] == "Frozen"


def test_kind_when_its_resource_is_deleted_then_the_finalizer_is_released_and_nothing_stays() -> None:
    planned = world()
    planned.take(freeze(1))
    planned.take(freeze(2, deleting=True))
    assert [row.release_finalizer for row in planned.workspace.values()] == [True]
    planned.take(resource_gone(3, FREEZE.kind, "holidays"))
    assert (planned.resources, planned.workspace, planned.tenants) == ({}, {}, {})
    assert audit_records(planned)[-1] == (FREEZE.kind, "delete", "Completed")
