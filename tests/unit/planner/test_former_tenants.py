"""A namespace that was deleted and made again by somebody else is another tenant, in everything."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.common.messages import Observation
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.shared.catalogue import TENANT_PARKED
from services.planner.domain import plan as plan_module
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.dormancy import WAITING_KEPT
from services.planner.domain.events import Event, NamespaceReplaced
from services.planner.domain.ids import tenant_id
from services.planner.domain.tenants_of_name import CLOCKS_DIFFER_MS
from services.planner.pipeline.batch_planning import plan_batch
from services.planner.pipeline.parking import kept_event, resolved
from services.planner.rows.compiled import EngineRow
from tests.unit.planner.given import (
    NAMESPACE,
    WORKSPACE,
    Applied,
    Checked,
    Removed,
    changed,
    credential,
    environment,
    gone,
    in_namespace,
    observed,
    resource_gone,
    resync,
    secret,
    status,
    sync_run,
)
from tests.unit.planner.tenant import MANUAL, REMOTE, conditions, finish, operation, rows
from tests.unit.planner.world import NOW, World

FORMER, LATTER = ("former", 1000), ("latter", 60_000)
"""Uids of two namespaces of one name, and when they were created."""
KINDS = ("Application", "AppProject", "ClusterSecret", "RepositorySecret")


def everything(second: int, tag: str, epoch: int = 1) -> list[Event]:
    """One of each, whose names are always the same."""
    type_ = "managed-gitops.redhat.com/managed-environment"
    return [
        secret(second, uid=f"uid-kubeconfig-{tag}", epoch=epoch),
        environment(second + 1, uid=f"uid-prod-{tag}", secret_type=type_, epoch=epoch),
        secret(second + 2, "login", "repository-credential", uid=f"uid-secret-login-{tag}", epoch=epoch),
        credential(second + 3, uid=f"uid-login-{tag}", epoch=epoch),
        changed(second + 4, uid=f"uid-web-{tag}", content=REMOTE, epoch=epoch),
    ]


def wanted(world: World) -> dict[str, list[str]]:
    return {kind: [row.name for row in rows(world, kind) if row.desired == "present"] for kind in KINDS}


def owned(world: World, namespace: tuple[str, int]) -> list[EngineRow]:
    """All rows for engines of the tenant whose namespace this is."""
    (tenant,) = [each for each in world.tenants.values() if each.namespace_uid == namespace[0]]
    lane = world.view.engine(tenant).lane(tenant.id)
    return [row for row in world.engine.values() if row.lane == lane]


def reports(world: World, second: int, held: EngineRow, event: Any) -> None:
    world.take(observed(second, event, instance=held.engine_instance_id, kind=held.kind, name=held.name))


def works(world: World, second: int) -> None:
    for kind in ("ClusterSecret", "RepositorySecret"):
        for row in rows(world, kind):
            if row.desired == "present":
                reports(world, second, row, Checked(row.digest, "Succeeded", ""))


def removes_all(world: World, second: int) -> None:
    """As agents do, until nothing has to go any more."""
    while leaving := [row for row in world.engine.values() if row.desired == "absent"]:
        for row in leaving:
            reports(world, second, row, Removed(forced=False))


def shown(world: World) -> dict[str, str]:
    """Uid of the resource of each status, by name."""
    return {name: row.uid for (_, _, _, name), row in world.workspace.items()}


def namespaces(world: World) -> dict[str, bool]:
    """Whether it is a former one, by uid."""
    return {tenant.namespace_uid: tenant.is_former for tenant in world.tenants.values()}


def strings(value: Any) -> set[str]:
    """All texts in a JSON value, at any depth."""
    if isinstance(value, dict):
        return {text for part in value.values() for text in strings(part)}
    if isinstance(value, list):
        return {text for part in value for text in strings(part)}
    return {value} if isinstance(value, str) else set()


def replay(world: World) -> None:
    """As the loop does with the parked tenant, once the rule is mended."""
    (parked,) = world.parked.values()
    events = [*(kept_event(row) for row in world.parked_events), *world.shown_of(parked.tenant_id)]
    world.write_changes(BatchChanges(other=Changes(unparked=(parked.tenant_id,))))
    world.write_changes(plan_batch(events, world, world.policy, NOW, parked.full_name))
    world.save_changes(resolved(parked, world.find_parked_statuses(parked), NOW))


@pytest.fixture
def deployed(world: World) -> World:
    """A tenant that has one of everything, and all of it works."""
    world.take(*in_namespace(FORMER, *everything(1, "former")))
    works(world, 10)
    assert all(wanted(world).values())
    return world


@pytest.fixture
def recycled(deployed: World) -> World:
    """Somebody else has its name, and one of everything under the same names; nothing was removed yet."""
    deployed.take(*in_namespace(LATTER, *everything(70, "latter")))
    works(deployed, 80)
    return deployed


def test_namespace_when_it_is_made_again_then_nothing_of_before_is_left(deployed: World) -> None:
    before = wanted(deployed)
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    after = wanted(deployed)
    assert after["Application"] == ["gitopsdepl-uid-other"]
    assert (after["ClusterSecret"], after["RepositorySecret"]) == ([], [])
    assert shown(deployed) == {}
    assert not [each.name for each in deployed.resources.values() if each.present]
    assert {row.desired for row in rows(deployed, "Application") if row.name in before["Application"]} == {"absent"}
    removes_all(deployed, 90)
    assert {row.name for row in deployed.engine.values()} == {*after["Application"], *after["AppProject"]} - {
        *before["AppProject"]
    }
    assert namespaces(deployed) == {"latter": False}


def test_namespace_when_the_same_names_are_made_in_it_then_they_are_others_without_what_was_known(
    deployed: World,
) -> None:
    before = {kind: set(names) for kind, names in wanted(deployed).items() if kind != "AppProject"}
    deployed.take(*in_namespace(LATTER, *everything(70, "latter")))
    works(deployed, 80)
    after = wanted(deployed)
    assert all(after.values())
    assert not [kind for kind, names in before.items() if names & set(after[kind])]
    assert shown(deployed) == {"prod": "uid-prod-latter", "login": "uid-login-latter"}


def test_objects_when_a_namespace_is_made_again_then_the_newcomers_name_nothing_of_the_former_tenants(
    recycled: World,
) -> None:
    former, latter = owned(recycled, FORMER), owned(recycled, LATTER)
    assert {row.kind for row in former} == {row.kind for row in latter} == set(KINDS)
    ids = {row.name for row in former} | {json.loads(row.manifest)["metadata"]["name"] for row in former}
    projects = {row.name for row in former if row.kind == "AppProject"}
    assert {json.loads(row.manifest)["recipe"]["project"] for row in former if "Secret" in row.kind} == projects
    named = {text for row in latter for text in strings(json.loads(row.manifest))}
    assert not ids & named
    assert not {row.lane for row in former} & {row.lane for row in latter}


def test_former_tenant_when_its_last_object_is_gone_then_nothing_remembers_it_and_the_newcomer_stays(
    recycled: World,
) -> None:
    kept = {row.name for row in owned(recycled, LATTER)}
    removes_all(recycled, 90)
    assert namespaces(recycled) == {"latter": False}
    assert {row.name for row in recycled.engine.values()} == kept
    assert {row.tenant_id for row in recycled.resources.values()} == set(recycled.tenants)


def test_former_tenant_when_it_had_synced_then_its_runs_are_not_remembered(world: World) -> None:
    world.take(*in_namespace(FORMER, changed(1, content=MANUAL), sync_run(2)))
    finish(world, 3, "now")
    world.take(resource_gone(4, "GitOpsDeploymentSyncRun", "now"))
    assert world.dormant
    world.memory.clear()
    world.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    removes_all(world, 90)
    assert (world.sync_runs, world.dormant, namespaces(world)) == ({}, set(), {"latter": False})


def test_reports_when_both_tenants_have_objects_then_each_is_of_whom_it_is_about(recycled: World) -> None:
    former, latter = (
        next(row for row in owned(recycled, each) if row.kind == "Application") for each in (FORMER, LATTER)
    )
    reports(recycled, 90, latter, Applied(latter.digest))
    reports(recycled, 91, former, status(sync={"status": "OutOfSync"}))
    reports(recycled, 92, latter, status(sync={"status": "Synced"}))
    (row,) = (row for (*_, name), row in recycled.workspace.items() if name == "web")
    assert (row.uid, json.loads(row.status)["sync"]["status"]) == ("uid-web-latter", "Synced")


def test_quotas_when_the_former_tenants_objects_are_not_removed_yet_then_they_do_not_count(world: World) -> None:
    world.policy = replace(
        world.policy, limits=REGISTRY.limits({GITOPS_DEPLOYMENT.kind: 1, MANAGED_ENVIRONMENT.kind: 1})
    )
    for namespace, second in ((FORMER, 1), (LATTER, 70)):
        world.take(*in_namespace(namespace, *everything(second, namespace[0])))
        works(world, second + 5)
    assert {row.kind for row in owned(world, FORMER)} == {row.kind for row in owned(world, LATTER)} == set(KINDS)
    assert not [each for each in world.resources.values() if each.over_quota]


def test_secret_when_it_is_handed_to_agents_then_they_are_told_which_namespace_it_is_sealed_for(
    deployed: World,
) -> None:
    def told(row: EngineRow) -> str:
        return str(json.loads(row.manifest)["recipe"]["secret"]["namespaceUID"])

    assert {told(row) for kind in ("ClusterSecret", "RepositorySecret") for row in rows(deployed, kind)} == {"former"}


def test_tenant_of_before_when_a_watcher_tells_its_namespace_then_it_is_that_and_keeps_everything(
    world: World,
) -> None:
    world.take(*everything(1, "former"))
    works(world, 10)
    before = (wanted(world), shown(world))
    world.take(*in_namespace(FORMER, *everything(1, "former", epoch=2)))
    assert (wanted(world), shown(world)) == before
    assert namespaces(world) == {"former": False}
    assert world.tenants.keys() == {tenant_id(WORKSPACE, NAMESPACE)}
    world.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    assert wanted(world)["Application"] == ["gitopsdepl-uid-other"]
    assert namespaces(world) == {"former": True, "latter": False}


def test_message_when_it_is_late_and_of_the_namespace_of_before_then_it_changes_nothing(deployed: World) -> None:
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    before = deployed.rows()
    late = [*everything(20, "former"), changed(30, "late", uid="uid-late")]
    deployed.take(*in_namespace(FORMER, *late))
    assert deployed.rows() == before
    deployed.take(gone(80, "other", uid="uid-other"))
    before = deployed.rows()
    deployed.take(*in_namespace(FORMER, *late))
    assert deployed.rows() == before


def test_message_when_it_tells_no_namespace_then_it_is_of_the_one_that_is_known(deployed: World) -> None:
    deployed.take(changed(20, "other", uid="uid-other"))
    assert len(wanted(deployed)["Application"]) == 2
    assert len(deployed.tenants) == 1


def test_message_when_it_tells_no_namespace_and_only_former_ones_are_known_then_it_changes_nothing(
    deployed: World,
) -> None:
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    deployed.take(gone(80, "other", uid="uid-other"))
    latter = next(row for row in owned(deployed, LATTER) if row.kind == "Application")
    reports(deployed, 81, latter, Removed(forced=False))
    removes_all_of(deployed, 82, LATTER)
    assert namespaces(deployed) == {"former": True}
    before = deployed.rows()
    deployed.take(changed(90, "late", uid="uid-late"))
    assert deployed.rows() == before


def test_namespace_when_the_first_that_it_shows_survived_the_one_of_before_then_the_former_tenant_still_ends(
    deployed: World,
) -> None:
    survivor = changed(70, uid="uid-web-former", content=REMOTE, epoch=2)
    deployed.take(*in_namespace(LATTER, survivor))
    assert namespaces(deployed) == {"former": True}
    assert [kind for kind, names in wanted(deployed).items() if names] == ["AppProject"]
    assert shown(deployed) == {}
    deployed.take(*in_namespace(LATTER, changed(71, "other", uid="uid-other"), survivor))
    assert wanted(deployed)["Application"] == ["gitopsdepl-uid-other"]
    assert namespaces(deployed) == {"former": True, "latter": False}


def test_resources_when_they_survive_their_namespace_then_they_are_the_newcomers_once_the_former_tenant_is_gone(
    deployed: World,
) -> None:
    survivors = in_namespace(LATTER, *everything(70, "former", epoch=2))
    deployed.take(*survivors, *in_namespace(LATTER, changed(76, "other", uid="uid-other")))
    assert wanted(deployed)["Application"] == ["gitopsdepl-uid-other"]
    assert [each.name for each in deployed.resources.values() if each.present] == []
    removes_all(deployed, 90)
    assert namespaces(deployed) == {"latter": False}
    deployed.take(*in_namespace(LATTER, *everything(100, "former", epoch=3)))
    works(deployed, 110)
    held = [row.name for row in owned(deployed, LATTER) if row.kind == "Application"]
    assert sorted(held) == ["gitopsdepl-uid-other", "gitopsdepl-uid-web-former"]
    assert shown(deployed) == {"prod": "uid-prod-former", "login": "uid-login-former"}


@pytest.mark.parametrize("is_known", [True, False])
def test_changes_when_resources_survive_their_namespace_then_those_of_both_tenants_have_no_id_in_common(
    world: World, is_known: bool
) -> None:
    former = in_namespace(FORMER, *everything(1, "former"))
    if is_known:
        world.take(*former)
    latter = in_namespace(LATTER, *everything(70, "former", epoch=2), changed(76, "other", uid="uid-other"))
    batch = plan_batch([*former, *latter], world, world.policy, NOW)
    ids = [row.id for row in (*batch.written.deployments, *batch.written.plain_resources)]
    assert len(ids) == len(set(ids))
    assert [each.tenant.namespace_uid for each in batch.tenants if each.tenant.is_former] == ["former"]
    world.save_changes(batch)
    assert wanted(world)["Application"] == ["gitopsdepl-uid-other"]


def test_parked_tenant_when_its_resources_survive_its_namespace_then_the_newcomer_has_its_own_alone(
    deployed: World,
) -> None:
    _parks_former(deployed, *in_namespace(FORMER, changed(20, uid="uid-web-former", generation=2, content=REMOTE)))
    deployed.take(*in_namespace(LATTER, *everything(70, "former", epoch=2)))
    deployed.take(*in_namespace(LATTER, *everything(80, "former", epoch=2), changed(86, "other", uid="uid-other")))
    assert [row.name for row in owned(deployed, LATTER) if row.kind == "Application"] == ["gitopsdepl-uid-other"]
    replay(deployed)
    removes_all(deployed, 90)
    assert namespaces(deployed) == {"latter": False}


def removes_all_of(world: World, second: int, namespace: tuple[str, int]) -> None:
    for row in owned(world, namespace):
        reports(world, second, row, Removed(forced=False))


def test_namespace_when_it_is_told_with_its_logical_cluster_then_it_is_the_same(deployed: World) -> None:
    before = wanted(deployed)
    deployed.take(*in_namespace(("root/former", 1000), *everything(1, "former", epoch=2)))
    assert (wanted(deployed), namespaces(deployed)) == (before, {"root/former": False})
    deployed.take(*in_namespace(("other/former", 60_000), changed(70, "other", uid="uid-other")))
    assert namespaces(deployed) == {"root/former": True, "other/former": False}


def test_namespace_when_its_api_server_is_back_from_a_backup_then_the_older_one_counts(deployed: World) -> None:
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    later = LATTER[1] + CLOCKS_DIFFER_MS + 1
    deployed.take(*in_namespace(FORMER, *everything(20, "former", epoch=later)))
    assert wanted(deployed)["Application"] == ["gitopsdepl-uid-web-former"]
    assert namespaces(deployed) == {"former": False, "latter": True}
    before = deployed.rows()
    deployed.take(*in_namespace(LATTER, changed(71, "late", uid="uid-late", epoch=LATTER[1])))
    assert deployed.rows() == before


def test_late_message_when_its_list_began_about_when_the_namespace_was_made_again_then_it_changes_nothing(
    deployed: World,
) -> None:
    deployed.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    before = deployed.rows()
    about_then = LATTER[1] + CLOCKS_DIFFER_MS
    deployed.take(*in_namespace(FORMER, changed(71, "late", uid="uid-late", epoch=about_then)))
    assert deployed.rows() == before


def test_namespace_when_more_was_in_it_than_the_quotas_allow_then_that_is_forgotten_too(world: World) -> None:
    world.policy = replace(world.policy, limits=REGISTRY.limits({MANAGED_ENVIRONMENT.kind: 1}))
    crowd = (environment(number, f"e-{number:03d}") for number in range(1, WAITING_KEPT + 50))
    world.take(*in_namespace(FORMER, *crowd))
    world.memory.clear()
    world.take(*in_namespace(LATTER, changed(70, "other", uid="uid-other")))
    assert (wanted(world)["ClusterSecret"], shown(world)) == ([], {})
    assert not [each for each in world.resources.values() if each.present]
    world.take(resync(80, 5, kind=MANAGED_ENVIRONMENT.kind))
    assert not world.resources


def _fail(*_: object) -> None:
    raise ZeroDivisionError


def _parks_former(world: World, *events: Event) -> None:
    """A rule fails on ``events``."""
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", _fail)
        world.take(*events)


def test_parked_tenant_when_its_namespace_is_made_again_then_the_newcomer_is_not_held_up(deployed: World) -> None:
    _parks_former(deployed, *in_namespace(FORMER, changed(20, uid="uid-web-former", generation=2, content=REMOTE)))
    assert TENANT_PARKED.message in conditions(deployed, GITOPS_DEPLOYMENT.kind, "web")["ErrorOccurred"]
    deployed.take(*in_namespace(LATTER, *everything(70, "latter")))
    works(deployed, 80)
    assert {row.kind for row in owned(deployed, LATTER) if row.desired == "present"} == set(KINDS)
    application = next(row for row in owned(deployed, LATTER) if row.kind == "Application")
    reports(deployed, 81, application, status(sync={"status": "Synced"}))
    deployed.take(*in_namespace(LATTER, changed(90, uid="uid-web-latter", generation=2, content=REMOTE)))
    assert {name: uid for name, uid in shown(deployed).items() if name == "web"} == {"web": "uid-web-latter"}
    assert namespaces(deployed) == {"former": True, "latter": False}
    assert [parked.tenant_id for parked in deployed.parked.values()] == [tenant_id(WORKSPACE, NAMESPACE, "former")]


def test_parked_tenant_when_its_namespace_is_made_again_then_only_what_concerns_it_is_kept(deployed: World) -> None:
    _parks_former(deployed, *in_namespace(FORMER, changed(20, uid="uid-web-former", generation=2, content=REMOTE)))
    deployed.take(*in_namespace(LATTER, *everything(70, "latter")))
    before = len(deployed.parked_events)
    works(deployed, 80)
    application = next(row for row in owned(deployed, LATTER) if row.kind == "Application")
    reports(deployed, 81, application, status(sync={"status": "Synced"}))
    deployed.take(gone(82, uid="uid-web-latter"))
    kept = [kept_event(row).message for row in deployed.parked_events]
    assert sum(isinstance(each, NamespaceReplaced) for each in kept) == 1
    about_former = [each for each in kept[before:] if isinstance(each, Observation)]
    assert {each.name for each in about_former} <= {row.name for row in owned(deployed, FORMER)}
    assert not [each for each in kept[before:] if not isinstance(each, Observation)]


def test_parked_tenant_when_it_is_a_former_one_and_goes_on_then_it_ends_and_the_newcomer_stays(
    deployed: World,
) -> None:
    _parks_former(deployed, *in_namespace(FORMER, changed(20, uid="uid-web-former", generation=2, content=REMOTE)))
    deployed.take(*in_namespace(LATTER, *everything(70, "latter")))
    works(deployed, 80)
    kept = (shown(deployed), owned(deployed, LATTER))
    replay(deployed)
    assert (shown(deployed), owned(deployed, LATTER)) == kept
    assert {row.desired for row in owned(deployed, FORMER) if row.kind != "AppProject"} == {"absent"}
    removes_all(deployed, 90)
    assert (deployed.parked, namespaces(deployed)) == ({}, {"latter": False})


def test_former_tenant_when_a_rule_fails_as_it_ends_then_it_alone_is_parked_and_shows_nothing(
    deployed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(planned: Any, cause: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(plan_module, "end_all", failing)
        deployed.take(*in_namespace(LATTER, *everything(70, "latter")))
        works(deployed, 80)
    assert {row.kind for row in owned(deployed, LATTER) if row.desired == "present"} == set(KINDS)
    assert len(deployed.parked) == 1
    assert shown(deployed) == {"prod": "uid-prod-latter", "login": "uid-login-latter"}
    assert not [row for row in deployed.workspace.values() if TENANT_PARKED.message in row.status]
    replay(deployed)
    removes_all(deployed, 90)
    assert namespaces(deployed) == {"latter": False}


def test_tenant_when_it_is_parked_at_first_sight_and_its_namespace_is_made_again_then_both_are_told_apart(
    world: World,
) -> None:
    _parks_former(world, *in_namespace(FORMER, *everything(1, "former")))
    assert namespaces(world) == {"former": False}
    world.take(*in_namespace(LATTER, *everything(70, "latter")))
    works(world, 80)
    assert {row.kind for row in owned(world, LATTER) if row.desired == "present"} == set(KINDS)
    replay(world)
    assert namespaces(world) == {"latter": False}


def test_marker_when_the_former_tenant_is_parked_then_the_newcomer_is_swept(deployed: World) -> None:
    _parks_former(deployed, *in_namespace(FORMER, changed(20, uid="uid-web-former", generation=2, content=REMOTE)))
    deployed.take(*in_namespace(LATTER, *everything(70, "latter"), changed(75, "more", uid="uid-more")))
    again = [changed(74, uid="uid-web-latter", content=REMOTE, epoch=3)]
    deployed.take(*in_namespace(LATTER, *again), resync(80, epoch=3))
    present = {row.uid for row in deployed.deployments.values() if row.present}
    assert present == {"uid-web-former", "uid-web-latter"}
    replay(deployed)
    assert {row.uid for row in deployed.deployments.values() if row.present} == {"uid-web-latter"}


def test_sync_run_when_it_has_outlived_its_namespace_then_it_does_not_run_again_in_the_next(world: World) -> None:
    """As a controller of namespaces leaves it that did not know custom resources yet when it emptied one."""
    world.take(*in_namespace(FORMER, changed(1, content=MANUAL), sync_run(2)))
    finish(world, 3, "now")
    ((_, before),) = [(key, row) for key, row in world.workspace.items() if key[-1] == "now"]
    world.take(*in_namespace(LATTER, changed(4, "new", uid="uid-new", content=MANUAL, epoch=4)))
    removes_all(world, 5)
    outlived = changed(6, content=MANUAL, epoch=4), sync_run(6, epoch=4, recalled=before.status)
    world.take(*in_namespace(LATTER, *outlived))
    assert "gitopsdepl-uid-1" in wanted(world)["Application"]
    assert rows(world, "SyncOperation") == []
    assert operation(world, "now") == json.loads(before.status)["operation"]
