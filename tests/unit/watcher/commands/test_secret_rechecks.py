from __future__ import annotations

from services.watcher.commands.secret_rechecks import Reference, References


def reference(name: str, namespace: str = "team-a", told: str = "") -> Reference:
    return Reference(f"uid-{name}", namespace, name, "kube", told)


def test_references_when_asked_for_then_namespaces_have_turns_and_nobody_comes_twice_in_a_round() -> None:
    references = References()
    for number in range(10):
        references.note(reference(f"a{number}"))
    references.note(reference("b", "team-b"))
    first = [item.name for item in references.next(4)]
    assert first == ["a0", "b", "a1", "a2"]
    assert len({item.name for item in references.next(100)}) == 11
    assert references.next(1) == [references.next(11)[-1]], "a round begins where the last one did"


def test_references_when_told_otherwise_forgotten_or_cleared_then_that_counts() -> None:
    references = References()
    references.note(reference("a"))
    references.note(reference("a", told="Opaque"))
    references.note(reference("b"))
    references.forget("uid-b")
    references.forget("uid-never-there")
    assert references.next(5) == [reference("a", told="Opaque")]
    references.clear()
    assert (references.next(5), len(references)) == ([], 0)
