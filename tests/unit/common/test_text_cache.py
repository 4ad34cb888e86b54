"""What is kept of texts that tenants wrote: bounded by bytes, whatever is made of them."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from services.common.errors import Permanent
from services.common.text_cache import OVERHEAD, TEXTS, TextCache, size_of
from services.kinds.environment.known import known_environment
from services.kinds.gitops_deployment.validation import accepted_deployment
from services.kinds.managed_environment.rules import connections, destinations
from services.kinds.managed_environment.validation import accepted_environment
from services.kinds.promotion_run.rows import promotion_of, text_of
from services.kinds.promotion_run.rules import Promotion, Step
from services.kinds.repository_credential.validation import accepted_credential
from services.kinds.shared.connections import ConnectionInputs
from services.kinds.shared.secret_binding import binding_of
from services.kinds.snapshot_environment_binding.known import known_binding
from services.kinds.snapshot_environment_binding.model import BindingSpec
from services.kinds.snapshot_environment_binding.remembered import remembered

LIMIT = 256 * 1024
TEXT = 16 * 1024
"""Characters, about, of each of a tenant's texts."""
COUNT = 40
LONG = "x" * TEXT
AT = datetime(2026, 1, 1, tzinfo=UTC)


def row(**parts: Any) -> Any:
    return SimpleNamespace(omitted="", over_quota=False, **parts)


def binding(number: int) -> str:
    variables = [{"name": f"v-{each}", "value": ""} for each in range(250)]
    components = [{"name": f"c-{each}", "configuration": {"env": variables}} for each in range(TEXT // 6500)]
    return json.dumps({"application": f"a-{number}", "environment": "e", "snapshot": "s", "components": components})


def environment(number: int) -> str:
    variables = [{"name": f"v-{each}", "value": f"{number}"} for each in range(TEXT // 30)][:250]
    spec = {"displayName": f"{number}", "deploymentStrategy": "Manual", "unknown": LONG}
    return json.dumps(spec | {"configuration": {"env": variables}})


def cluster(number: int) -> str:
    namespaces = [f"n-{each}" for each in range(250)]
    spec = {"apiURL": f"https://{number}", "credentialsSecret": "s", "unknown": LONG, "namespaces": namespaces}
    return json.dumps(spec | {"allowInsecureSkipTLSVerify": False})


def promotion(number: int) -> str:
    return text_of(Promotion(steps=(Step("e", number, AT, display=LONG),)))


READ: dict[str, Callable[[int], Any]] = {
    "binding": lambda number: known_binding(row(spec=binding(number))),
    "environment": lambda number: known_environment(row(spec=environment(number))),
    "what a binding remembers": lambda number: remembered(row(progress=json.dumps({"a": [number, LONG]})), "a"),
    "promotion": lambda number: promotion_of(row(progress=promotion(number))),
    "cluster": lambda number: accepted_environment(cluster(number)),
    "destinations": lambda number: destinations(cluster(number)),
    "connections": lambda number: connections(ConnectionInputs(cluster(number))),
    "deployment": lambda number: accepted_deployment(
        json.dumps({"source": {"repoURL": "r", "path": f"{number}"}, "type": "manual", "unknown": LONG})
    ),
    "credential": lambda number: accepted_credential(
        json.dumps({"repository": f"{number}", "secret": "s", "unknown": LONG})
    ),
    "secret binding": lambda number: binding_of(json.dumps({"uid": f"{number}", "sealed": LONG})),
}


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(TEXTS, "_limit", LIMIT)
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("read", READ.values(), ids=READ.keys())
def test_planner_when_a_tenant_writes_long_texts_again_and_again_then_its_memory_is_bounded(
    read: Callable[[int], Any],
) -> None:
    read(0)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(1, COUNT):
        assert read(number) is not None
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    assert after - before < 1.5 * LIMIT < COUNT * TEXT
    assert TEXTS.size <= LIMIT


def test_spec_when_its_configuration_is_long_then_what_is_kept_of_it_is_short() -> None:
    whole = BindingSpec.model_validate_json(binding(1))
    assert size_of(known_binding(row(spec=binding(1)))) < 2048 < 50 * 2048 < size_of(whole)


def test_texts_when_they_are_read_again_then_they_are_made_once_while_there_is_room() -> None:
    made: list[str] = []
    cache = TextCache(3 * (OVERHEAD + size_of(((str.upper, "a" * 1000), "A" * 1000))))

    @cache.remember
    def upper(text: str) -> str:
        made.append(text[0])
        return text.upper()

    for letter in "abcabc":
        assert upper(letter * 1000) == letter.upper() * 1000
    assert made == ["a", "b", "c"]
    upper("d" * 1000)
    upper("b" * 1000)
    assert (made, len(cache)) == (["a", "b", "c", "d"], 3)
    upper("a" * 1000)
    upper("b" * 1000)
    upper("c" * 1000)
    assert made == ["a", "b", "c", "d", "a", "c"], "what was not read for longest goes first"


def test_text_when_it_is_long_and_short_is_what_was_made_of_it_then_the_text_is_not_kept() -> None:
    cache = TextCache(LIMIT)
    made: list[str] = []

    @cache.remember
    def last(text: str) -> str:
        made.append(text)
        return text[-1]

    texts = [LONG + letter for letter in "abc"]
    assert [last(each) for each in [*texts, *reversed(texts)]] == ["a", "b", "c", "c", "b", "a"]
    assert made == texts
    assert cache.size < 3 * (OVERHEAD + 1024)


def test_text_when_it_is_too_long_to_be_kept_then_what_was_kept_before_stays() -> None:
    cache = TextCache(2 * (OVERHEAD + 1024))
    made: list[str] = []

    @cache.remember
    def upper(text: str) -> str:
        made.append(text[0])
        return text.upper()

    for text in ("a", "b" * 4096, "a"):
        upper(text)
    assert made == ["a", "b"]


def test_text_when_two_things_are_made_of_it_then_each_has_its_own() -> None:
    cache = TextCache(LIMIT)
    upper, length = cache.remember(str.upper), cache.remember(len)
    assert (upper("a"), length("a"), upper("a")) == ("A", 1, "A")


def test_text_when_making_raises_then_nothing_is_kept() -> None:
    cache = TextCache(LIMIT)

    @cache.remember
    def refuse(text: str) -> str:
        raise Permanent(text)

    with pytest.raises(Permanent):
        refuse("a")
    assert (len(cache), cache.size) == (0, 0)


def test_text_when_it_is_too_long_by_itself_then_it_is_made_each_time_and_nothing_is_kept() -> None:
    cache = TextCache(1000)
    upper = cache.remember(str.upper)
    assert [upper("a" * 1000)[0] for _ in range(2)] == ["A", "A"]
    assert (len(cache), cache.size) == (0, 0)


def test_size_when_a_spec_was_parsed_then_it_is_that_of_all_that_it_holds() -> None:
    text = binding(1)
    BindingSpec.model_validate_json(text)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    spec = BindingSpec.model_validate_json(text)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.8 < size_of(spec) / (after - before) < 1.5
