from __future__ import annotations

import orjson
import pytest

from services.common.errors import Permanent
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER
from services.watcher.followed_kinds import FollowedKind
from services.watcher.rows.status_writer import (
    begin_status,
    has_finalizer,
    release_finalizer,
    replace_status,
    status_patch,
    write_members,
)
from tests.unit.watcher.manifests import resource, row

SAME = {"op": "test", "path": "/metadata/uid", "value": "uid-web"}


def test_status_when_replaced_then_its_json_is_sent_as_it_is_after_a_test_of_the_uid() -> None:
    sent = orjson.loads(orjson.dumps(replace_status("uid-web", '{"sync":{"status":"Synced"}}')))
    assert sent == [SAME, {"op": "add", "path": "/status", "value": {"sync": {"status": "Synced"}}}]


def test_members_when_written_then_each_takes_the_place_of_what_is_there_and_none_is_removed() -> None:
    assert write_members("uid-web", {"conditions": [{"type": "Ready"}], "round": None}) == [
        SAME,
        {"op": "add", "path": "/status/conditions", "value": [{"type": "Ready"}]},
        {"op": "add", "path": "/status/round", "value": None},
        {"op": "remove", "path": "/status/round"},
    ]


def test_status_when_begun_then_it_has_our_members_provided_that_there_is_none() -> None:
    assert begin_status("uid-web", {"conditions": [], "round": None}) == [
        SAME,
        {"op": "test", "path": "/status", "value": None},
        {"op": "add", "path": "/status", "value": {"conditions": []}},
    ]


def test_members_when_the_row_has_others_than_ours_then_they_are_not_written() -> None:
    kind = FollowedKind(GITOPS_DEPLOYMENT, own_status=frozenset({"round"}))
    patch = status_patch(kind, row(status='{"round":2,"verdict":{}}'), has_status=True)
    assert patch == [SAME, {"op": "add", "path": "/status/round", "value": 2}]


@pytest.mark.parametrize("text", ["", "no json", "[]", "null"])
def test_members_when_the_row_holds_no_object_then_it_is_refused(text: str) -> None:
    kind = FollowedKind(GITOPS_DEPLOYMENT, own_status=frozenset({"round"}))
    with pytest.raises(Permanent, match="not"):
        status_patch(kind, row(status=text), has_status=True)


RELEASES: dict[str, tuple[list[str], list[str]]] = {
    "only-ours": ([FINALIZER], []),
    "others-stay-in-order": (["a/b", FINALIZER, "c/d"], ["a/b", "c/d"]),
    "ours-twice": ([FINALIZER, "a/b", FINALIZER], ["a/b"]),
}


@pytest.mark.parametrize(("present", "remaining"), RELEASES.values(), ids=RELEASES)
def test_finalizer_when_released_then_only_ours_goes_from_exactly_that_list(
    present: list[str], remaining: list[str]
) -> None:
    assert release_finalizer(resource(finalizers=present)) == [
        SAME,
        {"op": "test", "path": "/metadata/finalizers", "value": present},
        {"op": "replace", "path": "/metadata/finalizers", "value": remaining},
    ]


@pytest.mark.parametrize(
    ("present", "expected"), [(None, False), ([], False), (["a/b"], False), (["a/b", FINALIZER], True)]
)
def test_resource_when_our_finalizer_is_among_its_own_then_it_is_held(
    present: list[str] | None, expected: bool
) -> None:
    assert has_finalizer(resource(finalizers=present)) is expected
