"""What an agent does before it starts."""

from __future__ import annotations

import gc

from services.agent.bootstrap import accesses, collect_rarely
from services.agent.objects.managed_kinds import KINDS, VERBS


def test_rights_when_asked_about_then_they_are_every_call_to_every_kind_in_the_engine_namespace() -> None:
    found = {(access.resource, access.verbs, access.namespace) for access in accesses("argocd")}
    assert found == {(kind.resource, VERBS, "argocd") for kind in KINDS.values()}
    assert "patch" in VERBS


def test_objects_when_many_come_to_stay_then_they_are_not_all_looked_at_for_cycles() -> None:
    before = gc.get_threshold()
    collect_rarely()
    try:
        collections = gc.get_stats()[-1]["collections"]
        kept = [{"number": [number]} for number in range(300_000)]
        assert gc.get_stats()[-1]["collections"] == collections
        assert len(kept) == 300_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
