"""Fixtures that every kind of test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

WHOLE_SYSTEM = ("argocd", "containers", "e2e", "node", "stack")
WHOLE_SYSTEM_SECONDS = 900
"""For tests that kill, start and wait for whole processes, several times over."""

SHARE_A_STACK = (*WHOLE_SYSTEM, "component")

STRAY = ("KAFKA_", "SCHEMA_REGISTRY_URL", "DATABASE_", "KUBECONFIG", "SEALING_", "ALLOWED_ADDRESSES")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--testcontainers",
        action="store_true",
        help="Component tests: take PostgreSQL and Kafka from testcontainers, not from the local stack.",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in WHOLE_SYSTEM:
            item.add_marker(pytest.mark.timeout(WHOLE_SYSTEM_SECONDS))
        if folder in SHARE_A_STACK:  # so one of the processes that `make test` divides tests among has them all
            item.add_marker(pytest.mark.xdist_group(folder))


@pytest.fixture(scope="session", autouse=True)
def _no_stray_settings() -> None:
    """A developer's shell may hold the variables of a running stack; tests must not reach it by accident."""
    for name in [name for name in os.environ if name.startswith(STRAY)]:
        del os.environ[name]


@pytest.fixture(scope="session")
def stacks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests keep the stacks they start."""
    return tmp_path_factory.mktemp("stacks")
