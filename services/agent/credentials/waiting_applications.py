"""Applications that wait until the credentials they need have been checked.

Argo CD looks again only after minutes at an Application whose cluster or repository it did not know, so such an
Application is created after its Secret. A check can take ten seconds and more, and the tenant's other Applications must
not wait for it. So an Application waits only for Secrets of its own tenant that it names itself, by its destination or
its repository, while they are checked for the first time and do not exist yet. It is not queued meanwhile, so it blocks
nothing. When the check has ended, successfully or not, Secret and Application are queued together, in their waves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.agent.objects.desired_objects import manifest_of, mapping, source_url
from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import ObjectKey
from services.common.errors import Permanent
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind
from services.common.urls.repository_url import normalised

Need = tuple[str, str]
"""A lane, and the cluster or repository that its Applications name."""


class WaitingApplications:
    """The waiting Applications of one instance, by what they wait for."""

    def __init__(self, live: EngineObjects, enqueue: Callable[[Iterable[ObjectKey]], None]) -> None:
        """``enqueue`` is called with Applications that need not wait any more."""
        self._live, self._enqueue = live, enqueue
        self._needs: dict[ObjectKey, Need] = {}
        """What each Secret serves, of those that are checked for the first time."""
        self._secrets: dict[Need, dict[ObjectKey, None]] = {}
        self._waiting: dict[Need, dict[ObjectKey, None]] = {}

    def begin_check(self, key: ObjectKey, row: EngineResource) -> None:
        """Note that the first check of ``row`` has begun."""
        need = row.lane, _served_by(row)
        if self._needs.get(key) != need:
            self.end_check(key)
            self._needs[key] = need
            self._secrets.setdefault(need, {})[key] = None

    def end_check(self, key: ObjectKey) -> None:
        """Note that the first check has ended, or was cancelled."""
        need = self._needs.pop(key, None)
        if need is None:
            return
        del self._secrets[need][key]
        if not self._secrets[need]:
            del self._secrets[need]
        if not self._is_awaited(need):
            self._enqueue(sorted(self._waiting.pop(need, ())))

    def has_to_wait(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """Whether the object ``desired`` has to wait. If so, it is queued when it need not any more."""
        for need in _needs(row.lane, desired):
            if self._is_awaited(need):
                self._waiting.setdefault(need, {})[key] = None
                return True
        return False

    def clear(self) -> None:
        """Forget all waiting Applications."""
        for memory in (self._needs, self._secrets, self._waiting):
            memory.clear()

    def _is_awaited(self, need: Need) -> bool:
        return any(secret not in self._live for secret in self._secrets.get(need, ()))


def _needs(lane: str, desired: Manifest) -> list[Need]:
    cluster, repository = mapping(mapping(desired, "spec"), "destination").get("name"), source_url(desired)
    needs = cluster and f"cluster {cluster}", repository and _repository(repository)
    return [(lane, need) for need in needs if need]


def _served_by(row: EngineResource) -> str:
    if row.kind == RowKind.CLUSTER_SECRET:
        return f"cluster {row.name}"
    try:
        return _repository(str(mapping(manifest_of(row), "recipe").get("repository", "")))
    except Permanent:
        return ""


def _repository(url: str) -> str:
    return f"repository {normalised(url)}"
