"""What a rebuild withdraws from the topics, what of that the guard refuses, and how tables and topics are compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest

from services.agent.objects.desired_objects import is_released
from services.cli.guards.approvals import name_of
from services.cli.rebuild.placements import placements_claimed
from services.cli.rebuild.streamed_topics import Comparison, Key, StreamedTopics, claim_of, compare
from services.cli.rebuild.topic_sweep import (
    SHOWN,
    Removal,
    Unknown,
    _by_object,
    _uid_to_remove,
    departing,
    kept_as,
    removals_of,
)
from services.common.avro import SchemaRegistry
from services.common.errors import Poison
from services.common.json_values import digest
from services.common.kafka import ConsumedMessage
from services.common.messages import EngineResource, PendingClaim, WorkspaceObject, WorkspaceResource
from services.planner.domain.policy import SweepGuard
from services.planner.rows.compiled import EngineObjectKey
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.fleet.test_moves import Agents, ordered, until
from tests.unit.planner.given import changed, credential, environment, secret
from tests.unit.planner.tenant import REMOTE
from tests.unit.planner.world import World

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


def compiled(row: type[Any], **columns: str) -> Any:
    return row(**dict.fromkeys(field.name for field in fields(row)) | columns)


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


@pytest.mark.parametrize(("kind", "uid"), [("GitOpsDeployment", "uid-1"), ("DeploymentTarget", "")])
def test_sweep_when_it_withdraws_an_object_then_none_to_delete_is_named_but_a_child(kind: str, uid: str) -> None:
    """A patch names the uid of a user's own object."""
    assert _uid_to_remove(compiled(WorkspaceObject, kind=kind, uid="uid-1")) == {"uid": uid}


def streamed(step: str) -> tuple[list[EngineResource], str, str]:
    """What the topics hold while a tenant's move is at ``step``; and its source and target."""
    world = World()
    agents = Agents(world)
    world.take(secret(1), environment(2, createNewServiceAccount=True))
    world.take(secret(3, "login", "repository-credential"), credential(4))
    agents.settle()
    world.take(changed(5, content=REMOTE))
    agents.settle()
    move = ordered(world)
    until(world, agents, step)
    names = [field.name for field in fields(EngineResource) if field.name != "deleted"]
    rows = [{name: getattr(row, name) for name in names} for row in world.engine.values()]
    return [EngineResource(**row, deleted=False) for row in rows], move.source, move.target


def keys_of(rows: Iterable[EngineResource]) -> set[EngineObjectKey]:
    return {(row.kind, row.name) for row in rows}


@pytest.mark.parametrize(
    ("step", "is_target_left"),
    [("preparing", True), ("pausing", True), ("releasing", True), ("adopting", False)],
)
def test_sweep_when_a_tenant_was_being_moved_then_the_instance_that_does_not_have_it_leaves_the_account_to_the_other(
    step: str, *, is_target_left: bool
) -> None:
    rows, source, target = streamed(step)
    (placed,) = placements_claimed(claim for row in rows if (claim := claim_of(row)) is not None).tenants.values()
    wanted = [row for row in rows if row.engine_instance_id == placed]
    unknown_rows = [row for row in rows if row.engine_instance_id != placed]
    assert {row.engine_instance_id for row in unknown_rows} == {target if is_target_left else source}
    assert {row.kind for row in unknown_rows} == {"AppProject", "ClusterSecret", "RepositorySecret"}
    assert not any(map(is_released, unknown_rows)), "by the topics alone an agent would remove the account"
    told = [departing(row, keys_of(wanted)) for row in unknown_rows]
    assert {row.kind for row in told if is_released(row)} == {"ClusterSecret", "RepositorySecret"}
    assert [row.identity for row in told] == [row.identity for row in unknown_rows]
    assert all(row.digest == digest(row.manifest) for row in told)
    (cluster,) = [json.loads(row.manifest)["recipe"] for row in told if row.kind == "ClusterSecret"]
    assert cluster["createServiceAccount"]


def test_sweep_when_no_instance_wants_an_object_any_more_then_what_was_made_with_it_goes_too() -> None:
    rows, *_ = streamed("preparing")
    others = {(kind, f"{name}-of-another") for kind, name in keys_of(rows)}
    assert [departing(row, others) for row in rows] == rows


def test_sweep_when_another_instance_has_an_application_then_what_it_has_deployed_stays() -> None:
    rows, *_ = streamed("preparing")
    (application,) = [row for row in rows if row.kind == "Application"]
    assert not is_released(application)
    assert is_released(departing(application, keys_of(rows)))


def test_order_to_an_agent_when_it_is_withdrawn_then_it_stays_as_it_is() -> None:
    order = compiled(EngineResource, kind="OrphanRemoval", name="one", manifest="{}")
    assert departing(order, {("OrphanRemoval", "one")}) is order


def test_object_when_reported_gone_then_its_key_is_found_by_instance_kind_and_name() -> None:
    key, other = ("one", "Application", "argocd", "app-1"), ("two", "Application", "argocd", "app-1")
    found = _by_object([key, other])
    assert found.get(("one", "Application", "app-1")) == [key]
    assert found.get(("one", "AppProject", "app-1")) is None


def test_rows_when_compared_with_their_topic_then_each_is_counted_once() -> None:
    def key(name: str) -> tuple[str, str, str, str]:
        return ("one", "Application", "argocd", name)

    rows = {key("same"): "present 1", key("other"): "present 2", key("new"): "present 3"}
    streamed = {key("same"): "present 1", key("other"): "absent 2", key("gone"): "present 4"}
    assert compare(rows, streamed) == Comparison(unchanged=1, differing=1, new=1, unknown=1)


@pytest.mark.parametrize(
    ("messages", "found", "unreadable"),
    [
        pytest.param([(b"k", b"row")], ["k"], [], id="all are decoded"),
        pytest.param([(b"k", b"what"), (b"l", b"row")], ["l"], [0], id="one is not"),
        pytest.param([(b"k", b"what"), (b"k", b"row")], ["k"], [], id="a newer one of its key is"),
        pytest.param([(b"k", b"row"), (b"k", b"what")], ["k"], [1], id="an older one of its key is"),
        pytest.param([(b"k", b"what"), (b"k", None)], [], [], id="its row was deleted since"),
    ],
)
def test_topic_when_read_then_messages_that_cannot_be_decoded_are_noted_unless_a_newer_one_makes_up_for_them(
    monkeypatch: pytest.MonkeyPatch,
    messages: list[tuple[bytes, bytes | None]],
    found: list[str],
    unreadable: list[int],
) -> None:
    def decoded(_: object, message: ConsumedMessage, __: object) -> tuple[Key, WorkspaceResource | None]:
        if message.value == b"what":
            raise Poison("schema 7 is not in the registry")
        name = (message.key or b"").decode()
        row = compiled(WorkspaceResource, workspace="local", namespace="team-a", kind="Secret", name=name)
        return ("local", "team-a", "Secret", name), row if message.value else None

    log = [consumed("gitops.workspace.local", number, *each) for number, each in enumerate(messages)]
    monkeypatch.setattr(StreamedTopics, "_messages", lambda *_: log)
    monkeypatch.setattr(StreamedTopics, "_decoded", decoded)
    topics = StreamedTopics("localhost:1", SchemaRegistry("http://localhost:1"))
    for _ in range(2):
        assert [name for *_, name in topics.unknown_statuses("local", {})] == found
        assert [each.offset for each in topics.unreadable] == unreadable
