"""Fixtures that every kind of test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

STRAY = ("KAFKA_", "SCHEMA_REGISTRY_URL", "DATABASE_", "KUBECONFIG", "SEALING_", "ALLOWED_ADDRESSES")


@pytest.fixture(scope="session", autouse=True)
def _no_stray_settings() -> None:
    """A developer's shell may hold the variables of a running stack; tests must not reach it by accident."""
    for name in [name for name in os.environ if name.startswith(STRAY)]:
        del os.environ[name]


@pytest.fixture(scope="session")
def stacks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests keep the stacks they start."""
    return tmp_path_factory.mktemp("stacks")
