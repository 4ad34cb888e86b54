"""Single objects that are read when a command goes out: what an answer means, and what must not be taken for one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from services.common import clock
from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Retry
from services.common.kubernetes import SECRET, Manifest, NotFound, Rejected
from services.common.kubernetes.api_errors import Details
from services.watcher.commands.object_reader import ObjectReader

OBJECT: Manifest = {"metadata": {"name": "kube", "uid": "uid-kube"}}
GONE = NotFound('API server answered 404 NotFound: secrets "kube" not found', Details("secrets", "kube"))
NAMESPACE_GONE = NotFound('API server answered 404: namespaces "kube" not found', Details("namespaces", "kube"))
NOT_SERVED = NotFound("API server answered 404 NotFound: the server could not find the requested resource")
Answer = Manifest | GitOpsError


class FakeKube:
    """Answers with these, one after the other; the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    async def get_object(self, *_: Any) -> Manifest:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, GitOpsError):
            raise answer
        return answer


def reader(*answers: Answer) -> ObjectReader:
    kube: Any = FakeKube(*answers)
    return ObjectReader(kube, partial(Backoff, first=0.001, limit=0.01), grace_seconds=0.05)


FOUND: dict[str, tuple[tuple[Answer, ...], Manifest | None]] = {
    "there": ((OBJECT,), OBJECT),
    "gone": ((GONE,), None),
    "kind-not-served-for-a-while": ((NOT_SERVED, OBJECT), OBJECT),
    "something-else-of-this-name-is-gone": ((NAMESPACE_GONE, OBJECT), OBJECT),
    "in-words-alone": ((NotFound('a proxy: "kube" not found'), OBJECT), OBJECT),
    "no-rights-for-a-while": ((Rejected("forbidden", 403), Rejected("forbidden", 403), OBJECT), OBJECT),
    "no-rights-for-a-while-then-gone": ((Rejected("forbidden", 403), GONE), None),
    "away-for-a-while": ((Retry("away"), Retry("away"), OBJECT), OBJECT),
}


@pytest.mark.parametrize(("answers", "expected"), FOUND.values(), ids=FOUND)
async def test_object_when_the_api_server_says_this_then_only_what_is_certainly_gone_is_none(
    answers: tuple[Answer, ...], expected: Manifest | None
) -> None:
    assert await reader(*answers).find_object(SECRET, "team-a", "kube") == expected


async def test_object_when_it_is_forbidden_each_time_that_the_api_server_starts_then_it_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = itertools.count(step=20)
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: next(at)))
    starts = (Rejected("forbidden", 403), Retry("away")) * 3
    asked = replace(reader(*starts, OBJECT), grace_seconds=30)
    assert await asked.find_object(SECRET, "team-a", "kube") == OBJECT


@pytest.mark.parametrize("name", ["", "..", "../other", "a/b", "UPPER", "a?x=y", "a" * 254, "a\n"])
async def test_object_when_the_name_is_none_that_an_object_can_have_then_nobody_is_asked(name: str) -> None:
    assert await reader(OBJECT).find_object(SECRET, "team-a", name) is None


async def test_incarnation_when_another_object_has_the_name_then_it_is_none() -> None:
    another: Manifest = {"metadata": {"name": "kube", "uid": "other"}}
    assert await reader(another).find_incarnation(SECRET, "team-a", "kube", "uid-kube") is None
    assert await reader(OBJECT).find_incarnation(SECRET, "team-a", "kube", "uid-kube") == OBJECT


@pytest.mark.parametrize("status", [403, 405])
async def test_object_when_it_stays_refused_then_that_is_raised(status: int) -> None:
    with pytest.raises(Rejected):
        await reader(Rejected("no", status)).find_object(SECRET, "team-a", "kube")
