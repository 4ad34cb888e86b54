"""What feeds stand between: an API server that can misbehave, and a broker that can lose messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.common.kubernetes import KubeClient
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer, serving
from tests.unit.watcher.fakes import FakePublisher


@pytest.fixture
async def server() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
async def kube(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with serving(server) as client:
        yield client


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()
