"""What the planner does with bindings: it passes on the one of the very Secret that it has, and waits for that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.kinds.shared.secret_binding import MAX_BINDING, SecretBinding, standing_text
from services.planner.domain.events import Event
from tests.unit.planner.given import CREDENTIAL, REPOSITORY, credential, resource, resource_gone, secret
from tests.unit.planner.tenant import check, conditions, manifest, row
from tests.unit.planner.world import World

TYPE = "managed-gitops.redhat.com/repository-credential"


def login(second: int, **changes: Any) -> Event:
    """A Secret, from a watcher that makes bindings."""
    content = {"type": TYPE, "sealed": f"sealed-{second}", "keyId": "k1", "bound": True}
    return resource(second, "Secret", "login", content, uid="uid-secret-login", generation=0, **changes)


def binding(version: int, text: str = "", *, key: str = "k1", use: str = "use") -> str:
    """Of the Secret at that version."""
    return SecretBinding("uid-secret-login", str(version), use, key, text or f"binding-{version}").text


def bound(second: int, of: int, text: str = "", **changes: Any) -> Event:
    """The credential, when its Secret was at version ``of``."""
    options = {"secret_type": TYPE, "secret_binding": binding(of, text)} | changes
    return credential(second, version=1, **options)


def sent(world: World) -> tuple[str, str]:
    """The Secret's text and the binding that the agent is told."""
    found = manifest(world, "RepositorySecret")["recipe"]["secret"]
    return found["sealed"], found.get("binding", "")


def test_credential_when_its_binding_is_of_the_secret_that_is_there_then_both_are_in_the_recipe(world: World) -> None:
    world.take(login(1), bound(2, of=1))
    assert sent(world) == ("sealed-1", "binding-1")


def test_secret_when_it_changes_then_text_and_binding_change_together_whichever_comes_first(world: World) -> None:
    world.take(login(1), bound(2, of=1))
    world.take(login(3))
    assert sent(world) == ("sealed-1", "binding-1"), "what works stays until both are there"
    assert conditions(world, CREDENTIAL, "login")["ErrorOccurred"][:2] == ("Unknown", "Checking")
    world.take(bound(4, of=3))
    assert sent(world) == ("sealed-3", "binding-3")
    world.take(bound(5, of=6))
    assert sent(world) == ("sealed-3", "binding-3")
    world.take(login(6))
    assert sent(world) == ("sealed-6", "binding-6")


def test_credential_when_it_has_no_binding_yet_then_it_waits_where_watchers_make_them(world: World) -> None:
    world.take(login(1), credential(2, secret_type=TYPE))
    assert [each for each in world.engine.values() if each.kind == "RepositorySecret"] == []
    assert conditions(world, CREDENTIAL, "login")["ErrorOccurred"][:2] == ("Unknown", "Checking")


def test_secret_when_its_watcher_does_not_know_yet_where_the_tenant_is_then_its_content_is_awaited(
    world: World,
) -> None:
    unsealed = {"type": TYPE, "bound": True, "awaited": True}
    world.take(resource(1, "Secret", "login", unsealed, uid="uid-secret-login", generation=0), bound(2, of=1))
    assert [each for each in world.engine.values() if each.kind == "RepositorySecret"] == []
    assert conditions(world, CREDENTIAL, "login")["ErrorOccurred"][:2] == ("Unknown", "Checking")
    world.take(login(3, version=1))
    assert sent(world) == ("sealed-3", "binding-1")
    world.take(resource(4, "Secret", "login", unsealed, uid="uid-secret-login", generation=0, version=1))
    assert sent(world) == ("sealed-3", "binding-1"), "a watcher that has forgotten it takes nothing away"


def test_secret_when_its_tenant_is_in_other_clusters_then_it_is_sealed_for_these(world: World) -> None:
    world.take(login(1), bound(2, of=1))
    content = {"type": TYPE, "sealed": "for both", "keyId": "k1,k2", "bound": True}
    world.take(resource(3, "Secret", "login", content, uid="uid-secret-login", generation=0, version=1))
    assert sent(world) == ("for both", "binding-1")
    world.take(credential(4, version=1, secret_type=TYPE, secret_binding=binding(1, "for both", key="k1,k2")))
    assert sent(world) == ("for both", "for both")


