"""What Connect is told so that it sends the row of a dead letter again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.cli.dead_letters import row_snapshots
from services.cli.dead_letters.row_snapshots import table_of
from services.common.avro import SchemaRegistry
from tests.unit.cli.dead_letters.letters import stored


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("gitops.engine.eu-2", '"public"."engine_resources"'),
        ("gitops.engine", '"public"."engine_resources"'),  # of releases before
        ("gitops.engines", None),
        ("gitops.workspace", '"public"."workspace_resources"'),
        ("gitops.workspace.a.b", '"public"."workspace_resources_a.b"'),
        ('gitops.workspace.a"."b', None),
        ("gitops.objects", '"public"."other_workspace_objects"'),
        ("gitops.objects.a.b", '"public"."workspace_objects_a.b"'),
        ('gitops.objects.a"."b', None),
        ("parked_events", None),
        ("gitops.dead-letters", None),
    ],
)
def test_table_when_a_topic_streams_rows_then_it_is_theirs(topic: str, table: str | None) -> None:
    assert table_of(topic) == table


def test_row_when_asked_for_then_its_table_is_named_in_quotes_and_its_key_is_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = {"workspace": "a.b", "namespace": "team-a", "kind": "GitOpsDeployment", "name": "it's"}
    monkeypatch.setattr(row_snapshots, "row_of", lambda *_: key)
    letter = replace(stored().letter, topic="gitops.workspace.a.b")
    table = '"public"."workspace_resources_a.b"'
    condition = "workspace = 'a.b' AND namespace = 'team-a' AND kind = 'GitOpsDeployment' AND name = 'it''s'"
    assert row_snapshots.snapshot_request(stored(letter=letter), SchemaRegistry("http://localhost:1")) == {
        "type": "incremental",
        "data-collections": [table],
        "additional-conditions": [{"data-collection": table, "filter": condition}],
    }
