"""A schema registry that was lost is told from a message that nobody understands: of that there is a dead letter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.schema_registry.error import SchemaRegistryError
from prometheus_client import REGISTRY

from services.common.avro import RegistryCheck, SchemaRegistry, local_schemas, schema_registry
from services.common.errors import Poison, Retry

OWN, FORMER, UNKNOWN = 3, 4, 99
SUBJECT = "gitops.commands-value"


class FakeServer:
    """Schemas by id, as every client of the registry sees them."""

    def __init__(self) -> None:
        self.schemas = {OWN: json.dumps(local_schemas()[SUBJECT]), FORMER: '"string"'}
        self.away = False

    def lookup_schema(self, *_: object) -> Any:
        return SimpleNamespace(schema_id=OWN)

    def get_schema(self, schema_id: int) -> Any:
        if self.away:
            raise OSError("away")
        if schema_id not in self.schemas:
            raise SchemaRegistryError(404, 40403, "no such schema")
        return SimpleNamespace(schema_str=self.schemas[schema_id])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr(schema_registry, "SchemaRegistryClient", lambda _: fake)
    return fake


@pytest.fixture
def registry(server: FakeServer) -> SchemaRegistry:
    known = SchemaRegistry("http://registry")
    assert known.id_of(SUBJECT) == OWN
    return known


@pytest.fixture
def check(registry: SchemaRegistry) -> Iterator[RegistryCheck]:
    found = RegistryCheck("test", registry)
    yield found
    found.stop()


def lost() -> float | None:
    return REGISTRY.get_sample_value("gitops_registry_lost", {"service": "test"})


def test_schema_when_the_registry_is_whole_and_does_not_know_it_then_its_messages_are_poison(
    registry: SchemaRegistry,
) -> None:
    with pytest.raises(Poison, match="schema 99 is not in the registry"):
        registry.schema_by_id(UNKNOWN)


@pytest.mark.parametrize(
    ("after", "why"),
    [({}, "has lost its schemas"), ({OWN: '"string"'}, "gives another schema"), ({OWN: "{"}, "has lost its schemas")],
    ids=["empty", "ids given out anew", "damaged"],
)
def test_schema_when_the_registry_is_lost_then_its_messages_wait_until_it_is_back(
    registry: SchemaRegistry, server: FakeServer, after: dict[int, str], why: str
) -> None:
    before, server.schemas = server.schemas, after
    with pytest.raises(Retry, match=why):
        registry.schema_by_id(FORMER)
    server.schemas = before
    assert registry.schema_by_id(FORMER) == "string"


def test_check_when_the_registry_is_lost_or_away_then_the_gauge_says_so_until_it_is_back(
    check: RegistryCheck, server: FakeServer
) -> None:
    check.check_registry()
    assert lost() == 0
    before, server.schemas = server.schemas, {}
    check.check_registry()
    assert lost() == 1
    server.schemas = before
    check.check_registry()
    assert lost() == 0
    server.away = True
    check.check_registry()
    assert lost() == 1
