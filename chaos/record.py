"""What the API server has acknowledged, in the order in which it did, and what was seen of syncs.

The executor writes it, the checker reads it: where what must be depends on what was.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chaos.api import DEPLOYMENT
from chaos.application_history import ApplicationHistory
from chaos.sync_starts import SyncStarts
from services.common.kubernetes import Manifest

Key = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A sync run as it was made."""

    uid: str
    deployment: str
    """Uid of the GitOpsDeployment that had the name then; empty: there was none."""
    version: int
    """Resource version with which it was stored."""


@dataclass(slots=True)
class Gap:
    """Resource versions between which nobody watched syncs."""

    since: int
    until: int | None = None
    """None: nothing was seen yet since then."""

    def overlaps(self, since: int, until: int) -> bool:
        """With a life from one version to another."""
        return self.since < until and (self.until is None or since < self.until)


@dataclass(frozen=True, slots=True)
class WrongClock:
    """Of one process."""

    process: str
    seconds: float
    """By which it was fast; less than 0: slow."""
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Commit:
    """That the build service has pushed for a component of a binding, or one of before that has its manifests."""

    url: str
    branch: str
    path: str
    id: str


@dataclass(frozen=True, slots=True)
class Build:
    """What the build service has written of a binding, before it named that."""

    tenant: str
    """The namespace."""
    environment: str
    snapshot: str
    commits: tuple[Commit, ...]
    """Of each component of the binding."""


@dataclass(slots=True)
class Record:
    """Of one run of a plan."""

    present: dict[Key, Manifest] = field(default_factory=dict)
    """Resources and Secrets of users, as they were acknowledged last; without those whose deletion was."""
    deleted: set[Key] = field(default_factory=set)
    """Of which a user has ever asked for the deletion."""
    deleted_at: dict[str, int] = field(default_factory=dict)
    """By uid, of what a user has deleted: whatever was acknowledged afterwards has a version above this one."""
    newest: int = 0
    """Version of what was acknowledged last."""
    contents: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """Spec or data of each, by uid: all that were ever acknowledged."""
    names: dict[str, Key] = field(default_factory=dict)
    """Of each, by uid."""
    policies: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By DeploymentTargetClass, each that it ever had."""
    runs: dict[str, Asked] = field(default_factory=dict)
    """By uid."""
    builds: dict[tuple[str, str, str], list[Build]] = field(default_factory=lambda: defaultdict(list))
    """By tenant, environment and snapshot, in their order."""
    branches: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """By URL and name the commits of each that were named, in the order in which they first were."""
    disturbed: set[str] = field(default_factory=set)
    """Uids of GitOpsDeployments whose Application an intruder has touched."""
    before: frozenset[tuple[str, str]] = frozenset()
    """Kind and name of what engines held when the run began: others' whose tests came first. It may be moved, too."""
    foreign: dict[Key, Manifest] = field(default_factory=dict)
    """What an intruder has made that is not ours to delete."""
    starts: SyncStarts = field(default_factory=SyncStarts)
    """As they were seen."""
    history: ApplicationHistory = field(default_factory=ApplicationHistory)
    """Of all Applications, as far as it was seen."""
    failed_calls: int = 0
    """That our services made to the API server, and that were made to fail."""
    failed_queries: int = 0
    """Likewise of planners and Connect to the database."""
    witness_gaps: list[Gap] = field(default_factory=list)
    """In which syncs may have started unseen."""
    replaced: Counter[str] = field(default_factory=Counter)
    """By service, how often a process that was stopped or cut off went on when others did all of its work."""
    wrong_clocks: list[WrongClock] = field(default_factory=list)
    """That processes have had."""
    restarted: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How often a process that had ended by itself was started again."""

    def acknowledge(self, manifest: Manifest) -> None:
        """The API server has stored it."""
        self.present[key_of(manifest)] = manifest
        self.newest = max(self.newest, version_of(manifest))
        content = content_of(manifest)
        self.names[manifest["metadata"]["uid"]] = key_of(manifest)
        contents = self.contents[manifest["metadata"]["uid"]]
        if not contents or contents[-1] != content:
            contents.append(content)

    def note_build(self, build: Build) -> None:
        """The build service has written it, and names it next."""
        self.builds[build.tenant, build.environment, build.snapshot].append(build)
        for commit in build.commits:
            branch = self.branches[commit.url, commit.branch]
            if commit.id not in branch:
                branch.append(commit.id)

    def this_or_later(self, commit: Commit) -> Collection[str]:
        """Ids of a commit, and of those of its branch that came after it: the branch has what it brought then, too."""
        branch = self.branches.get((commit.url, commit.branch), [])
        return branch[branch.index(commit.id) :] if commit.id in branch else [commit.id]

    def disturb(self, namespace: str) -> None:
        """An intruder has touched what all of a tenant's Applications need."""
        self.disturbed |= {uid for uid, key in self.names.items() if key[:2] == (DEPLOYMENT.kind, namespace)}

    def forget(self, key: Key) -> None:
        """Its deletion was acknowledged."""
        if (stored := self.present.pop(key, None)) is not None:
            self.deleted_at[stored["metadata"]["uid"]] = self.newest
        self.deleted.add(key)

    def forget_namespace(self, namespace: str) -> None:
        """The deletion of all that is in it was."""
        for key in [key for key in self.present if key[1] == namespace]:
            self.forget(key)


def key_of(manifest: Manifest) -> Key:
    """By which an object is known."""
    meta = manifest["metadata"]
    return manifest["kind"], meta.get("namespace", ""), meta["name"]


def name_of(manifest: Manifest) -> tuple[str, str]:
    """Kind and name: by these an object of an engine is known, whichever instance it is on."""
    return manifest["kind"], manifest["metadata"]["name"]


def version_of(manifest: Manifest) -> int:
    """Of one and the same API server all objects' versions are in one order."""
    return int(manifest["metadata"]["resourceVersion"])


def content_of(manifest: Manifest) -> Any:
    """What a user wrote: a spec, or a Secret's data."""
    return manifest["data"] if manifest["kind"] == "Secret" else manifest["spec"]
