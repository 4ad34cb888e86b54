"""How often each sync run was started, and which the API server failed, as versions of Applications show it. Pure.

A start shows twice: the field ``operation`` appears with the run in its info, and ``status.operationState`` has a time
at which the run started. The first tells two starts within one second apart, the second those of which the field was
gone again before anybody looked. So neither alone is counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from chaos.api import RUN_INFO
from services.common.kubernetes import Manifest

IN_PROGRESS = {"Running", "Terminating"}
FAILED = {"Failed", "Error"}
UNANSWERED = ("objects failed to apply", "failed to record sync to history", "connection refused", "EOF")
"""In the message of an operation that failed because the API server did: Argo CD does not try again then."""


class SyncStarts:
    """Of all runs, on all Applications."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[int, frozenset[str]]] = {}
        """Newest version of each Application that was noted, and the runs in its field ``operation``; by uid."""
        self._appearances: Counter[str] = Counter()
        self._times: dict[str, set[str]] = defaultdict(set)
        self._failed: set[tuple[str, str]] = set()
        """Runs and phases."""

    def note(self, application: Manifest) -> None:
        """One version; versions older than the last one noted, which a list may show, tell nothing new."""
        meta = application["metadata"]
        newest, requested_before = self._versions.get(meta["uid"], (0, frozenset[str]()))
        version = int(meta["resourceVersion"])
        if version <= newest:
            return
        state = (application.get("status") or {}).get("operationState") or {}
        shown = _runs(state.get("operation"))
        # Who terminates an operation that has lost the field puts it back.
        put_back = shown & self._times.keys() if state.get("phase") in IN_PROGRESS else frozenset[str]()
        requested = _runs(application.get("operation"))
        self._appearances.update(requested - requested_before - put_back)
        for run in shown:
            self._times[run].add(state["startedAt"])
            if state.get("phase") in FAILED and any(words in state.get("message", "") for words in UNANSWERED):
                self._failed.add((run, state["phase"]))
        self._versions[meta["uid"]] = version, requested

    @property
    def runs(self) -> set[str]:
        """Uids of all that were started."""
        return self._times.keys() | self._appearances.keys()

    def count(self, run: str) -> int:
        """How often the run with this uid was started, at least."""
        return max(self._appearances[run], len(self._times.get(run, ())))

    @property
    def failed(self) -> int:
        """How many failed because the API server did."""
        return len({run for run, _ in self._failed})

    def was_failed(self, run: str, phase: str) -> bool:
        """Whether the run with this uid ended in this phase because the API server failed."""
        return (run, phase) in self._failed

    def times(self, run: str) -> list[str]:
        """At which it is known to have started."""
        return sorted(self._times.get(run, ()))


def _runs(operation: Manifest | None) -> frozenset[str]:
    """Named by an operation's info; none if automation began it, which may take over the info of the one before."""
    if not operation or (operation.get("initiatedBy") or {}).get("automated"):
        return frozenset()
    return frozenset(entry["value"] for entry in operation.get("info") or [] if entry["name"] == RUN_INFO)
