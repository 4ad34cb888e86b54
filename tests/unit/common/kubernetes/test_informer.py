"""A store holds what the newest list and everything since has shown, whatever resource versions say."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from services.common.kubernetes import Changed, Deleted, ListCompleted, ListStarted, Manifest, Reflection, Seen
from services.common.kubernetes.builtin_kinds import namespace_and_name
from services.common.kubernetes.informer import ObjectStore

A, B = ("team-a", "a"), ("team-a", "b")
Versions = dict[tuple[str, str], int]


def manifest(name: str, version: int, uid: str = "") -> Manifest:
    return {
        "metadata": {
            "namespace": "team-a",
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        }
    }


def version_of(seen: Manifest, _: str) -> int:
    return int(seen["metadata"]["resourceVersion"])


def listing(*seen: Manifest) -> list[Reflection]:
    return [ListStarted(), *(Seen(each) for each in seen), ListCompleted(len(seen))]


def new_store() -> ObjectStore[tuple[str, str], int]:
    return ObjectStore(namespace_and_name, version_of)


def store_of(events: Iterable[Reflection]) -> ObjectStore[tuple[str, str], int]:
    store = new_store()
    for event in events:
        store.observe_event(event)
    return store


def test_list_when_an_older_state_was_restored_then_it_replaces_what_was_known() -> None:
    store = store_of(listing(manifest("a", 900), manifest("b", 901)))
    changed = [key for event in listing(manifest("a", 500)) for key in store.observe_event(event)]
    assert dict(store) == {A: 500}
    assert changed == [A, B]


def test_change_when_an_older_state_was_restored_then_it_is_taken_in_after_the_list_and_while_it_is_read() -> None:
    store = store_of(listing(manifest("a", 900), manifest("b", 901)))
    for event in (ListStarted(), Changed(manifest("a", 501)), Seen(manifest("b", 400)), ListCompleted(2)):
        store.observe_event(event)
    store.observe_event(Changed(manifest("b", 502)))
    assert dict(store) == {A: 501, B: 502}


def test_list_when_it_shows_what_is_known_then_nothing_has_changed() -> None:
    store = store_of(listing(manifest("a", 1)))
    assert [store.observe_event(event) for event in listing(manifest("a", 1))] == [[], [], []]


ANSWERS: dict[str, tuple[int, int | None, Versions]] = {
    "newer": (3, 2, {A: 3}),
    "newer-though-the-watch-went-on": (4, 1, {A: 4}),
    "overtaken-by-the-watch": (1, 0, {A: 2}),
    "of-a-restored-server": (1, 2, {A: 1}),
}


@pytest.mark.parametrize(("version", "known", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_answer_when_it_comes_then_it_counts_unless_the_watch_has_shown_more(
    version: int, known: int | None, expected: Versions
) -> None:
    store = store_of(listing(manifest("a", 2)))
    store.put_answer(manifest("a", version), known)
    assert dict(store) == expected


def test_answer_when_of_an_object_that_went_meanwhile_then_it_does_not_bring_it_back() -> None:
    store = store_of([*listing(manifest("a", 2)), Deleted(manifest("a", 4))])
    store.put_answer(manifest("a", 3), known=2)
    assert dict(store) == {}


def test_answer_when_of_a_new_object_then_a_list_that_began_before_does_not_remove_it() -> None:
    store = store_of(listing())
    store.observe_event(ListStarted())
    store.put_answer(manifest("a", 7), known=None)
    store.observe_event(ListCompleted(0))
    assert dict(store) == {A: 7}
    for event in listing():
        store.observe_event(event)
    assert dict(store) == {}


def test_list_when_it_shows_an_older_state_than_our_write_since_it_began_then_the_write_stays() -> None:
    store = store_of(listing(manifest("a", 2)))
    store.observe_event(ListStarted())
    store.put_answer(manifest("a", 9), known=2)
    store.observe_event(Seen(manifest("a", 3)))
    store.observe_event(ListCompleted(1))
    assert dict(store) == {A: 9}


def test_removal_when_of_another_incarnation_then_the_present_one_stays() -> None:
    store = store_of(listing(manifest("a", 2, uid="second")))
    assert store.observe_event(Deleted(manifest("a", 3, uid="first"))) == [A]
    assert dict(store) == {A: 2}


def team_of(seen: Manifest, _: str) -> str:
    return str(seen["metadata"]["labels"]["team"])


def test_index_when_objects_come_change_and_go_in_any_way_then_it_has_what_the_store_has() -> None:
    store = ObjectStore(namespace_and_name, team_of, index_by=lambda team: team or None)

    def of_team(name: str, version: int, team: str) -> Manifest:
        made = manifest(name, version)
        return {"metadata": made["metadata"] | {"labels": {"team": team}}}

    def observe(*events: Reflection) -> None:
        for event in events:
            store.observe_event(event)

    def indexed() -> dict[str, list[str]]:
        assert len(store._index) == len(set(filter(None, store.values())))  # nothing is kept of what is gone
        return {team: sorted(name for _, name in store.indexed_keys(team)) for team in ("red", "blue", "")}

    observe(*listing(of_team("a", 1, "red"), of_team("b", 2, "red"), of_team("c", 3, "")))
    assert indexed() == {"red": ["a", "b"], "blue": [], "": []}
    observe(Changed(of_team("a", 4, "blue")), Changed(of_team("b", 5, "red")), Changed(of_team("c", 6, "blue")))
    assert indexed() == {"red": ["b"], "blue": ["a", "c"], "": []}
    observe(Changed(of_team("a", 3, "red")), Deleted(of_team("b", 7, "red")), Changed(of_team("c", 8, "")))
    assert indexed() == {"red": [], "blue": ["a"], "": []}
    store.put_answer(of_team("d", 9, "red"), None)
    store.remove_object(A, "another uid")
    assert indexed() == {"red": ["d"], "blue": ["a"], "": []}
    store.remove_object(A, "uid-a")
    observe(*listing(of_team("b", 10, "blue")))
    assert indexed() == {"red": [], "blue": ["b"], "": []}


def test_store_when_a_list_is_under_way_then_it_is_not_complete() -> None:
    store = new_store()
    complete = []
    for event in [*listing(), *listing()]:
        store.observe_event(event)
        complete.append(store.is_complete)
    assert complete == [False, True, False, True]
