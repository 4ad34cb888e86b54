"""Changes of objects that are no children: a row asks for one until the object says it, and no faster than it may."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from services.common.messages import UnownedKind
from services.kinds.shared import desired_object
from services.kinds.shared.resource import Cause
from services.kinds.shared.unowned_objects import UnownedObject
from services.planner.domain import ids
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.steps.child_objects import REAPPLY_AFTER, UNSEEN_AFTER, reconcile_child_objects
from services.planner.domain.steps.unowned_objects import UnownedRequest, reconcile_unowned_objects
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import ENVIRONMENT, WORKSPACE, at, resource
from tests.unit.planner.world import World

SOON = round(REAPPLY_AFTER.total_seconds())
LATER = round(UNSEEN_AFTER.total_seconds())
BIND_COMPLETE, FINALIZER = "dt.appstudio.redhat.com/bind-complete", "binder.appstudio.redhat.com/finalizer"
CLAIM, TARGET = UnownedKind.CLAIM, UnownedKind.TARGET
BOUND = UnownedObject(
    CLAIM, "dev", "uid-dev", spec={"targetName": "t"}, annotations={BIND_COMPLETE: "true"}, finalizers={FINALIZER: True}
)
SAID: dict[str, Any] = {
    "spec": {"targetName": "t", "deploymentTargetClassName": "space"},
    "annotations": {BIND_COMPLETE: "true", "theirs": "stays"},
    "finalizers": [FINALIZER],
}
MADE = UnownedObject(TARGET, "dev-dt", spec={"claimRef": "dev"})


@dataclass
class Namespace:
    """One with an owner that wants something of other objects."""

    world: World = field(default_factory=World)
    due: int = 0
    """When the owner is to be looked at again; 0: it need not."""

    def __post_init__(self) -> None:
        self.world.take(resource(1, ENVIRONMENT, "owner", {}))
        (tenant,) = self.world.tenants
        self.state = self.world.state(tenant).indexed()
        (self.owner,) = self.state.plain_resources.values()
        self.before = self.state

    def show(
        self, second: int, name: str = "dev", uid: str = "", kind: str = "DeploymentTargetClaim", **parts: Any
    ) -> None:
        """The object is there, as ``parts`` say."""
        meta = {"annotations": parts.get("annotations", {}), "finalizers": parts.get("finalizers", [])}
        told = {"spec": json.dumps(parts.get("spec", {})), "metadata": json.dumps(meta)}
        self.put(name, uid, kind, resource_version=str(second), deleting=parts.get("deleting", False), **told)

    def put(self, name: str, uid: str = "", kind: str = CLAIM, **columns: Any) -> None:
        uid = uid or f"uid-{name}"
        known = replace(self.owner, id=ids.resource_id(WORKSPACE, uid), kind=kind, name=name, uid=uid)
        self.state = self.state.with_plain_resources(replace(known, **columns))

    def plan(self, second: int, *wanted: UnownedObject) -> list[ChildRow]:
        """The rows that a plan at this time writes."""
        rows = self.state.child_objects
        context = Context(self.before, self.world.view, self.world.policy, (), at(second))
        cause = Cause(at(second), "t")
        planned = PlannedTenant(self.state, cause=cause)
        requests = [UnownedRequest(self.owner, each) for each in wanted]
        planned = reconcile_unowned_objects(planned, (ENVIRONMENT,), requests, cause, context)
        planned = reconcile_child_objects(planned, context)
        self.due = round((planned.due[self.owner.id] - at(0)).total_seconds()) if planned.due else 0
        self.state = self.before = planned.state
        return [row for key, row in self.state.child_objects.items() if rows.get(key) != row]

    @property
    def rows(self) -> list[ChildRow]:
        return list(self.state.child_objects.values())


@pytest.fixture
def there() -> Namespace:
    """With a claim."""
    namespace = Namespace()
    namespace.show(2)
    namespace.before = namespace.state
    return namespace


def test_object_when_it_is_not_as_wanted_then_its_row_says_what_of_which_object_and_why(there: Namespace) -> None:
    (row,) = there.plan(3, BOUND)
    assert (row.kind, row.name, row.uid, row.desired, row.revision) == (
        "DeploymentTargetClaim", "dev", "uid-dev", "present", 1,
    )  # fmt: skip
    assert (row.owner_kind, row.owner_name, row.owner_uid) == (ENVIRONMENT, "owner", "uid-owner")
    assert json.loads(row.manifest) == {
        "annotations": {BIND_COMPLETE: "true"},
        "finalizers": {FINALIZER: True},
        "labels": {},
        "spec": {"targetName": "t"},
    }
    assert there.plan(4, BOUND) == [], "until the object is told of again"


def test_object_when_it_says_so_already_then_there_is_no_row() -> None:
    namespace = Namespace()
    namespace.show(2, **SAID)
    namespace.before = namespace.state
    assert (namespace.plan(3, BOUND), namespace.rows) == ([], [])


def test_object_when_the_patch_is_undone_then_it_is_asked_again_but_notbefore_the_pace(there: Namespace) -> None:
    there.plan(3, BOUND)
    there.show(4, **SAID)
    assert there.plan(4, BOUND) == []
    there.show(5)
    assert there.plan(5, BOUND) == []
    assert there.due == 3 + SOON
    (row,) = there.plan(3 + SOON, BOUND)
    assert row.revision == 2
    assert there.plan(3 + 9 * SOON, BOUND) == [], "each version is answered once"


def test_object_when_another_controller_disagrees_then_a_row_is_written_once_in_a_while_at_most(
    there: Namespace,
) -> None:
    written = 0
    for second in range(3, 203):
        there.show(second)
        written += len(there.plan(second, BOUND))
    assert 2 <= written <= 200 / SOON + 1


@pytest.mark.parametrize("part", [*SAID])
def test_object_when_one_part_differs_then_it_is_not_as_wanted(part: str) -> None:
    namespace = Namespace()
    namespace.show(2, **{name: value for name, value in SAID.items() if name != part})
    namespace.before = namespace.state
    assert len(namespace.plan(3, BOUND)) == 1


def test_annotation_when_there_is_to_be_none_then_an_object_with_it_is_patched() -> None:
    namespace, unset = Namespace(), UnownedObject(CLAIM, "dev", "uid-dev", annotations={BIND_COMPLETE: None})
    namespace.show(2, **SAID)
    namespace.before = namespace.state
    (row,) = namespace.plan(3, unset)
    assert json.loads(row.manifest)["annotations"] == {BIND_COMPLETE: None}


def test_finalizer_when_the_object_is_being_deleted_then_nobody_waits_for_it_to_be_put_on() -> None:
    namespace, kept = Namespace(), UnownedObject(CLAIM, "dev", "uid-dev", finalizers={FINALIZER: True})
    namespace.show(2, deleting=True)
    namespace.before = namespace.state
    assert namespace.plan(3, kept) == []


def test_object_when_it_is_another_one_by_now_then_its_row_goes(there: Namespace) -> None:
    there.plan(3, BOUND)
    there.put("dev", present=False)
    there.show(4, uid="successor")
    there.plan(4, BOUND)
    assert there.rows == []


def test_object_when_nobody_wants_it_any_more_then_its_row_goes_and_it_stays_as_it_is(there: Namespace) -> None:
    there.plan(3, BOUND)
    there.plan(4)
    assert there.rows == []


def test_object_when_it_is_to_be_made_then_it_is_asked_for_until_there_is_one_of_its_name(there: Namespace) -> None:
    (row,) = there.plan(3, MADE)
    assert (row.kind, row.name, row.uid, row.desired) == ("DeploymentTarget", "dev-dt", "", "present")
    assert there.plan(4, MADE) == []
    assert there.due == 3 + LATER
    (again,) = there.plan(3 + LATER, MADE)
    assert again.revision == 2
    there.show(3 + LATER + 1, "dev-dt", kind="DeploymentTarget")
    there.plan(3 + LATER + 1, MADE)
    assert there.rows == []


def test_object_when_it_is_to_be_deleted_then_its_row_says_so_until_the_deletion_has_begun(there: Namespace) -> None:
    there.show(3, "t", kind="DeploymentTarget")
    going = UnownedObject(TARGET, "t", "uid-t", is_deleted=True)
    (row,) = there.plan(4, going)
    assert (row.desired, row.uid) == ("absent", "uid-t")
    there.show(5, "t", kind="DeploymentTarget", deleting=True)
    there.plan(5, going)
    assert there.rows == []


def test_object_when_what_is_wanted_is_too_long_then_it_is_not_asked_for(
    there: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desired_object, "MAX_MANIFEST", 100)
    assert there.plan(3, UnownedObject(TARGET, "x", spec={"claimRef": "x" * 100})) == []


def test_metadata_when_it_was_left_out_then_what_is_wanted_of_it_is_asked_for_once_for_each_version() -> None:
    namespace = Namespace()
    too_long = {"spec": json.dumps(SAID["spec"]), "metadata": "{}", "metadata_omitted": "too long"}
    namespace.put("dev", **too_long)
    namespace.before = namespace.state
    assert namespace.plan(3, UnownedObject(CLAIM, "dev", "uid-dev", spec={"targetName": "t"})) == []
    assert len(namespace.plan(4, BOUND)) == 1
    assert namespace.plan(4 + 9 * SOON, BOUND) == []
    namespace.put("dev", **too_long, resource_version="999")
    assert len(namespace.plan(5 + 9 * SOON, BOUND)) == 1


def test_deletion_when_nobody_carries_it_out_then_it_is_asked_for_again_when_it_is_due(there: Namespace) -> None:
    there.show(3, "t", kind="DeploymentTarget")
    going = UnownedObject(TARGET, "t", "uid-t", is_deleted=True, unless={CLAIM.value: ("dev",)})
    assert len(there.plan(4, going)) == 1
    assert (there.plan(5, going), there.due) == ([], 4 + LATER)
    (again,) = there.plan(4 + LATER, going)
    assert (again.revision, there.due) == (2, 4 + 2 * LATER)
