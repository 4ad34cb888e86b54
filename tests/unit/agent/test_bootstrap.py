"""What an agent asks about before it starts."""

from __future__ import annotations

from services.agent.bootstrap import accesses
from services.agent.objects.managed_kinds import KINDS, VERBS


def test_rights_when_asked_about_then_they_are_every_call_to_every_kind_in_the_engine_namespace() -> None:
    found = {(access.resource, access.verbs, access.namespace) for access in accesses("argocd")}
    assert found == {(kind.resource, VERBS, "argocd") for kind in KINDS.values()}
    assert "patch" in VERBS
