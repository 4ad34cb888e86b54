"""A tenant as its resources describe it: which of its environments work, and what its deployments must become."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from chaos.api import ACCOUNT_PREFIX, APP_ENVIRONMENT, BINDING, CLUSTER_PREFIX, PROJECT_PREFIX, REFUSALS, SANDBOX
from chaos.checker.world import Facts, World, decoded, token_of
from chaos.identity import resource_id, tenant_id
from chaos.record import Record
from services.common.kubernetes import ApiResource, Manifest

LOCAL = "in-cluster"
RETRY = {"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}, "refresh": True}
AUTOMATED = {"prune": True, "selfHeal": True, "allowEmpty": True}
PRUNE_IN_BACKGROUND = "PrunePropagationPolicy=background"

Usability = Literal["works", "no secret", "refused"]


@dataclass(frozen=True, slots=True)
class Environment:
    """One that exists."""

    manifest: Manifest
    usability: Usability

    @property
    def uid(self) -> str:
        """Of the resource."""
        uid: str = self.manifest["metadata"]["uid"]
        return uid

    @property
    def cluster(self) -> str:
        """Its name to Argo CD."""
        return f"{CLUSTER_PREFIX}{resource_id(self.uid)}"

    @property
    def account(self) -> str:
        """Name of the account that it creates on its cluster, if it creates one."""
        return f"{ACCOUNT_PREFIX}{self.uid}"

    @property
    def creates_account(self) -> bool:
        """Whether it does."""
        return bool(self.spec.get("createNewServiceAccount"))

    @property
    def is_generated(self) -> bool:
        """It was made for an Environment of AppStudio: of its former specs not all were recorded."""
        return bool(owner_of(self.manifest, APP_ENVIRONMENT))

    @property
    def spec(self) -> Manifest:
        """What its tenant wants of it."""
        spec: Manifest = self.manifest["spec"]
        return spec


@dataclass(frozen=True, slots=True)
class Deployment:
    """One that exists, and what its Application may look like."""

    manifest: Manifest
    allowed: tuple[Manifest, ...]
    """Specs. One: it must be that."""
    is_certain: bool
    """There must be an Application. If not, the resource waits for its environment, or is refused."""
    has_unknown_past: bool = False
    """A binding has made it, for places of which not all were recorded: its Application may be for any of them."""
    refusal: str = ""
    """How the error begins that it has to show, if its spec is refused: what was deployed before stays."""

    @property
    def uid(self) -> str:
        """Of the resource."""
        uid: str = self.manifest["metadata"]["uid"]
        return uid


@dataclass(frozen=True)
class Tenant:
    """Who has a namespace now."""

    namespace: Manifest
    world: World
    facts: Facts
    record: Record

    @property
    def name(self) -> str:
        """Of the namespace."""
        name: str = self.namespace["metadata"]["name"]
        return name

    @cached_property
    def id(self) -> str:
        """By which Argo CD's projects are named."""
        return tenant_id(self.name, self.namespace["metadata"]["uid"])

    @cached_property
    def project(self) -> str:
        """Of all that goes to its own namespace, and of most of the rest."""
        return f"{PROJECT_PREFIX}{self.id}"

    @property
    def cluster_project(self) -> str:
        """Of what goes where resources without a namespace may be deployed."""
        return f"{self.project}-cluster"

    def project_of(self, environment: Manifest | None) -> str:
        """Of what goes to an environment with this spec; None: to its own namespace."""
        return self.cluster_project if environment and environment.get("clusterResources") else self.project

    def own(self, items: Sequence[Manifest]) -> list[Manifest]:
        """Those of ``items`` that are in its namespace."""
        return [item for item in items if item["metadata"]["namespace"] == self.name]

    @cached_property
    def secrets(self) -> Mapping[str, Manifest]:
        """By name."""
        return {item["metadata"]["name"]: item for item in self.own(self.world.secrets)}

    @cached_property
    def credentials(self) -> Sequence[Manifest]:
        """All that there are."""
        return self.own(self.world.credentials)

    @property
    def login(self) -> tuple[str, str]:
        """User name and password that open private repositories to this tenant."""
        return self.facts.login_of(self.name)

    def login_for(self, url: str) -> Mapping[str, str]:
        """What opens a private repository with this URL to this tenant: all of these take its login, or its key."""
        username, password = self.login
        if url.startswith("ssh:"):
            return {"sshPrivateKey": self.facts.key_of(username)}
        return {"username": username, "password": password}

    def opens(self, credential: Manifest) -> bool:
        """Whether it opens its repository."""
        secret = self.secrets.get(credential["spec"]["secret"])
        return secret is not None and decoded(secret["data"]) == self.login_for(credential["spec"]["repository"])

    @cached_property
    def app_environments(self) -> Mapping[str, Manifest]:
        """Of AppStudio, by name."""
        return {item["metadata"]["name"]: item for item in self.own(self.world.app_environments)}

    @cached_property
    def claims(self) -> Mapping[str, Manifest]:
        """By name."""
        return {item["metadata"]["name"]: item for item in self.own(self.world.claims)}

    @cached_property
    def targets(self) -> Mapping[str, Manifest]:
        """By name."""
        return {item["metadata"]["name"]: item for item in self.own(self.world.targets)}

    @property
    def sandbox_classes(self) -> frozenset[str]:
        """Names of the DeploymentTargetClasses of which the sandbox makes targets."""
        items = self.world.classes
        return frozenset(item["metadata"]["name"] for item in items if item["spec"]["provisioner"] == SANDBOX)

    @cached_property
    def space_requests(self) -> Sequence[Manifest]:
        """All that there are."""
        return self.own(self.world.space_requests)

    @cached_property
    def logins_of_spaces(self) -> Mapping[str, Manifest]:
        """Secrets of the sandbox, by name."""
        return {item["metadata"]["name"]: item for item in self.own(self.world.logins_of_spaces)}

    @property
    def clusters_with_unknown_past(self) -> frozenset[str]:
        """Of environments that do not work, and of whose former specs not all were recorded."""
        every = self.environments.values()
        return frozenset(each.cluster for each in every if each.is_generated and each.usability != "works")

    @cached_property
    def environments(self) -> Mapping[str, Environment]:
        """By name."""
        return {
            item["metadata"]["name"]: Environment(item, self._usability(item))
            for item in self.own(self.world.environments)
        }

    @property
    def has_cluster_resources(self) -> bool:
        """An environment that works allows resources without a namespace."""
        return any(each.usability == "works" and each.spec.get("clusterResources") for each in self._all_environments())

    @property
    def may_have_cluster_resources(self) -> bool:
        """Or one that does not work has worked with such a spec."""
        return self.has_cluster_resources or any(
            spec.get("clusterResources")
            for each in self._all_environments()
            if each.usability != "works"
            for spec in self.record.contents[each.uid]
        )

    def _all_environments(self) -> Collection[Environment]:
        return self.environments.values()

    def _usability(self, environment: Manifest) -> Usability:
        secret = self.secrets.get(environment["spec"]["credentialsSecret"])
        if secret is None:
            return "no secret"
        return "works" if token_of(secret["data"]) in self.facts.tokens else "refused"

    @cached_property
    def deployments(self) -> Sequence[Deployment]:
        """All that there are."""
        return [self._deployment(item) for item in self.own(self.world.deployments)]

    def _deployment(self, manifest: Manifest) -> Deployment:
        spec = manifest["spec"]
        if refusal := REFUSALS.get(spec["source"]["path"]):
            former = tuple(self._former(manifest["metadata"]["uid"]))
            return Deployment(manifest, former, is_certain=False, refusal=refusal)
        named = _environment_of(spec)
        if not named:
            return Deployment(manifest, (self._application(spec, LOCAL, self.project),), is_certain=True)
        environment = self.environments.get(named)
        if environment is not None and environment.usability == "works":
            project = self.project_of(environment.spec)
            return Deployment(manifest, (self._application(spec, environment.cluster, project),), is_certain=True)
        former = tuple(self._former(manifest["metadata"]["uid"]))
        is_generated = bool(owner_of(manifest, BINDING))
        return Deployment(manifest, former, is_certain=False, has_unknown_past=is_generated)

    def accepted_specs(self, uid: str) -> list[Manifest]:
        """Of a deployment, all that it ever had and that were not refused."""
        return [spec for spec in self.record.contents[uid] if spec["source"]["path"] not in REFUSALS]

    def _former(self, uid: str) -> Iterator[Manifest]:
        """Each that any of its specs ever asked for: which of them was the last one in force, depends on time."""
        for spec in self.accepted_specs(uid):
            named = _environment_of(spec)
            if not named:
                yield self._application(spec, LOCAL, self.project)
                continue
            clusters = ["", *(f"{CLUSTER_PREFIX}{resource_id(each)}" for each in self.former_environments(named))]
            for cluster in clusters:
                for project in (self.project, self.cluster_project):
                    yield self._application(spec, cluster, project)

    def former_environments(self, name: str) -> list[str]:
        """Uids of all that ever had the name."""
        wanted = ("GitOpsDeploymentManagedEnvironment", self.name, name)
        return [uid for uid, key in self.record.names.items() if key == wanted]

    def _application(self, spec: Manifest, cluster: str, project: str) -> Manifest:
        """The spec of the Application."""
        namespace = (spec.get("destination") or {}).get("namespace") or self.name
        return {
            "project": project,
            "source": dict(spec["source"]),
            # The API server stores an empty name as none.
            "destination": ({"name": cluster} if cluster else {}) | {"namespace": namespace},
        } | _sync_policy(spec)


def owner_of(manifest: Manifest, resource: ApiResource) -> str:
    """Uid of the resource of this kind that controls it; empty: none does."""
    owners = manifest["metadata"].get("ownerReferences") or []
    return next((each["uid"] for each in owners if each["kind"] == resource.kind), "")


def _environment_of(spec: Manifest) -> str:
    name: str = (spec.get("destination") or {}).get("environment") or ""
    return name


def _sync_policy(spec: Manifest) -> Manifest:
    options = (spec.get("syncPolicy") or {}).get("syncOptions") or []
    if spec["type"] == "automated":
        return {"syncPolicy": {"automated": AUTOMATED, "syncOptions": [PRUNE_IN_BACKGROUND, *options], "retry": RETRY}}
    return {"syncPolicy": {"syncOptions": options}} if options else {}
