"""A workspace cluster and its watcher, as far as child objects need them: rows are applied, live objects are told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.kinds.environment.model import ENVIRONMENT
from services.kinds.shared.api_group import is_appstudio_label
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event
from services.planner.rows.compiled import ChildKey, ChildRow
from tests.unit.planner.given import at, changed, gone, resource, resource_gone
from tests.unit.planner.world import NOW, World

DEPLOYMENT, MANAGED_ENVIRONMENT = "GitOpsDeployment", "GitOpsDeploymentManagedEnvironment"
CLUSTER = "https://preview.example.com:6443"
FIRST, SECOND = "web", "web-shop"
"""Bindings whose deployments have the same names."""
ENVIRONMENT_OF = {FIRST: "shop-qa", SECOND: "qa"}


def deployment(component: str) -> ChildKey:
    """Of a component of either."""
    return (DEPLOYMENT, f"web-shop-shop-qa-{component}")


PLACE = (MANAGED_ENVIRONMENT, "managed-environment-qa")


@dataclass(frozen=True)
class Live:
    """A live child object."""

    uid: str
    version: int
    spec: dict[str, Any]
    controller: str
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> tuple[dict[str, Any], dict[str, str], str]:
        return self.spec, self.labels, self.controller


@dataclass
class Workspace:
    """A namespace, its planner, and the rows that its watcher has not applied yet."""

    world: World = field(default_factory=World)
    live: dict[ChildKey, Live] = field(default_factory=dict)
    owners: dict[str, Event] = field(default_factory=dict)
    """Bindings and environments that exist, by their uids."""
    second: int = 0
    made: int = 0
    unapplied: list[ChildRow] = field(default_factory=list)
    untold: list[ChildKey] = field(default_factory=list)
    """Names of objects that have changed since the planner was told."""
    told: dict[ChildKey, Live] = field(default_factory=dict)
    written: int = 0
    """Rows that the planner has streamed."""

    # The planner

    def take(self, *events: Event) -> Changes:
        changes = self.world.take(*events)
        self.unapplied += changes.child_objects
        self.written += len(changes.child_objects)
        return changes

    def open(self) -> None:
        """The environments are there, both of them the namespace itself."""
        for name in ENVIRONMENT_OF.values():
            self.environment(name)

    def environment(self, name: str = "qa", cluster: str = "") -> None:
        """Write an environment."""
        self.second += 1
        content: dict[str, Any] = {"displayName": name, "deploymentStrategy": "Manual"}
        if cluster:
            terms = {"targetNamespace": "shop", "clusterCredentialsSecret": "kubeconfig", "apiURL": cluster}
            terms |= {"allowInsecureSkipTLSVerify": False}  # type: ignore[dict-item]
            content["unstableConfigurationFields"] = {"kubernetesCredentials": terms}
        self._write(resource(self.second, ENVIRONMENT.kind, name, content, generation=self.second))

    def bind(
        self, name: str, components: Sequence[str], *, uid: str = "", branch: str = "main", told: bool = True
    ) -> str:
        """Write a binding of which the build service has told, unless it has not; returns its uid."""
        self.second += 1
        spec = {"application": "shop", "environment": ENVIRONMENT_OF[name], "snapshot": "one"}
        where = {"url": "https://git.example.com/gitops", "branch": branch}
        said = [{"name": each, "gitopsRepository": where | {"path": each}} for each in components]
        content = spec | {"components": [{"name": each} for each in components]}
        event = resource(
            self.second,
            BINDING.kind,
            name,
            content,
            uid=uid,
            generation=self.second,
            metadata={"labels": {}},
            status={"components": said},
        )
        return self._write(event)

    def _write(self, event: Event) -> str:
        message: Any = event.message
        uid: str = message.event.uid
        self.owners[uid] = event
        self.take(event)
        return uid

    def end(self, name: str, uid: str = "") -> None:
        """Delete a binding: the API server removes what it controls, a moment later."""
        self.second += 1
        uid = uid or f"uid-{name}"
        del self.owners[uid]
        self.take(resource_gone(self.second, BINDING.kind, name, uid))

    def collect_garbage(self) -> None:
        for key in [key for key, each in self.live.items() if each.controller and each.controller not in self.owners]:
            self.remove(key)

    def pass_time(self, seconds: int) -> None:
        """The clock goes on, and the planner looks at what is due."""
        self.second += seconds
        self.world.later = at(self.second) - NOW
        before = dict(self.rows())
        self.world.take_due()
        news = [row for key, row in self.rows().items() if before.get(key) != row]
        self.unapplied += news
        self.written += len(news)

    def rows(self) -> dict[ChildKey, ChildRow]:
        return {row.key: row for row in self.world.child_objects.values()}

    def row(self, component: str) -> ChildRow:
        return self.rows()[deployment(component)]

    # The watcher, and the API server

    def apply(self) -> None:
        """Apply the rows in their order."""
        rows, self.unapplied = self.unapplied, []
        for row in rows:
            if not row.is_unowned:
                self._apply(row)

    def _apply(self, row: ChildRow) -> None:
        held, manifest = self.live.get(row.key), json.loads(row.manifest)
        spec, labels = manifest["spec"], manifest["labels"]
        if held is not None and held.controller != row.owner_uid:
            return
        if row.desired == "absent":
            if held is not None and row.uid in {"", held.uid}:
                self.remove(row.key)
        elif held is None:
            self.put(row.key, spec, row.owner_uid, labels)
        else:
            self.edit(row.key, held.spec | spec)
            self.relabel(row.key, held.labels | labels)

    def put(
        self, key: ChildKey, spec: dict[str, Any], controller: str = "", labels: dict[str, str] | None = None
    ) -> None:
        self.second += 1
        self.made += 1
        self.live[key] = Live(f"child-{self.made}", self.second, spec, controller, labels or {})
        self.untold.append(key)

    def relabel(self, key: ChildKey, labels: dict[str, str]) -> None:
        if self.live[key].labels != labels:
            self.second += 1
            self.live[key] = replace(self.live[key], labels=labels)
            self.untold.append(key)

    def edit(self, key: ChildKey, spec: dict[str, Any]) -> None:
        if self.live[key].spec != spec:
            self.second += 1
            self.live[key] = replace(self.live[key], spec=spec, version=self.second)
            self.untold.append(key)

    def remove(self, key: ChildKey) -> None:
        self.second += 1
        del self.live[key]
        self.untold.append(key)

    def tell(self) -> None:
        """Report what has changed, each object in its newest state."""
        names, self.untold = dict.fromkeys(self.untold), []
        for key in names:
            self._tell(key)

    def _tell(self, key: ChildKey) -> None:
        self.second += 1
        (kind, name), live, told = key, self.live.get(key), self.told.pop(key, None)
        if told is not None and (live is None or live.uid != told.uid):
            ended = gone(self.second, name, uid=told.uid) if kind == DEPLOYMENT else None
            self.take(ended or resource_gone(self.second, kind, name, told.uid))
        if live is not None:
            self.told[key] = live
            facts = {"uid": live.uid, "version": self.second, "generation": live.version}
            owners = {"ownerReferences": self._owners(live)}
            if kind == DEPLOYMENT:
                projected = {key: value for key, value in live.labels.items() if is_appstudio_label(key)}
                metadata = {"labels": projected} | owners
                self.take(changed(self.second, name, content=live.spec, metadata=metadata, **facts))
            else:
                self.take(resource(self.second, kind, name, live.spec, metadata=owners, **facts))

    def _owners(self, live: Live) -> list[dict[str, Any]]:
        """Its controller; of one that exists no more the name is not told."""
        if not live.controller:
            return []
        event = self.owners.get(live.controller)
        known = event.message.event if event is not None else None
        named = {"kind": known.kind, "name": known.name} if known is not None else {}
        return [{"uid": live.controller, "controller": True} | named]

    def settle(self) -> None:
        """Apply and tell until nothing happens any more."""
        while self.unapplied or self.untold:
            self.apply()
            self.tell()
