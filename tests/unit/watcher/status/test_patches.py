from __future__ import annotations

import orjson
import pytest

from services.kinds.shared.api_group import FINALIZER
from services.watcher.status.status_writer import has_finalizer, release_finalizer, replace_status
from tests.unit.watcher.manifests import resource

SAME = {"op": "test", "path": "/metadata/uid", "value": "uid-web"}


def test_status_when_replaced_then_its_json_is_sent_as_it_is_after_a_test_of_the_uid() -> None:
    sent = orjson.loads(orjson.dumps(replace_status("uid-web", '{"sync":{"status":"Synced"}}')))
    assert sent == [SAME, {"op": "add", "path": "/status", "value": {"sync": {"status": "Synced"}}}]


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
