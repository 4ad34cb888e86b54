"""The page on retention says of every table when its rows go."""

from __future__ import annotations

import re

from devstack.paths import DOCS
from services.planner.database.tables import metadata


def test_table_when_it_exists_then_the_page_says_when_its_rows_go() -> None:
    page = (DOCS / "operations" / "retention.md").read_text()
    first_cells = re.findall(r"^\| ([^|]+) \|", page.partition("## The topics")[0], re.MULTILINE)
    told = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert told == set(metadata.tables)
