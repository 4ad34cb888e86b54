"""A node with the release from before the newest revision of the database, shared by all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from tests.e2e.conftest import applications, deployments, kube, tenant
from tests.node.conftest import kubectl
from tests.node.releases import Release, extract, newest_revision
from tests.node.stacks import stack_with_node

__all__ = ["applications", "deployments", "kube", "kubectl", "tenant"]


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """As that release starts it: programs of the stack are taken from the folder that one is in."""
    with (
        chdir(extract(f"{newest_revision()}~1", stacks_folder)),
        stack_with_node(stacks_folder / "node-upgrade") as running,
    ):
        yield running


@pytest.fixture(scope="package")
def first_of_revision(stacks_folder: Path) -> Release:
    """The release that brought the newest revision of the database: other code than these sources'."""
    return Release(extract(newest_revision(), stacks_folder), "first-of-revision")
