"""How long drills have taken: at the end of a run as rows of docs/operations/drills.md.

A drill counts from the first step of its runbook until all that its test asserts is so. What is made before that, and
what is taken down afterwards, does not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from devstack.paths import DOCS

DRILL = "drill"
"""Name of the property of a test's report: the page and the seconds."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Iterator[None]:
    """Note how long it has taken since the test's operator began with a runbook."""
    yield
    drill = getattr(item.funcargs.get("operator"), "drill", None)
    if drill is not None:
        item.user_properties.append((DRILL, [drill.page, time.monotonic() - drill.since]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a row for each drill that was passed."""
    passed = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    rows = [_row(report.nodeid, *value) for report in passed for name, value in report.user_properties if name == DRILL]
    if rows:
        terminalreporter.section("rows of docs/operations/drills.md")
        for row in sorted(rows):
            terminalreporter.write_line(row)


def _row(test: str, page: str, seconds: float) -> str:
    title = (DOCS / "operations" / page).read_text().partition("\n")[0].removeprefix("# ")
    return f"| [{title}]({page}) | {seconds:.0f} s | `{test.removeprefix('tests/')}` |"
