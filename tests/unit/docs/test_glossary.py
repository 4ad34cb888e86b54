"""Each word of the glossary has one meaning, and docs/architecture.md leads to it and to each design."""

from __future__ import annotations

import re
from collections import Counter

from devstack.paths import ROOT

DOCS = ROOT / "docs"
ROW = re.compile(r"^\| ([^|]+) \| [^|]", re.MULTILINE)


def words() -> list[str]:
    _, *rows = ROW.findall((DOCS / "glossary.md").read_text())
    return [word for row in rows for word in row.split(", ")]


def test_glossary_when_read_then_no_word_is_explained_twice() -> None:
    assert [word for word, times in Counter(words()).items() if times > 1] == []


def test_glossary_when_looked_for_in_the_architecture_then_a_link_leads_there() -> None:
    _, _, section = (DOCS / "architecture.md").read_text().partition("\n## Glossary\n")
    assert "(glossary.md)" in section


def test_designs_when_listed_then_index_and_architecture_have_each() -> None:
    pages = {file.name for file in (DOCS / "design").glob("*.md")} - {"README.md"}
    assert (
        set(re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\)", (DOCS / "design/README.md").read_text(), re.MULTILINE))
        == pages
    )
    assert set(re.findall(r"\(design/([\w-]+\.md)", (DOCS / "architecture.md").read_text())) - {"README.md"} == pages
