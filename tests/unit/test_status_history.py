"""What tests take for something that a user has seen of a move: any change of a status that means something."""

from __future__ import annotations

from typing import Any, cast

import pytest

from devstack.harness.mirror import Mirror
from services.common.kubernetes import Changed, Deleted, KubeClient, Manifest, Seen
from tests.e2e.status_history import BY_COMMIT, changes_seen, seen_by_user, statuses_of
from tests.e2e.tenant import Tenant
from tests.e2e.version_history import Version
from tests.unit.test_version_history import Server

CONDITION = {
    "type": "ErrorOccurred",
    "status": "False",
    "reason": "ErrorOccurredResolved",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "lastProbeTime": "2026-01-01T00:00:00Z",
}
STATUS: dict[str, Any] = {
    "sync": {"status": "Synced", "revision": "abc"},
    "health": {"status": "Healthy"},
    "resources": [{"kind": "ConfigMap", "name": "settings", "status": "Synced"}],
    "operationState": {"phase": "Succeeded", "finishedAt": "2026-01-01T00:00:00Z"},
    "reconciledState": {"source": {"path": "app"}},
    "conditions": [CONDITION],
}
WITHOUT_MEANING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a probe": {"conditions": [CONDITION | {"lastProbeTime": "2026-01-02T00:00:00Z"}]},
}
SEEN: dict[str, dict[str, Any]] = {
    "sync status": {"sync": {"status": "OutOfSync", "revision": "abc"}},
    "revision": {"sync": {"status": "Synced", "revision": "def"}},
    "health": {"health": {"status": "Progressing"}},
    "health message": {"health": {"status": "Healthy", "message": "again"}},
    "resources": {"resources": []},
    "another operation": {"operationState": {"phase": "Succeeded", "finishedAt": "2026-01-02T00:00:00Z"}},
    "no operation": {"operationState": None},
    "reconciled state": {"reconciledState": {"source": {"path": "other"}}},
    "condition": {"conditions": [CONDITION | {"status": "True"}]},
    "transition": {"conditions": [CONDITION | {"lastTransitionTime": "2026-01-02T00:00:00Z"}]},
    "another condition": {"conditions": [CONDITION, CONDITION | {"type": "SyncError"}]},
    "no condition": {"conditions": []},
    "another part": {"new": {}},
}


def web(version: int, **status: Any) -> Manifest:
    metadata = {"name": "web", "namespace": "team-a", "uid": "1", "resourceVersion": str(version)}
    return {"metadata": metadata, "status": STATUS | status}


@pytest.mark.parametrize("change", WITHOUT_MEANING.values(), ids=WITHOUT_MEANING)
def test_status_when_it_differs_in_what_means_nothing_then_its_user_has_seen_no_change(change: dict[str, Any]) -> None:
    assert changes_seen([STATUS, STATUS | change, STATUS]) == []


@pytest.mark.parametrize("change", SEEN.values(), ids=SEEN)
def test_status_when_any_part_is_another_for_a_moment_then_both_changes_are_seen(change: dict[str, Any]) -> None:
    (part,) = change
    there, back = changes_seen([STATUS, STATUS | change, STATUS])
    assert (there.partition(":")[0], back.partition(":")[0]) == (part, part)


def test_change_when_told_then_it_is_with_both_values() -> None:
    told = changes_seen([STATUS, STATUS | {"health": {"status": "Missing"}}])
    assert told == ["health: {'status': 'Healthy'} → {'status': 'Missing'}"]


def test_changes_when_a_commit_accounts_for_them_then_they_are_left_out_and_others_are_not() -> None:
    committed = {"sync": {"status": "OutOfSync"}, "resources": [], "operationState": {}, "health": {}}
    assert [each.partition(":")[0] for each in changes_seen([STATUS, committed], BY_COMMIT)] == [
        "conditions",
        "health",
        "reconciledState",
    ]


def test_deployment_when_it_is_gone_for_a_moment_then_every_part_is_seen_to_go_and_come() -> None:
    versions: list[Version] = [Seen(web(1)), Deleted(web(2)), Changed(web(3))]
    assert len(changes_seen(statuses_of(versions))) == 2 * len(STATUS)


def tenant_of(server: Server) -> Tenant:
    return Tenant("team-a", cast("KubeClient", server), Mirror(), Mirror())


async def test_changes_when_the_watch_is_behind_then_they_are_of_every_version_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(web(1), Changed(web(2, health={"status": "Missing"})), Changed(web(3)))
    server.watched(monkeypatch)
    async with seen_by_user(tenant_of(server)) as seen:
        assert len(await seen.changes()) == 2


async def test_history_when_the_deployment_is_not_healthy_to_begin_with_then_it_does_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(web(1, health={"status": "Degraded"}), Changed(web(2)))
    server.watched(monkeypatch)
    with pytest.raises(AssertionError, match="Degraded"):
        async with seen_by_user(tenant_of(server)):
            pass
