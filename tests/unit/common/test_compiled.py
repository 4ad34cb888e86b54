"""Child objects as they are streamed: a row, the tombstone of one, and what is neither."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from services.common.errors import Poison
from services.common.messages import ChildKind, WorkspaceObject

KEY = {
    "workspace": "teams",
    "namespace": "team-a",
    "kind": "GitOpsDeploymentManagedEnvironment",
    "name": "managed-environment-prod",
}
RECORD: dict[str, Any] = {
    **KEY,
    "desired": "present",
    "uid": "",
    "owner_api_version": "appstudio.redhat.com/v1alpha1",
    "owner_kind": "Environment",
    "owner_name": "prod",
    "owner_uid": "uid-prod",
    "manifest": '{"annotations":{},"labels":{},"spec":{}}',
    "digest": "d1",
    "revision": 7,
    "trace_id": "trace",
    "seen_at": "2026-05-04T12:30:15.123456Z",
    "updated_at": "2026-05-04T12:30:15.2Z",
    "__deleted": "false",
}


def test_object_when_its_record_is_read_then_it_has_every_column_that_a_watcher_needs() -> None:
    row = WorkspaceObject.from_record(RECORD)
    assert row.identity == tuple(KEY.values())
    assert (row.desired, row.uid, row.manifest, row.digest) == ("present", "", RECORD["manifest"], "d1")
    owner = (row.owner_api_version, row.owner_kind, row.owner_name, row.owner_uid)
    assert owner == ("appstudio.redhat.com/v1alpha1", "Environment", "prod", "uid-prod")
    assert (row.revision, row.trace_id, row.deleted) == (7, "trace", False)
    assert row.seen_at == datetime(2026, 5, 4, 12, 30, 15, 123456, tzinfo=UTC)


def test_object_when_its_row_is_deleted_then_its_key_tells_which_it_was() -> None:
    row = WorkspaceObject.from_tombstone(KEY)
    assert (row.identity, row.desired, row.deleted) == (tuple(KEY.values()), "absent", True)


@pytest.mark.parametrize("column", sorted(RECORD.keys() - {"updated_at"}))
def test_object_when_its_record_lacks_a_column_then_it_is_poison(column: str) -> None:
    with pytest.raises(Poison, match="WorkspaceObject"):
        WorkspaceObject.from_record({name: value for name, value in RECORD.items() if name != column})


@pytest.mark.parametrize("column", KEY)
def test_tombstone_when_its_key_lacks_a_column_then_it_is_poison(column: str) -> None:
    with pytest.raises(Poison, match="WorkspaceObject"):
        WorkspaceObject.from_tombstone({name: value for name, value in KEY.items() if name != column})


def test_child_kind_when_it_is_compared_with_its_text_then_it_is_that() -> None:
    """A row's kind crossed a wire: it is compared with these, and another one is refused."""
    assert {*ChildKind} == {"GitOpsDeployment", "GitOpsDeploymentManagedEnvironment", "SecretCopy"}
