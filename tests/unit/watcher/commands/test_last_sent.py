from __future__ import annotations

from typing import Any

import pytest

from services.watcher.commands.last_sent import LastSent, fingerprint
from tests.unit.watcher.manifests import resource

SENT: dict[str, Any] = {"generation": 3, "finalizers": ["a/b"]}

CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, True),
    "status-only": ({"resourceVersion": "43"}, True),
    "labels": ({"labels": {"a": "b"}}, True),
    "spec": ({"generation": 4}, False),
    "deletion-asked-for": ({"deletionTimestamp": "2026-05-04T12:00:00Z"}, False),
    "finalizer-added": ({"finalizers": ["a/b", "c/d"]}, False),
    "finalizers-gone": ({"finalizers": []}, False),
    "created-anew": ({"uid": "another"}, False),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_event_when_only_what_does_not_matter_changed_then_it_is_an_echo(
    change: dict[str, Any], expected: bool
) -> None:
    last_sent, now = LastSent(), resource(**SENT | change)
    last_sent.note_state("uid-web", fingerprint(resource(**SENT)))
    assert last_sent.is_echo(now["metadata"]["uid"], fingerprint(now)) is expected


def test_resource_when_never_sent_then_its_event_is_no_echo() -> None:
    assert not LastSent().is_echo("uid-web", fingerprint(resource()))


@pytest.mark.parametrize(
    "forget", [lambda sent: sent.forget_object("uid-web"), LastSent.clear], ids=["gone", "new-list"]
)
def test_resource_when_forgotten_then_its_next_event_is_no_echo(forget: Any) -> None:
    last_sent = LastSent()
    last_sent.note_state("uid-web", fingerprint(resource()))
    assert "uid-web" in last_sent
    forget(last_sent)
    assert not last_sent.is_echo("uid-web", fingerprint(resource()))
    assert "uid-web" not in last_sent
    assert len(last_sent) == 0
