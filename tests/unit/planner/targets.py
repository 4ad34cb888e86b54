"""A namespace with claims and targets, its planner, and a watcher that writes what the planner decides."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from services.kinds.deployment_target_claim.rows import FINALIZER as CLAIM_FINALIZER
from services.kinds.registry import REGISTRY
from services.planner.domain.events import Event
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import at, resource
from tests.unit.planner.played_namespace import Key, Live, PlayedNamespace
from tests.unit.planner.world import NOW, World

CLAIM, TARGET, SPACE = "DeploymentTargetClaim", "DeploymentTarget", "SpaceRequest"
CLASS = "space"
CREDENTIALS = {
    "defaultNamespace": "spaces-1",
    "apiURL": "https://api.example.com",
    "clusterCredentialsSecret": "login",
    "allowInsecureSkipTLSVerify": False,
}


@dataclass
class Targets(PlayedNamespace):
    """See the module. Nothing is told, or written, until a test says so."""

    world: World = field(default_factory=World)
    classes: dict[str, str] = field(default_factory=dict)
    """The reclaim policy of each class that exists."""
    provisioner: str = "example.com/ours"
    """Of all classes but those that ``provisioners`` names."""
    provisioners: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    """Of all classes."""
    secret: dict[str, str] = field(default_factory=dict)
    """What watchers tell of the Secret that each target names; nothing, as watchers of before."""
    second: int = 0

    # Users and operators

    def claim(self, name: str = "dev", target: str = "", class_: str = CLASS, **live: Any) -> None:
        spec = {"deploymentTargetClassName": class_} | ({"targetName": target} if target else {})
        self.put((CLAIM, name), spec, **live)

    def target(self, name: str = "t", for_: str = "", class_: str = CLASS, **live: Any) -> None:
        spec = {"deploymentTargetClassName": class_, "kubernetesCredentials": CREDENTIALS}
        self.put((TARGET, name), spec | ({"claimRef": for_} if for_ else {}), **live)

    def set_class(self, policy: str, name: str = CLASS) -> None:
        """Or take it away, if there is no policy. Who names it is told again."""
        self.classes = {known: each for known, each in self.classes.items() if known != name}
        if policy:
            self.classes[name] = policy
        self.tell(*self.live)

    def answer(self, *spaces: str, **status: Any) -> None:
        """The controller of SpaceRequests has made these namespaces for the only one, or says something else."""
        (key,) = [key for key in self.live if key[0] == SPACE]
        condition = {"type": "Ready", "status": "True", "reason": "Provisioned"} | status
        access = [{"name": each, "secretRef": f"{each}-login"} for each in spaces]
        url = {"targetClusterURL": "https://api.example.com"}
        self.live[key].status = {"conditions": [condition], "namespaceAccess": access} | url
        self.tell(key)

    def spaces(self) -> list[Live]:
        return [live for key, live in self.live.items() if key[0] == SPACE]

    # The watcher

    def take(self, *events: Event) -> None:
        for event in events:
            self.world.take(event)

    def tick(self) -> int:
        self.second += 1
        return self.second

    def event_of(self, key: Key) -> Event:
        (kind, name), live = key, self.live[key]
        live.created_at = live.created_at or int(at(self.second).timestamp() * 1000)
        named = live.spec.get("deploymentTargetClassName", "")
        metadata: dict[str, Any] = {
            "annotations": live.annotations,
            "finalizers": live.finalizers,
            "labels": live.labels,
        }
        omitted = ""
        if kind in (CLAIM, TARGET, SPACE):
            told = REGISTRY[kind].projection.project({"metadata": metadata})
            metadata, omitted = json.loads(told.metadata), told.metadata_omitted
        return resource(
            self.tick(),
            kind,
            name,
            live.spec,
            uid=live.uid,
            deleting=live.deleting,
            finalizers=tuple(live.finalizers),
            metadata=metadata,
            metadata_omitted=omitted,
            status=live.status if kind == SPACE else None,
            recalled=json.dumps(live.status) if kind == TARGET and live.status else "",
            named_class=self._class(named) if kind != SPACE else "",
            created_at=live.created_at if kind == SPACE else None,
            **(self.secret if kind == TARGET else {}),
        )

    def settle(self) -> None:
        """Write the planner's decisions and tell of that until nothing happens any more."""
        for _ in range(20):
            for (_, _, kind, name), row in self.world.workspace.items():
                if (kind, name) in self.live and self.live[kind, name].uid == row.uid:
                    self.live[kind, name].status = json.loads(row.status)
            written = [key for row in self.rows() if (key := self.write(row)) is not None]
            if not written:
                return
            self.follow(written)
        raise AssertionError("it never ends")

    def pass_time(self, seconds: int) -> None:
        self.second += seconds
        self.world.later = at(self.second) - NOW
        self.world.take_due()

    def pending(self) -> dict[tuple[str, str], tuple[str, str]]:
        """State and class of each pending claim, by its name and uid."""
        rows = self.world.pending_claims.values()
        return {(row.name, row.uid): (row.state, row.class_name) for row in rows}

    def rows(self) -> list[ChildRow]:
        return list(self.world.child_objects.values())

    # What a test looks at

    def phase(self, name: str, kind: str = CLAIM) -> str:
        return str(self._status(name, kind).get("phase", ""))

    def error(self, name: str, kind: str = CLAIM) -> str:
        (found,) = [each for each in self._status(name, kind)["conditions"] if each["type"] == "ErrorOccurred"]
        return str(found["message"]) if found["status"] == "True" else ""

    def bound(self) -> dict[str, str]:
        """The target of each claim that has one, as the planner has decided."""
        claims = [each for each in self.world.resources.values() if each.kind == CLAIM and each.present]
        kept = {each.name: json.loads(each.accepted) for each in claims if each.accepted}
        return {name: decided["other"] for name, decided in kept.items() if decided["phase"] == "Bound"}

    def _status(self, name: str, kind: str) -> dict[str, Any]:
        (row,) = [each for each in self.world.workspace.values() if (each.kind, each.name) == (kind, name)]
        status: dict[str, Any] = json.loads(row.status)
        return status

    def _class(self, name: str) -> str:
        policy = self.classes.get(name)
        if policy is None:
            return ""
        spec: dict[str, Any] = {"provisioner": self.provisioners.get(name, self.provisioner), "reclaimPolicy": policy}
        if self.parameters:
            spec["parameters"] = self.parameters
        return json.dumps({"version": str(self.second), "spec": spec})


__all__ = ["CLAIM", "CLAIM_FINALIZER", "SPACE", "TARGET", "Live", "Targets"]
