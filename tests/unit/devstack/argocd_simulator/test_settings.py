"""The simulator's settings as its environment has them."""

from __future__ import annotations

import pytest

from devstack.argocd_simulator.settings import SimulatorSettings
from services.common.errors import InvalidConfiguration
from services.common.settings import load


@pytest.fixture(autouse=True)
def _namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_NAMESPACES", "argocd=argocd")


@pytest.mark.parametrize("writes", [1, 2, 9])
def test_writes_per_sync_when_the_environment_says_so_then_they_are_so_many(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    monkeypatch.setenv("SIMULATOR_WRITES_PER_SYNC", str(writes))
    assert load(SimulatorSettings).simulator_writes_per_sync == writes


@pytest.mark.parametrize("writes", ["3", "many"])
def test_writes_per_sync_when_there_is_no_such_number_then_the_start_is_refused(
    monkeypatch: pytest.MonkeyPatch, writes: str
) -> None:
    monkeypatch.setenv("SIMULATOR_WRITES_PER_SYNC", writes)
    with pytest.raises(InvalidConfiguration, match="SIMULATOR_WRITES_PER_SYNC"):
        load(SimulatorSettings)
