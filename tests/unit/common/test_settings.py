"""Settings name what is wrong with them, and never show a value."""

from __future__ import annotations

import pytest

from services.common.errors import InvalidConfiguration
from services.common.settings import ServiceSettings, load, parse_engine_namespaces


def test_settings_when_a_variable_is_missing_and_one_is_wrong_then_both_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "ftp://user:hunter2@registry")
    with pytest.raises(InvalidConfiguration) as refusal:
        load(ServiceSettings)
    assert "KAFKA_BOOTSTRAP_SERVERS: is not set; " in str(refusal.value)
    assert "SCHEMA_REGISTRY_URL" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("argocd", {"argocd": "argocd"}),
        ("argocd, other", {"argocd": "argocd", "other": "other"}),
        ("eu=argocd,us=argocd", {"eu": "argocd", "us": "argocd"}),
    ],
)
def test_engine_namespaces_when_well_formed_then_they_are_read(value: str, expected: dict[str, str]) -> None:
    assert parse_engine_namespaces(value) == expected


@pytest.mark.parametrize("value", ["", " , ", "=argocd", "a,a", "a=x,a=y"])
def test_engine_namespaces_when_malformed_then_refused(value: str) -> None:
    with pytest.raises(ValueError, match="instance"):
        parse_engine_namespaces(value)
