"""When a token for the registry expires is told, unless it does not say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from joserfc.jwk import RSAKey
from prometheus_client import REGISTRY
from pydantic import SecretStr

from services.cli.kafka.registry_tokens import RegistryRole, issue_token
from services.common.avro import report_token_expiry
from services.common.avro.registry_token import expiry_of
from services.common.settings import SchemaRegistrySettings

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_gauge_when_a_service_has_a_token_of_ours_then_it_tells_when_that_expires() -> None:
    key = RSAKey.generate_key(2048).as_pem(private=True)
    token = issue_token(key, "planner", RegistryRole.READER, NOW, timedelta(days=365))
    settings = SchemaRegistrySettings(schema_registry_url="https://registry", schema_registry_token=SecretStr(token))
    report_token_expiry("planner", settings)
    assert told("planner") == (NOW + timedelta(days=365)).timestamp()


def test_gauge_when_a_service_has_no_token_then_there_is_none() -> None:
    report_token_expiry("without", SchemaRegistrySettings(schema_registry_url="http://registry"))
    assert told("without") is None


def told(service: str) -> float | None:
    return REGISTRY.get_sample_value("gitops_registry_token_expiration_timestamp_seconds", {"service": service})


OPAQUE = {
    "empty": "",
    "no JSON Web Token": "hunter2",
    "no base64": "e30.%%%.c2ln",
    "no JSON": "e30.aHVudGVyMg.c2ln",
    "no claims": "e30.W10.c2ln",
    "no end": "e30.e30.c2ln",
    "an end that is no number": "e30.eyJleHAiOiJuZXZlciJ9.c2ln",
}


@pytest.mark.parametrize("token", OPAQUE.values(), ids=OPAQUE)
def test_expiry_when_a_token_does_not_say_then_there_is_none(token: str) -> None:
    assert expiry_of(token) is None