def test_credential_when_its_watcher_makes_no_bindings_then_an_agent_decides(world: World) -> None:
    world.take(secret(1, "login", "repository-credential"), credential(2))
    assert sent(world) == ("sealed-login-1", "")


def test_binding_when_a_list_shows_it_again_then_its_first_text_stays_and_nothing_is_compiled(world: World) -> None:
    world.take(login(1), bound(2, of=1))
    check(world, 3, "RepositoryCredentialUpToDate", "RepositorySecret")
    before = row(world, "RepositorySecret")
    world.take(bound(4, of=1, text="the same, sealed again", epoch=2))
    assert row(world, "RepositorySecret") == before


def test_binding_when_under_another_key_or_for_another_use_then_its_text_counts(world: World) -> None:
    world.take(login(1), bound(2, of=1))
    world.take(bound(3, of=1, secret_binding=binding(1, "rotated", key="k2")))
    assert sent(world) == ("sealed-1", "rotated")
    world.take(bound(4, of=1, secret_binding=binding(1, "other", key="k2", use="other")))
    assert sent(world) == ("sealed-1", "other")


def test_secret_when_made_again_under_its_name_then_the_binding_of_the_former_one_does_not_count(world: World) -> None:
    world.take(login(1), bound(2, of=1))
    world.take(resource_gone(3, "Secret", "login", "uid-secret-login"))
    (known,) = [each for each in world.resources.values() if each.kind == CREDENTIAL]
    assert known.secret_binding == ""
    content = {"type": TYPE, "sealed": "sealed-anew", "keyId": "k1", "bound": True}
    world.take(resource(1, "Secret", "login", content, uid="uid-other", generation=0, epoch=5))
    world.take(bound(5, of=1))
    assert row(world, "RepositorySecret").desired == "absent"


def test_binding_when_it_is_longer_than_any_or_no_binding_at_all_then_it_is_dropped(world: World) -> None:
    world.take(login(1), bound(2, of=1, secret_binding=binding(1, "x" * MAX_BINDING)))
    (known,) = [each for each in world.resources.values() if each.kind == CREDENTIAL]
    assert known.secret_binding == ""
    world.take(bound(3, of=1, secret_binding="[]"))
    assert [each for each in world.engine.values() if each.kind == "RepositorySecret"] == []


def resealed(second: int, of: int) -> Event:
    """What an operator's command read from the row of the credential."""
    known = json.loads(binding(of, "anew", key="k2")) | {"resealed": True}
    return bound(second, of, secret_binding=json.dumps(known))


def test_binding_when_it_is_sealed_anew_then_the_recipe_has_the_new_text(world: World) -> None:
    world.take(login(1), bound(2, of=1), resealed(3, of=1))
    assert sent(world) == ("sealed-1", "anew")


def test_binding_when_its_secret_or_resource_changed_before_it_was_sealed_anew_then_that_is_too_late(
    world: World,
) -> None:
    world.take(login(1), bound(2, of=1), login(3), bound(4, of=3))
    world.take(resealed(5, of=1))
    assert sent(world) == ("sealed-3", "binding-3")
    spec = {"repository": REPOSITORY, "secret": "login"}
    now = resource(6, CREDENTIAL, "login", spec, generation=2, secret_type=TYPE, secret_binding=binding(3, use="newer"))
    world.take(now, resealed(7, of=3))
    assert sent(world)[1] == "binding-3"


@pytest.mark.parametrize(
    "told", ["{", "[]", "null", '"sealed"', '{"sealed": ""}', '{"uid": 1, "sealed": []}', "x" * 9000]
)
def test_binding_when_it_is_none_then_none_is_kept(told: str) -> None:
    assert standing_text("", told) == ""
