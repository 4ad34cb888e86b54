"""What of the rows that only topics have is kept, what may go, and what of that the guard refuses."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.guards.approvals import name_of
from services.cli.rebuild.unknown_rows import SHOWN, Removal, Unknown, kept_as, removals_of
from services.common.messages import EngineResource, PendingClaim, WorkspaceResource
from services.planner.domain.policy import SweepGuard
from tests.unit.cli.rebuild.compiled_rows import compiled

ROW: Any = None
GUARD = SweepGuard(share=0.5, minimum=2)


def unknown(
    engine: int = 0,
    workspace: int = 0,
    children: int = 0,
    claims: int = 0,
    kind: str = "GitOpsDeployment",
    **known: int,
) -> Unknown:
    objects = {("one", "Application", "argocd", f"app-{number}"): ROW for number in range(engine)}
    statuses = {("local", "team-a", "Secret", f"secret-{number}"): ROW for number in range(workspace)}
    made = {("local", "team-a", kind, f"child-{number}"): ROW for number in range(children)}
    waiting = {("local", "team-a", f"claim-{number}", "uid"): ROW for number in range(claims)}
    return Unknown(objects, statuses, known, made, waiting)


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        pytest.param(unknown(engine=5, one=5), {}, id="half of an instance"),
        pytest.param(unknown(engine=6, one=5), {"one": "it would lose 6 of 11"}, id="more than half"),
        pytest.param(unknown(engine=2), {}, id="few, though they are all"),
        pytest.param(unknown(children=4, local=3), {"local": "it would lose 4 of 7"}, id="child objects"),
        pytest.param(unknown(children=4, kind="DeploymentTarget", local=3), {}, id="patches, which remove nothing"),
        pytest.param(unknown(claims=4, local=3), {}, id="claims that wait, which have nothing"),
        pytest.param(
            unknown(engine=1, workspace=3, one=9), {"local": "it would lose 3 of 3"}, id="statuses of a workspace"
        ),
    ],
)
def test_sweep_when_it_would_remove_much_then_it_is_refused_for_that_instance_or_workspace(
    found: Unknown, refused: dict[str, str]
) -> None:
    assert {each.place: why for each, why in found.refused(GUARD, ()).items()} == refused


def test_sweep_when_one_removal_is_approved_by_name_then_it_goes_and_another_does_not() -> None:
    found = unknown(engine=6, workspace=3, one=5)
    names = {each.place: name_of(each) for each in found.refused(GUARD, ())}
    assert [each.place for each in found.refused(GUARD, [names["one"]])] == ["local"]
    assert [each.place for each in found.refused(GUARD, ["one"])] == ["local", "one"], "not what would go"
    more = unknown(engine=7, workspace=3, one=5)
    assert [each.place for each in more.refused(GUARD, names.values())] == ["one"], "it is another by now"


def test_removal_when_its_keys_are_found_in_another_order_then_its_name_is_the_same() -> None:
    (of_one,) = removals_of([("one", ("one", "A", "b", "c")), ("one", ("one", "A", "b", "d"))])
    (other,) = removals_of([("one", ("one", "A", "b", "d")), ("one", ("one", "A", "b", "c"))])
    assert name_of(of_one) == name_of(other) != name_of(Removal("one"))


def test_sweep_when_told_then_keys_are_named_but_not_without_end() -> None:
    told = "105 objects, 0 statuses, 0 child objects and 0 pending claims"
    lines = list(unknown(engine=SHOWN + 5).described("that no row has"))
    assert lines[:2] == [f"{told} that no row has", "one: Application argocd/app-0"]
    assert (len(lines), lines[-1]) == (SHOWN + 2, "… and 5 more")


OBJECTS = [
    compiled(EngineResource, workspace="local", tenant_namespace="team-a", kind=kind)
    for kind in ("Application", "AppProject", "ClusterSecret")
]
STATUS = compiled(WorkspaceResource, workspace="local", namespace="team-a")
CLAIM = compiled(PendingClaim, workspace="local", namespace="team-a")
STRANGE = compiled(EngineResource, workspace="never-added", tenant_namespace="team-a")


@pytest.mark.parametrize("row", [*OBJECTS, STATUS, CLAIM])
@pytest.mark.parametrize(
    ("uncertain", "kept"),
    [
        pytest.param({"local/team-a"}, "local/team-a", id="its tenant is parked or has a spec that is not in force"),
        pytest.param({"local/team-b", "other/team-a"}, "", id="other tenants are"),
    ],
)
def test_sweep_when_the_database_may_not_know_all_of_a_tenant_then_all_of_it_is_kept(
    row: Any, uncertain: set[str], kept: str
) -> None:
    assert kept_as(row, uncertain, ["local"]) == kept


def test_sweep_when_a_workspace_was_not_added_then_its_objects_are_kept() -> None:
    assert kept_as(STRANGE, set(), ["local"]) == "never-added"


def test_sweep_when_divided_then_each_is_in_one_part_and_the_guard_still_knows_all_rows() -> None:
    found = Unknown({("one", "Application", "argocd", "a"): STRANGE}, {("local", "team-a", "Secret", "s"): STATUS}, {})
    withdrawn, kept = found.divided(lambda row: row is STRANGE)
    assert (withdrawn, kept) == (Unknown({}, found.statuses, {}), Unknown(found.objects, {}, {}))
    assert not Unknown({}, {}, {"one": 5})
