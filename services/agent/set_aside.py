"""Applications that are set aside until the credentials they need have been checked.

Argo CD looks again only after minutes at an Application whose cluster or repository it did not know, so such an
Application had better come after its Secret. But a check can take ten seconds, and longer in a queue: the tenant's
other Applications must not wait for it. Hence the rule: an Application waits for the Secrets that it names itself, by
its destination or its repository, of its own tenant, if they are being checked for the first time and do not exist
yet. It waits outside the queue, where it holds nobody back. When the check has been settled, successfully or not,
Secret and Application go into the queue together, and the waves keep their order.
"""

from __future__ import annotations

from services.agent.compositions import Compositions
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey, manifest_of, mapping, source_url
from services.common.errors import Permanent
from services.common.kube import Manifest
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind
from services.common.urls.repository_url import normalised


class SetAside:
    """Applications of one instance that wait for Secrets in the making."""

    def __init__(self, compositions: Compositions, live: LiveObjects) -> None:
        self._compositions, self._live = compositions, live
        self._waiting: dict[str, set[ObjectKey]] = {}

    def keeps(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """Whether the object ``desired`` has to wait; if so it is named when its lane is released."""
        needs = _needs(desired)
        waits = bool(needs) and any(
            made.lane == row.lane and secret not in self._live and _serves(made) in needs
            for secret, made in self._compositions.open_rows()
        )
        if waits:
            self._waiting.setdefault(row.lane, set()).add(key)
        return waits

    def release(self, lane: str) -> set[ObjectKey]:
        """A Secret of ``lane`` has been settled: who waits may look again."""
        return self._waiting.pop(lane, set())

    def clear(self) -> None:
        """Nobody waits any more."""
        self._waiting.clear()


def _needs(desired: Manifest) -> set[str]:
    cluster, repository = mapping(mapping(desired, "spec"), "destination").get("name"), source_url(desired)
    return {need for need in (cluster and f"cluster {cluster}", repository and _repository(repository)) if need}


def _serves(row: EngineResource) -> str:
    if row.kind == RowKind.CLUSTER_SECRET:
        return f"cluster {row.name}"
    try:
        return _repository(str(mapping(manifest_of(row), "recipe").get("repository", "")))
    except Permanent:
        return ""


def _repository(url: str) -> str:
    return f"repository {normalised(url)}"
