"""What Applications have been through: at which commits they were synced, and which were deleted with all they deploy.

Pure. Whoever watches them notes each version that is seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from itertools import pairwise

from chaos.api import APPLICATION_PREFIX
from services.common.kubernetes import Manifest

CASCADE = "resources-finalizer.argocd.argoproj.io"
"""How the finalizers begin for which Argo CD deletes all that an Application has deployed."""

Source = tuple[str, str]
"""URL and path."""


class ApplicationHistory:
    """Of all Applications, those on several instances included."""

    def __init__(self) -> None:
        self._synced: dict[Source, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
        """By source, and uid of the Application: from which version on it was synced to which commit; empty: to none.

        That it goes ends nothing: an Application that is moved is there again, and what it has deployed remains.
        """
        self.cascades: set[str] = set()
        """Uids of GitOpsDeployments of which an Application was deleted with all that it had deployed."""

    def note(self, application: Manifest) -> None:
        """One version of an Application."""
        meta = application["metadata"]
        if meta.get("deletionTimestamp") and any(each.startswith(CASCADE) for each in meta.get("finalizers") or ()):
            self.cascades.add(meta["name"].removeprefix(APPLICATION_PREFIX))
        sync = (application.get("status") or {}).get("sync") or {}
        source = (sync.get("comparedTo") or {}).get("source") or {}
        commit = sync.get("revision", "") if sync.get("status") == "Synced" else ""
        states = self._synced[source.get("repoURL", ""), source.get("path", "")][meta["uid"]]
        if not states or states[-1][1] != commit:
            states.append((int(meta["resourceVersion"]), commit))

    def was_synced(self, source: Source, commits: Collection[str], since: int, until: int) -> bool:
        """Whether an Application of ``source`` was synced to one of ``commits`` at a version between these two."""
        return any(
            commit in commits and began <= until and ended > since
            for states in self._synced.get(source, {}).values()
            for (began, commit), (ended, _) in pairwise([*states, (until + 1, "")])
        )
