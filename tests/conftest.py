"""Fixtures that every kind of test may use."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.drill_times import pytest_runtest_call, pytest_terminal_summary
from tests.unit.examples import FIXED, SEARCH

WHOLE_SYSTEM = (
    "argocd",
    "argocd_versions",
    "chaos",
    "containers",
    "demo",
    "drills",
    "e2e",
    "engine_clusters",
    "growing",
    "node",
    "node_argocd",
    "node_upgrade",
    "stack",
)
WHOLE_SYSTEM_SECONDS = 900
"""For tests that kill, start and wait for whole processes, several times over."""

__all__ = ["pytest_runtest_call", "pytest_terminal_summary"]
"""Hooks that pytest takes from here."""

STRAY = ("KAFKA_", "SCHEMA_REGISTRY_URL", "DATABASE_", "KUBECONFIG", "SEALING_", "ALLOWED_ADDRESSES")

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=FIXED)
settings.register_profile("search", deadline=None, max_examples=SEARCH)
settings.load_profile("fixed")
"""Properties are tried with the same examples each time; `make search` looks for others (--hypothesis-profile)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--testcontainers",
        action="store_true",
        help="Component tests: take PostgreSQL and Kafka from testcontainers, not from the local stack.",
    )


def folder_of(nodeid: str) -> str:
    """Of tests, the one that a test is in."""
    return nodeid.split("/", 2)[1]


PLANNER = "tests/component/planner/"
"""Takes about as long as all other tests of one service together: beside these, with a stack of its own."""


class StackScheduling(LoadScopeScheduling):
    """How ``make test`` divides tests among processes: those that share a stack are run by one of them."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(PLANNER):
            return PLANNER
        folder = folder_of(nodeid)
        return folder if folder == "component" or folder in WHOLE_SYSTEM else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> StackScheduling:
    return StackScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if folder_of(item.nodeid) in WHOLE_SYSTEM:
            item.add_marker(pytest.mark.timeout(WHOLE_SYSTEM_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def _no_stray_settings() -> None:
    """A developer's shell may hold the variables of a running stack; tests must not reach it by accident."""
    for name in [name for name in os.environ if name.startswith(STRAY)]:
        del os.environ[name]


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """It is the process's: what a command of ours has set up in this one must not silence another test's lines."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture(scope="session")
def stacks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests keep the stacks they start."""
    return tmp_path_factory.mktemp("stacks")
