"""What a child object's manifest is, and when a live object lacks something of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.common.json_values import digest
from services.common.messages import MAX_MANIFEST, ChildKind
from services.kinds.shared.child_objects import ChildObject, LiveChild, differs

SPEC = {"a": 1, "nested": {"b": "x"}, "list": [{"c": 1}], "empty": []}
WANTED = ChildObject(ChildKind.DEPLOYMENT, "web", SPEC, {"ours": "yes"}, {"note": "n"})


def live(spec: Any = SPEC, **told: Any) -> LiveChild:
    text = spec if isinstance(spec, str) or spec is None else json.dumps(spec)
    return LiveChild("uid", "7", deleting=False, spec=text, **told)


def test_manifest_when_it_is_written_then_it_is_canonical_and_has_all_that_we_own() -> None:
    assert json.loads(WANTED.manifest) == {"annotations": {"note": "n"}, "labels": {"ours": "yes"}, "spec": SPEC}
    assert WANTED.digest == digest(WANTED.manifest)
    again = ChildObject(ChildKind.DEPLOYMENT, "web", dict(reversed(SPEC.items())), {"ours": "yes"}, {"note": "n"})
    assert again.digest == WANTED.digest
    assert WANTED.key == ("GitOpsDeployment", "web")


def test_manifest_when_it_is_longer_than_a_message_may_be_then_it_is_oversized() -> None:
    def child(length: int) -> ChildObject:
        return ChildObject(ChildKind.DEPLOYMENT, "web", {"a": "x" * length})

    frame = len(child(0).manifest)
    assert not child(MAX_MANIFEST - frame).is_oversized
    assert child(MAX_MANIFEST - frame + 1).is_oversized


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(live(), False, id="the same"),
        pytest.param(live(SPEC | {"theirs": 2}), False, id="more fields"),
        pytest.param(live(SPEC | {"nested": {"b": "x", "theirs": 1}}), False, id="more fields within"),
        pytest.param(live(SPEC | {"a": 2}), True, id="another value"),
        pytest.param(live({"a": 1}), True, id="fewer fields"),
        pytest.param(live(SPEC | {"nested": {"b": "y"}}), True, id="another value within"),
        pytest.param(live(SPEC | {"nested": None}), True, id="nothing within"),
        pytest.param(live(SPEC | {"list": [{"c": 1}, {"c": 2}]}), True, id="a longer list"),
        pytest.param(live(SPEC | {"empty": ["theirs"]}), True, id="a list that is to be empty"),
        pytest.param(live(SPEC | {"list": [{"c": 1, "d": 2}]}), True, id="more fields in a list"),
        pytest.param(live({"a": 1, "nested": {"b": "x"}, "list": [{"c": 1}]}), False, id="what is empty is missing"),
        pytest.param(live([]), True, id="no mapping"),
        pytest.param(live("{"), True, id="no JSON"),
        pytest.param(live(None), False, id="a spec that is not told"),
        pytest.param(live(labels={"ours": "yes", "theirs": "1"}), False, id="more labels"),
        pytest.param(live(labels={"ours": "no"}), True, id="another label"),
        pytest.param(live(labels={}), True, id="no label"),
        pytest.param(live(annotations={"theirs": "1"}), True, id="no annotation of ours"),
    ],
)
def test_live_object_when_compared_then_only_what_we_own_counts(there: LiveChild, expected: bool) -> None:
    assert differs(WANTED.manifest, there) == expected
