"""The page on retention says of every table when its rows go."""

from __future__ import annotations

import re

from devstack.paths import DOCS
from services.planner.database.tables.metadata import METADATA


def test_table_when_it_exists_then_the_page_says_when_its_rows_go() -> None:
    page = (DOCS / "operations" / "retention.md").read_text()
    first_cells = re.findall(r"^\| ([^|]+) \|", page.partition("## The topics")[0], re.MULTILINE)
    told = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert told == set(METADATA.tables)


def test_setting_when_the_page_names_it_then_there_is_one() -> None:
    page, settings = ((DOCS / name).read_text() for name in ("operations/retention.md", "settings.md"))
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", page))
    assert named
    assert [name for name in named if f"| `{name}` |" not in settings] == []
