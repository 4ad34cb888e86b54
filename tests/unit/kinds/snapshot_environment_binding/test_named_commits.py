"""The order in which bindings name commits, as their rows remember it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.missing_application import missed_since, with_missed_since
from services.kinds.snapshot_environment_binding.model import BINDING, GitOpsRepository
from services.kinds.snapshot_environment_binding.named_commits import (
    NamedCommit,
    commit_identity,
    first_named,
    named_commits,
    with_named_commits,
)
from tests.unit.kinds.given import at, resource

URL = "https://git.example.com/shop.git"


def row(
    *commits: str, version: int = 10, progress: str = "", age: timedelta = timedelta(), **changes: Any
) -> PlainResource:
    """A binding that names these commits for components c0, c1, ... of its spec, and was made this long ago."""
    names = [f"c{place}" for place in range(len(commits))]
    spec = {
        "application": "shop",
        "environment": "dev",
        "snapshot": "s",
        "components": [{"name": each} for each in names],
    }
    said = [{"name": name, "gitopsRepository": where(commit)} for name, commit in zip(names, commits, strict=True)]
    made = int((at(0) - age).timestamp() * 1000)
    return resource(
        BINDING.kind,
        "shop-dev",
        spec,
        status=json.dumps({"components": said}),
        resource_version=str(version),
        progress=progress,
        created_at=made,
        seen_at=at(0),
        **changes,
    )


def where(commit: str, branch: str = "main") -> dict[str, str]:
    return {"url": URL, "branch": branch, "path": "p", "commitID": commit}


def identity(commit: str, branch: str = "main") -> str:
    return commit_identity(GitOpsRepository.model_validate(where("", branch)), commit)


def orders(*bindings: PlainResource) -> dict[str, tuple[int, int, int]]:
    return {each.identity: each.order for each in first_named(map(named_commits, bindings)).values()}


def test_commits_when_one_version_names_them_then_their_order_is_that_of_the_components() -> None:
    named = named_commits(with_named_commits(row("a", "b")))
    assert named["c1"].is_later_than(named["c0"])
    assert not named["c0"].is_later_than(named["c1"])
    assert not named["c0"].is_later_than(named["c0"])


def test_commit_when_it_is_named_still_then_it_keeps_its_order_and_a_new_one_gets_the_newest() -> None:
    before = with_named_commits(row("a", "b"))
    now = with_named_commits(row("a", "c", version=30, progress=before.progress))
    assert orders(now) == {identity("a"): (1, 10, 0), identity("c"): (1, 30, 1)}
    assert with_named_commits(now) == now


def test_commit_when_another_binding_names_it_again_then_it_is_no_later_for_that() -> None:
    first, again = with_named_commits(row("a")), with_named_commits(row("a", version=50))
    assert orders(again, first) == orders(first)


@pytest.mark.parametrize("epochs", [(1, 2), (1, 1)])
def test_commits_when_several_bindings_name_them_then_epoch_and_version_order_them(epochs: tuple[int, int]) -> None:
    first, second = epochs
    older = with_named_commits(row("a", version=10, epoch=first))
    newer = with_named_commits(row("b", version=9 if second > first else 11, epoch=second))
    named = first_named(map(named_commits, [newer, older]))
    assert named[identity("b")].is_later_than(named[identity("a")])


def test_commit_when_its_binding_is_older_than_what_is_known_of_it_then_it_is_later_than_none() -> None:
    (unknown,) = named_commits(with_named_commits(row("a", version=99, age=timedelta(hours=1)))).values()
    (known,) = named_commits(with_named_commits(row("b"))).values()
    assert not unknown.is_later_than(known)
    assert known.is_later_than(replace(unknown, order=(1, 1, 0)))


def test_commit_when_its_text_ends_with_a_line_feed_or_its_branch_is_another_then_only_the_latter_tells_it_apart() -> (
    None
):
    assert identity("a\n") == identity("a")
    assert identity("a", "other") != identity("a")


@pytest.mark.parametrize("said", [[], [{"name": "c0", "gitopsRepository": where("\n")}]], ids=["none", "an empty one"])
def test_binding_when_its_status_names_no_commit_of_a_component_then_none_is_with_named_commits(
    said: list[Any],
) -> None:
    assert named_commits(with_named_commits(replace(row("a"), status=json.dumps({"components": said})))) == {}


@pytest.mark.parametrize("unreadable", [{"status": "{"}, {"status_omitted": "too long"}, {"spec": "{"}])
def test_binding_when_it_cannot_be_read_then_what_it_named_is_not_forgotten(unreadable: dict[str, Any]) -> None:
    """It would seem to be named anew otherwise, once it can be read again."""
    before = with_missed_since(with_named_commits(row("a")), at(0))
    assert with_named_commits(replace(before, **unreadable)).progress == before.progress


def test_binding_when_its_application_is_missed_and_found_again_then_what_it_named_is_not_forgotten() -> None:
    before = with_named_commits(row("a"))
    missed = with_named_commits(with_missed_since(before, at(0)))
    assert (missed_since(missed), orders(missed)) == (at(0), orders(before))
    assert with_missed_since(missed, None) == before


def test_named_commit_when_it_is_read_again_then_it_is_the_same() -> None:
    assert named_commits(with_named_commits(row("a")))["c0"] == NamedCommit(identity("a"), (1, 10, 0), is_ordered=True)
