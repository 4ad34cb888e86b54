"""A tenant of AppStudio for years: snapshots, promotions and previews come and go each month.

Its API server, its watcher, the build service and the sandbox's controller are played.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from services.common.api_resource import SECRET
from services.common.messages import ChildKind
from services.common.times import rfc3339
from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_class.model import DEVSANDBOX
from services.kinds.environment.catalogue import EXPIRES_AT
from services.kinds.environment.model import ENVIRONMENT, MANUAL
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET, MANAGED_ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.rules import TIME_FOR_A_STEP, TIME_TO_ANSWER
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.space_request.model import SPACE_REQUEST
from services.planner.domain.events import Event
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import SYNCED, at, changed, gone, resource, resource_gone
from tests.unit.planner.played_namespace import Key, Live, PlayedNamespace

APP = "shop"
COMPONENTS = ("cart", "web")
PREVIEW_FOR = timedelta(minutes=5)
SANDBOX = {"provisioner": DEVSANDBOX, "reclaimPolicy": "Delete"}
MOST_ROUNDS = 30
MADE_FOR_CLAIMS = (SPACE_REQUEST.kind, DEPLOYMENT_TARGET.kind)
REPORTED = (BINDING.kind, SPACE_REQUEST.kind)
"""Kinds of which a watcher tells what other controllers write into their status."""


class World(Protocol):
    """What goes on around the namespace."""

    epoch: int
    """Of the newest list."""

    def tick(self) -> int:
        """The next second."""

    def consume(self, events: Sequence[Event]) -> None:
        """The planner does, in one batch."""

    def answer(self) -> None:
        """Agents do what the rows say."""

    def wait(self, time: timedelta) -> None:
        """It passes, and the planner does what is due."""

    def objects_of(self, namespace: str) -> Sequence[ChildRow]:
        """Rows of what is wanted there."""

    def statuses_of(self, namespace: str) -> Sequence[tuple[str, str, str, str]]:
        """Kind, name and uid of what is there, and its status."""


@dataclass
class Shop(PlayedNamespace):
    """See the module."""

    world: World = field(kw_only=True)
    namespace: str = field(kw_only=True)
    closes_after: int = field(kw_only=True)
    """So many months it is there, and then opens anew. 0: it stays."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """What statuses have said when they were looked at, and how often."""
    month: int = 0

    def live_through_month(self) -> None:
        """A release is promoted to one environment after the other, and looked at in a preview; a promotion fails."""
        self.month += 1
        if not self.live:
            self._open()
        release, former = f"release-{self.month}", (SNAPSHOT.kind, f"release-{self.month - 1}")
        self.put((SNAPSHOT.kind, release), {"application": APP})
        for environment in ("dev", "staging"):
            self._promote(release, environment)
        self._preview(f"preview-{self.month}", release)
        self._promote(release, "nowhere", TIME_FOR_A_STEP)
        self._look()
        for key in [key for key in self.live if key[0] == PROMOTION_RUN.kind or key == former]:
            self.delete(key)
        self.settle()
        if self.closes_after and self.month % self.closes_after == 0:
            self._close()

    def events(self) -> Iterator[Event]:
        """All that there is."""
        return map(self.event_of, list(self.live))

    # Users

    def _open(self) -> None:
        self.put((APPLICATION.kind, APP), {}, told=False)
        for name in COMPONENTS:
            self.put((COMPONENT.kind, name), {"application": APP, "componentName": name}, told=False)
        self._environment("dev")
        self._environment("staging", claim="staging", parent="dev")
        self.tell(*self.live)
        self.settle()

    def _close(self) -> None:
        """What was made for what users have made goes with it."""
        for key in sorted(self.live):
            if key in self.live and not self.live[key].controller and key[0] not in MADE_FOR_CLAIMS:
                self.delete(key)
        self.settle()
        assert self.live == {}, "it was all for what is gone"

    def _environment(self, name: str, claim: str = "", parent: str = "", **live: Any) -> None:
        """With its claim, if it has one; nobody is told yet."""
        content: dict[str, Any] = {"displayName": name, "deploymentStrategy": MANUAL}
        if claim:
            self.put((DEPLOYMENT_TARGET_CLAIM.kind, claim), {"deploymentTargetClassName": "sandbox"}, told=False)
            content["configuration"] = {"target": {"deploymentTargetClaim": {"claimName": claim}}}
        if parent:
            content["parentEnvironment"] = parent
        self.put((ENVIRONMENT.kind, name), content, told=False, **live)

    def _promote(self, release: str, environment: str, time: timedelta = TIME_TO_ANSWER) -> None:
        content = {"application": APP, "snapshot": release}
        promotion = {"manualPromotion": {"targetEnvironment": environment}}
        self.put((PROMOTION_RUN.kind, f"{release}-{environment}"), content | promotion)
        self.settle()
        self.world.wait(time)
        self.settle()

    def _preview(self, name: str, release: str) -> None:
        """With a target and deployments of its own, which go with it when its time is over."""
        ends = rfc3339(at(self.tick()) + PREVIEW_FOR)
        self._environment(name, claim=name, annotations={EXPIRES_AT: ends})
        content = {"application": APP, "environment": name, "snapshot": release}
        self.put((BINDING.kind, name), content | {"components": [{"name": COMPONENTS[0]}]}, told=False)
        self.tell(*(key for key in self.live if key[1] == name))
        self.settle()
        self._look()
        self.world.wait(PREVIEW_FOR)
        self.settle()
        left = [key for key, live in self.live.items() if name in key[1] or name in json.dumps(live.spec)]
        assert left == [], "its time is over"

    # Everybody else

    def settle(self) -> None:
        """Rows are applied, and everybody answers, until nothing happens any more."""
        for _ in range(MOST_ROUNDS):
            self.world.answer()
            written = [key for row in self.world.objects_of(self.namespace) if (key := self.write(row)) is not None]
            written += [key for key, live in self.live.items() if key not in written and _answer(key, live)]
            if not written:
                return
            self.follow(written)
        raise AssertionError("rows and answers without end")

    def _look(self) -> None:
        """At what the watcher writes into statuses."""
        for kind, name, uid, text in self.world.statuses_of(self.namespace):
            live = self.live.get((kind, name))
            if live is not None and live.uid == uid:
                self.outcomes[f"{kind} {_outcome(json.loads(text))}"] += 1

    # The watcher

    def take(self, *events: Event) -> None:
        self.world.consume(events)

    def tick(self) -> int:
        return self.world.tick()

    def put(self, key: Key, spec: dict[str, Any], *, told: bool = True, **live: Any) -> None:
        created_at = int(at(self.tick()).timestamp() * 1000)
        super().put(key, spec, told=told, created_at=created_at, **live)

    def event_of(self, key: Key) -> Event:
        (kind, name), live, second = key, self.live[key], self.tick()
        metadata: dict[str, Any] = {"labels": live.labels, "annotations": live.annotations}
        metadata["finalizers"] = live.finalizers
        if live.controller:
            metadata["ownerReferences"] = [{"uid": live.controller, "controller": True}]
        facts: dict[str, Any] = {"uid": live.uid, "generation": live.generation, "deleting": live.deleting}
        facts |= {"epoch": self.world.epoch, "namespace": self.namespace, "finalizers": tuple(live.finalizers)}
        if kind == GITOPS_DEPLOYMENT.kind:
            return changed(second, name, content=live.spec, metadata=metadata, **facts)
        if kind == ChildKind.SECRET_COPY:
            sealed = {"type": ENVIRONMENT_SECRET, "sealed": f"sealed-{name}-{second}", "keyId": "k1"}
            return resource(second, SECRET.kind, name, sealed, metadata=metadata, **facts | {"generation": 0})
        facts |= {"created_at": live.created_at} | _told(kind, live)
        return resource(second, kind, name, live.spec, metadata=metadata, **facts)

    def gone(self, key: Key, live: Live) -> Event:
        kind, name = key
        if kind == GITOPS_DEPLOYMENT.kind:
            return gone(self.tick(), name, uid=live.uid, namespace=self.namespace)
        kind = SECRET.kind if kind == ChildKind.SECRET_COPY else kind
        return resource_gone(self.tick(), kind, name, live.uid, namespace=self.namespace)


def _told(kind: str, live: Live) -> dict[str, Any]:
    """What a watcher tells of the status, of the class and of the Secret that an object names."""
    told: dict[str, Any] = {}
    if kind in REPORTED:
        told["status"] = live.status
    if kind == MANAGED_ENVIRONMENT.kind:
        told["secret_type"] = ENVIRONMENT_SECRET
    if kind == DEPLOYMENT_TARGET.kind:
        told |= {"secret_type": "example.com/sandbox", "secret_version": "1"}
    if "deploymentTargetClassName" in live.spec:
        told["named_class"] = json.dumps({"version": "1", "spec": SANDBOX})
    return told


def _answer(key: Key, live: Live) -> bool:
    """What the build service and the sandbox's controller say of an object; whether that is news."""
    kind, name = key
    if kind == BINDING.kind:
        answer: dict[str, Any] = {"components": [_built(each["name"], live) for each in live.spec["components"]]}
    elif kind == SPACE_REQUEST.kind:
        access = [{"name": f"space-{name}", "secretRef": f"login-{name}"}]
        answer = {"conditions": [{"type": "Ready", "status": "True", "reason": "Provisioned"}]}
        answer |= {"namespaceAccess": access, "targetClusterURL": "https://api.example.com"}
    else:
        return False
    is_news = live.status != answer
    live.status = answer
    return is_news


def _built(component: str, binding: Live) -> dict[str, Any]:
    """Agents tell that everything is at the same commit, so other words tell of which snapshot this is."""
    path = f"components/{component}/overlays/{binding.spec['environment']}"
    repository: dict[str, Any] = {"url": "https://git.example.com/gitops", "branch": "main", "path": path}
    repository["generatedResources"] = [f"{binding.spec['snapshot']}.yaml"]
    return {"name": component, "gitopsRepository": repository | {"commitID": SYNCED["revision"]}}


def _outcome(status: dict[str, Any]) -> str:
    """What is told of it, in a word or two."""
    if "gitopsDeployments" in status:
        return f"{len(status['gitopsDeployments'])} deployments"
    return str(status.get("completionResult") or status.get("phase") or "")
