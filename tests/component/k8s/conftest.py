"""The manifests of ``k8s/``, rendered by the real kustomize."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from devstack.toolchain import install as toolchain
from devstack.toolchain.progress_bar import reporter
from tests.component.k8s.manifests import Rendered, render


@pytest.fixture(scope="package")
def kustomize() -> Path:
    """Built if it is not there yet."""
    with reporter(Console()) as report:
        return toolchain.generators(report) / "kustomize"


@pytest.fixture(scope="package")
def kubectl() -> Path:
    """Likewise."""
    with reporter(Console()) as report:
        return toolchain.kubectl(report) / "kubectl"


@pytest.fixture(scope="package")
def rendered(kustomize: Path) -> Rendered:
    """Once for all tests."""
    return render(kustomize)
