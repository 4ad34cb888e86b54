"""Tokens of the schema registry hold who, what and until when; the command that prints one asks nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from typer.testing import CliRunner

from services.cli.kafka import schemas
from services.cli.kafka.registry_tokens import RegistryRole, issue_token
from services.common.errors import InvalidConfiguration

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048)


@pytest.mark.parametrize(
    ("role", "named"),
    [
        (RegistryRole.READER, "sr-readonly"),
        (RegistryRole.WRITER, "sr-developer"),
        (RegistryRole.ADMINISTRATOR, "sr-admin"),
    ],
)
def test_token_when_issued_then_it_says_whose_it_is_what_it_permits_and_until_when(
    key: RSAKey, role: RegistryRole, named: str
) -> None:
    token = issue_token(key.as_pem(private=True), "watcher", role, NOW, timedelta(days=30))
    claims = jwt.decode(token, key).claims
    assert (claims["sub"], claims["groups"]) == ("watcher", [named])
    assert claims["exp"] - claims["iat"] == timedelta(days=30).total_seconds()


def test_token_when_the_key_is_none_then_it_is_refused_without_a_word_of_it() -> None:
    with pytest.raises(InvalidConfiguration, match="not a private RSA key") as refusal:
        issue_token(b"hunter2", "watcher", RegistryRole.READER, NOW, timedelta(days=30))
    assert "hunter2" not in str(refusal.value)


def test_command_when_called_then_it_prints_a_token_that_the_public_key_verifies(key: RSAKey, tmp_path: Path) -> None:
    file = tmp_path / "registry.pem"
    file.write_bytes(key.as_pem(private=True))
    outcome = CliRunner().invoke(schemas.app, ["token", "planner", "--key", str(file)])
    assert jwt.decode(outcome.stdout.strip(), key).claims["sub"] == "planner"
