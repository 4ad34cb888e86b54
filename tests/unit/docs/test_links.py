"""Every link in the documentation leads somewhere, and every file that it names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FOLDERS = ("bench", "chaos", "devstack", "migrations", "services", "tests")
FILES = [str(file) for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
MODULE = re.compile(r"`([\w/-]+\.py)(?:::[^`]*)?`")
MODULES = re.compile(r"`((?:watcher|planner|agent)/[\w/]*)(?:\{([\w,\s]+)\})?`")
"""One or several of a folder of ``services/``, without their ending."""
PATH = re.compile(
    r"`((?:bench|chaos|compose|devstack|docs|examples|k8s|migrations|schemas|services|tests|toolchain)/[\w./-]*)`"
)
"""A file or a folder, from the root of the repository on."""
NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def links() -> Iterator[object]:
    for page in PAGES:
        for target in LINK.findall(CODE.sub("", page.read_text())):
            if not target.startswith(("http://", "https://", "mailto:")):
                yield pytest.param(page, target, id=f"{page.relative_to(ROOT)}-{target}")


@pytest.mark.parametrize(("page", "target"), list(links()))
def test_link_when_it_is_followed_then_file_and_heading_exist(page: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    assert file.exists()
    assert file.is_relative_to(ROOT)
    assert not anchor or anchor in _anchors(file)


def modules() -> Iterator[object]:
    for page in PAGES:
        text = page.read_text()
        named = set(MODULE.findall(text))
        for folder, several in MODULES.findall(text):
            named |= {f"{folder}{name.strip()}" for name in several.split(",")}
        for name in sorted(named):
            yield pytest.param(name, id=f"{page.relative_to(ROOT)}-{name}")


@pytest.mark.parametrize("name", list(modules()))
def test_module_when_a_page_names_it_then_it_is_there(name: str) -> None:
    ending = "/" + name.removesuffix(".py") + ".py"
    assert any(file.endswith(ending) for file in FILES)


@pytest.mark.parametrize("path", sorted(set(PATH.findall((ROOT / "CONTRIBUTING.md").read_text()))))
def test_path_when_contributors_are_sent_there_then_it_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    return {anchor_of(heading) for heading in HEADING.findall(page.read_text())}


def anchor_of(heading: str) -> str:
    """The one that GitHub makes of it."""
    return NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-")
