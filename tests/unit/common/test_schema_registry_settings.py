"""How settings become what the registry's client is told, and which combinations are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from services.common.avro import SchemaRegistry
from services.common.avro.schema_registry import REQUEST_TIMEOUT_SECONDS, registry_properties
from services.common.errors import InvalidConfiguration
from services.common.settings import SchemaRegistrySettings, load

URL = "https://registry:8443/apis/ccompat/v7"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    file = tmp_path / "ca.crt"
    file.write_text("no certificate")
    return file


def test_properties_when_an_address_is_all_there_is_then_nothing_else_is_set() -> None:
    assert registry_properties("http://registry") == {"url": "http://registry", "timeout": REQUEST_TIMEOUT_SECONDS}


def test_properties_when_with_an_authority_and_a_token_then_both_are_set(authority: Path) -> None:
    settings = SchemaRegistrySettings(
        schema_registry_url=URL, schema_registry_ca=authority, schema_registry_token=SecretStr("hunter2")
    )
    properties = registry_properties(settings)
    assert properties["ssl.ca.location"] == str(authority)
    assert properties["bearer.auth.token"] == "hunter2"
    assert "hunter2" not in repr(settings)


def test_registry_when_the_authority_is_none_then_its_setting_is_named(authority: Path) -> None:
    settings = SchemaRegistrySettings(schema_registry_url=URL, schema_registry_ca=authority)
    with pytest.raises(InvalidConfiguration, match="SCHEMA_REGISTRY_CA"):
        SchemaRegistry(settings)


@pytest.mark.parametrize("named", ["SCHEMA_REGISTRY_TOKEN", "SCHEMA_REGISTRY_CA"])
def test_settings_when_the_address_is_not_encrypted_then_what_counts_on_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, authority: Path, named: str
) -> None:
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://registry")
    monkeypatch.setenv(named, str(authority))
    with pytest.raises(InvalidConfiguration) as refusal:
        load(SchemaRegistrySettings)
    assert f"{named} asks for a SCHEMA_REGISTRY_URL that begins with https://" in str(refusal.value)
    assert str(authority) not in str(refusal.value)
