"""How a table and its topic are compared."""

from __future__ import annotations

from services.cli.rebuild.table_comparison import Comparison, compare


def test_rows_when_compared_with_their_topic_then_each_is_counted_once() -> None:
    def key(name: str) -> tuple[str, str, str, str]:
        return ("one", "Application", "argocd", name)

    rows = {key("same"): "present 1", key("other"): "present 2", key("new"): "present 3"}
    streamed = {key("same"): "present 1", key("other"): "absent 2", key("gone"): "present 4"}
    assert compare(rows, streamed) == Comparison(unchanged=1, differing=1, new=1, unknown=1)
