from __future__ import annotations

from services.watcher.commands.secret_rechecks import References, SecretReference


def reference(name: str, namespace: str = "team-a", told: str = "") -> SecretReference:
    return SecretReference(f"uid-{name}", namespace, name, "kube", told)


def test_references_when_asked_for_then_namespaces_have_turns_and_nobody_comes_twice_in_a_round() -> None:
    references = References()
    for number in range(10):
        references.note_reference(reference(f"a{number}"))
    references.note_reference(reference("b", "team-b"))
    first = [item.name for item in references.next_references(4)]
    assert first == ["a0", "b", "a1", "a2"]
    assert len({item.name for item in references.next_references(100)}) == 11
    assert references.next_references(1) == [references.next_references(11)[-1]], (
        "a round begins where the last one did"
    )


def test_references_when_told_otherwise_forgotten_or_cleared_then_that_counts() -> None:
    references = References()
    references.note_reference(reference("a"))
    references.note_reference(reference("a", told="Opaque"))
    references.note_reference(reference("b"))
    references.forget_resource("uid-b")
    references.forget_resource("uid-never-there")
    assert references.next_references(5) == [reference("a", told="Opaque")]
    references.clear()
    assert (references.next_references(5), len(references)) == ([], 0)
