"""Where AppStudio's build service writes the manifests of components; the record has each commit before it is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chaos.record import Build, Commit, Record
from devstack.appstudio.gitops_repositories import GitOpsRepositories, Wanted
from devstack.argocd_simulator.application import revision_of


class BranchForEachCommit:
    """Nothing is written: to the simulator of Argo CD the name of a branch decides which commit that is at.

    So each snapshot of a component has a branch of its own in each environment.
    """

    names_anew = True

    def write_components(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """See :class:`GitOpsRepositories`."""
        return [self._seen_by_simulator(each) for each in wanted]

    @staticmethod
    def _seen_by_simulator(wanted: Wanted) -> dict[str, Any]:
        url = f"https://git.example.com/{wanted.tenant}/{wanted.application}.git"
        branch = f"{wanted.environment}/{wanted.snapshot}/{wanted.component}"
        commit = revision_of({"spec": {"source": {"repoURL": url, "targetRevision": branch}}})
        return {"url": url, "branch": branch, "path": wanted.path, "commitID": commit}


@dataclass(frozen=True, slots=True)
class RecordedRepositories:
    """What is written to others, with a record of it."""

    repositories: GitOpsRepositories
    record: Record

    @property
    def names_anew(self) -> bool:
        """As the others do."""
        return self.repositories.names_anew

    def write_components(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """See :class:`GitOpsRepositories`."""
        written = self.repositories.write_components(wanted)
        commits = tuple(Commit(where["url"], where["branch"], where["path"], where["commitID"]) for where in written)
        if wanted:
            first = wanted[0]
            self.record.note_build(Build(first.tenant, first.environment, first.snapshot, commits))
        return written
