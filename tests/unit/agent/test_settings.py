"""What an agent refuses to start with."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from services.agent.settings import AgentSettings
from services.common.errors import InvalidConfiguration
from services.common.settings import load

ENVIRONMENT = {
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092",
    "SCHEMA_REGISTRY_URL": "http://127.0.0.1:8080",
    "SEALING_PRIVATE_KEYS": "/keys.json",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def test_settings_when_only_the_needed_ones_are_set_then_nothing_unusual_is_allowed() -> None:
    settings = load(AgentSettings)
    assert (settings.engine_cluster, settings.consumer_group) == ("default", "gitops-agent-default")
    assert settings.sealing_private_keys == Path("/keys.json")
    assert settings.allowed_addresses.refusal(ip_address("127.0.0.1")) != ""


@pytest.mark.parametrize("namespace", ["gitops-service", "kube-system", "openshift-monitoring"])
def test_platform_namespaces_when_none_is_named_then_those_of_the_cluster_are(namespace: str) -> None:
    settings = load(AgentSettings)
    assert settings.is_platform(namespace)
    assert not settings.is_platform(f"team-{namespace}")


def test_platform_namespaces_when_some_are_named_then_they_are_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATFORM_NAMESPACES", "kafka, monitoring")
    platform = load(AgentSettings).is_platform
    assert [platform(name) for name in ("kafka", "monitoring", "team-a")] == [True, True, False]


def test_group_when_it_is_another_clusters_agent_then_it_shares_with_that_clusters_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINE_CLUSTER", "eu-2")
    settings = load(AgentSettings)
    assert (settings.consumer_group, settings.topic_of_rows) == ("gitops-agent-eu-2", "gitops.engine.eu-2")
    monkeypatch.setenv("AGENT_GROUP", "mine")
    monkeypatch.setenv("ENGINE_TOPIC", "ours")
    settings = load(AgentSettings)
    assert (settings.consumer_group, settings.topic_of_rows) == ("mine", "ours")


def test_allowed_addresses_when_set_then_they_may_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_ADDRESSES", "127.0.0.0/8, ::1/128")
    assert load(AgentSettings).allowed_addresses.refusal(ip_address("127.0.0.1")) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALLOWED_ADDRESSES", "127.0.0.0/40"),
        ("ENGINE_CLUSTER", "EU_2"),
        ("ENGINE_CLUSTER", ""),
        ("SSH_KNOWN_HOSTS", "/nowhere"),
        ("GIT_AUTHORITIES", "/nowhere"),
        ("CHECK_INTERVAL_SECONDS", "1"),
        ("FAILED_CHECK_INTERVAL_SECONDS", "1"),
        ("TOKEN_LIFETIME_SECONDS", "60"),
        ("CHECKS_AT_ONCE", "0"),
        ("HEALTH_REPORT_SECONDS", "61"),
    ],
)
def test_setting_when_it_is_invalid_then_it_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidConfiguration, match=name):
        load(AgentSettings)


def test_private_keys_when_they_are_not_set_then_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEALING_PRIVATE_KEYS")
    with pytest.raises(InvalidConfiguration, match="SEALING_PRIVATE_KEYS"):
        load(AgentSettings)
