"""A schema that is refused ends ``schemas apply``; one whose registration is under way is asked for again."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from confluent_kafka.schema_registry.error import SchemaRegistryError

from services.common.avro import SchemaRegistry, schema_registry
from services.common.errors import GitOpsError, InvalidConfiguration, Retry

SUBJECT = "gitops.commands-value"


def registry_that_answers(monkeypatch: pytest.MonkeyPatch, status: int, message: str) -> SchemaRegistry:
    def register_schema(*_: object) -> int:
        raise SchemaRegistryError(status, status, message)

    client = SimpleNamespace(set_compatibility=lambda **_: None, register_schema=register_schema)
    monkeypatch.setattr(schema_registry, "SchemaRegistryClient", lambda _: client)
    return SchemaRegistry("http://registry")


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        pytest.param(f"An artifact with ID {SUBJECT!r} already exists.", Retry, id="under way"),
        pytest.param("Incompatible artifact: READER_FIELD_MISSING_DEFAULT_VALUE", InvalidConfiguration, id="refused"),
    ],
)
def test_schema_when_the_registry_answers_with_a_conflict_then_only_a_refusal_is_final(
    message: str, outcome: type[GitOpsError], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = registry_that_answers(monkeypatch, 409, message)
    with pytest.raises(outcome, match=re.escape(message)):
        registry.register_schema(SUBJECT)
