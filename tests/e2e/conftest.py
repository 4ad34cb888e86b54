"""Everything together: one running stack, shared by all end-to-end tests, each in a tenant of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.harness.hosted import UNHURRIED, WATCHFUL, HostedStack, hosted
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module

QUOTA = 200
"""GitOpsDeployments of a tenant: fewer than users have, for it takes time to exhaust it."""

BINDING_PATIENCE = "PT15S"
"""Minutes elsewhere."""


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    with hosted(
        stacks_folder / "e2e",
        *UNHURRIED,
        *WATCHFUL,
        "--set",
        f"TENANT_QUOTAS=GitOpsDeployment={QUOTA}",
        "--set",
        "NEW_SNAPSHOTS=promoted",
        "--set",
        f"BINDING_PATIENCE={BINDING_PATIENCE}",
        "--set",
        "LOCAL_WORKSPACES=local=default,local=elsewhere",  # where tests place tenants whose engines deploy nothing
        output=stacks_folder / "e2e.out",
    ) as running:
        yield running
