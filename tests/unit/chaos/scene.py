"""A small world, built by hand, in which everything is as it must be; tests change something, and ask the checker."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

from chaos.checker.difference import Difference
from chaos.checker.judge import Judgement, judge
from chaos.checker.world import EPOCH, Facts, Move, World
from chaos.identity import resource_id, tenant_id
from chaos.record import Asked, Build, Commit, Record
from services.common.kubernetes import Manifest

HOME, ENGINE = "chaos-000", "gitops-service-argocd"
TOKEN, AUTHORITY, API = "good-token", "QQ==", "https://127.0.0.1:6443"
REPOSITORY, PRIVATE = "https://git.example.com/chaos-000/Config.git", "https://127.0.0.1:9/private.git"
OVER_SSH = f"ssh://git-{HOME}@127.0.0.1:9/private.git"
LOGIN = ("git", "right")
USERNAME = f"git-{HOME}"
REPOSITORY_SECRET = "repo-cred-b77a0ce2-14a8-57f6-99d5-3b4c2d0c9814"
TENANT = "e6578532-0ac2-56f5-b388-1cea957290f5"
PROJECT = f"app-project-{TENANT}"
CLUSTER = "managed-env-3acca8b2-b193-5f5a-b707-49edc218723e"
LABELS = {"app.kubernetes.io/managed-by": "gitops-service"}
ASKED_AT, OVER_AT = 100, 110
"""Resource versions of the run: as it was made, and with its last status."""
BEGUN, ENDED = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
FACTS = Facts("chaos", (ENGINE, f"{ENGINE}-2"), frozenset({TOKEN}), LOGIN, "key of {}".format)


@dataclass
class Scene:
    """Objects by a short name, and what was recorded."""

    objects: dict[str, Manifest]
    record: Record = field(default_factory=Record)
    placements: dict[str, str] = field(default_factory=lambda: {HOME: ENGINE})
    moves: list[Move] = field(default_factory=list)
    read_at: datetime = EPOCH

    def judged(self) -> list[Difference]:
        """What the checker says."""
        return self.judgement().differences

    def judgement(self) -> Judgement:
        """All that it says."""
        return judge(self._world(), FACTS, self.record)

    def sorts(self) -> list[str]:
        """Of what differs."""
        return [each.sort for each in self.judged()]

    def put(self, name: str, manifest: Manifest) -> None:
        """One object more, which the API server has acknowledged."""
        self.objects[name] = manifest
        self.record.acknowledge(manifest)

    def remove(self, name: str) -> None:
        """One less, and a user has asked for that."""
        item = self.objects.pop(name)
        self.record.forget((item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]))

    def _world(self) -> World:
        def of(kind: str, *, engine: bool = False) -> list[Manifest]:
            every = (item for item in self.objects.values() if item["kind"] == kind)
            return [item for item in every if item["metadata"].get("namespace", "").startswith(ENGINE) == engine]

        return World(
            namespaces=[each for each in of("Namespace") if FACTS.is_tenant(each["metadata"]["name"])],
            deployments=of("GitOpsDeployment"),
            environments=of("GitOpsDeploymentManagedEnvironment"),
            credentials=of("GitOpsDeploymentRepositoryCredential"),
            runs=of("GitOpsDeploymentSyncRun"),
            app_environments=of("Environment"),
            snapshots=of("Snapshot"),
            bindings=of("SnapshotEnvironmentBinding"),
            promotions=of("PromotionRun"),
            classes=of("DeploymentTargetClass"),
            targets=of("DeploymentTarget"),
            claims=of("DeploymentTargetClaim"),
            space_requests=of("SpaceRequest"),
            spaces=[each for each in of("Namespace") if not FACTS.is_tenant(each["metadata"]["name"])],
            secrets=[each for each in of("Secret") if each.get("type") != "Opaque"],
            logins_of_spaces=[each for each in of("Secret") if each.get("type") == "Opaque"],
            accounts=of("ServiceAccount"),
            applications=of("Application", engine=True),
            projects=of("AppProject", engine=True),
            engine_secrets=of("Secret", engine=True),
            placements=self.placements,
            moves=self.moves,
            read_at=self.read_at,
        )


def settled() -> Scene:
    """A deployment of its own namespace, one to an environment, one that a run has synced, and a credential."""
    scene = Scene({"namespace": thing("Namespace", "", HOME, "n1")})
    scene.put("kubeconfig", thing("Secret", HOME, "kubeconfig", "u-secret") | {"data": kubeconfig(TOKEN)})
    scene.put("environment", environment())
    scene.put("credential", credential())
    scene.put("web", deployment("web", "u-web", automated=True))
    scene.put("remote", deployment("remote", "u-remote", destination={"environment": "prod", "namespace": "web"}))
    scene.put("manual", deployment("manual", "u-manual", automated=False))
    scene.put("run", run())
    scene.record.runs["u-run"] = Asked("u-run", "u-manual", ASKED_AT)
    scene.record.starts.note(syncing("u-run", BEGUN, version=ASKED_AT + 1))
    scene.objects |= {
        "web application": application("u-web", automated=True),
        "remote application": application("u-remote", automated=True, cluster=CLUSTER, namespace="web"),
        "manual application": application("u-manual", automated=False),
        "project": project(),
        "cluster secret": cluster_secret(TOKEN),
    }
    return scene


def thing(kind: str, namespace: str, name: str, uid: str) -> Manifest:
    """Any object."""
    meta = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "1"}
    return {"kind": kind, "metadata": meta}


def deployment(name: str, uid: str, *, automated: bool = True, **spec: Any) -> Manifest:
    """A GitOpsDeployment, with the status of one that is synced."""
    source = {"repoURL": REPOSITORY, "path": "."}
    goal = spec.get("destination") or {}
    status = {
        "sync": {"status": "Synced", "revision": "abc"},
        "health": {"status": "Healthy"},
        "operationState": {"phase": "Succeeded", "startedAt": BEGUN, "finishedAt": ENDED},
        "reconciledState": {
            "source": {"path": ".", "repoURL": REPOSITORY, "branch": ""},
            "destination": {"name": goal.get("environment", ""), "namespace": goal.get("namespace", HOME)},
        },
    }
    content = {"type": "automated" if automated else "manual", "source": source} | spec
    return thing("GitOpsDeployment", HOME, name, uid) | {"spec": content, "status": status}


def application(uid: str, *, automated: bool, cluster: str = "in-cluster", namespace: str = HOME) -> Manifest:
    """What a deployment becomes, as Argo CD shows it when it has synced."""
    source, destination = {"repoURL": REPOSITORY, "path": "."}, {"name": cluster, "namespace": namespace}
    policy = {
        "syncPolicy": {
            "automated": {"prune": True, "selfHeal": True, "allowEmpty": True},
            "syncOptions": ["PrunePropagationPolicy=background"],
            "retry": {
                "limit": -1,
                "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"},
                "refresh": True,
            },
        }
    }
    item = thing("Application", ENGINE, f"gitopsdepl-{uid}", f"a-{uid}")
    item["metadata"]["labels"] = LABELS | {"databaseID": resource_id(uid)}
    status = {
        "sync": {"status": "Synced", "revision": "abc", "comparedTo": {"source": source, "destination": destination}},
        "health": {"status": "Healthy"},
        "operationState": {"phase": "Succeeded", "startedAt": BEGUN, "finishedAt": ENDED},
    }
    spec = {"project": PROJECT, "source": source, "destination": destination} | (policy if automated else {})
    return item | {"spec": spec, "status": status}


def project() -> Manifest:
    """What its tenant may do."""
    item = thing("AppProject", ENGINE, PROJECT, "p")
    item["metadata"] |= {"labels": LABELS, "annotations": {"username": TENANT}}
    account = {"server": "https://kubernetes.default.svc", "namespace": HOME}
    return item | {
        "spec": {
            "sourceRepos": ["https://127.0.0.1:9/private", "https://git.example.com/chaos-000/config"],
            "destinations": [{"name": "in-cluster", "namespace": HOME}, {"name": CLUSTER, "namespace": "web"}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "LimitRange"}, {"group": "", "kind": "ResourceQuota"}],
            "destinationServiceAccounts": [account | {"defaultServiceAccount": "gitops-service-sync"}],
        }
    }


def environment() -> Manifest:
    """One that works."""
    spec = {"apiURL": API, "credentialsSecret": "kubeconfig", "clusterResources": False, "namespaces": ["web"]}
    item = thing("GitOpsDeploymentManagedEnvironment", HOME, "prod", "u-env")
    return item | {"spec": spec, "status": {"conditions": [connection("Succeeded")]}}


def connection(reason: str) -> Manifest:
    """What an environment shows."""
    return {"type": "ConnectionInitializationSucceeded", "status": "True", "reason": reason}


def login(password: str, username: str = USERNAME) -> Manifest:
    """The Secret of credentials."""
    data = {"username": username, "password": password}
    return thing("Secret", HOME, "login", "u-login-secret") | {"data": encoded(data)}


def repository_secret(suffix: str = "", password: str = LOGIN[1]) -> Manifest:
    """By which Argo CD opens the credential's repository, for one of the projects."""
    made_for = REPOSITORY_SECRET.removeprefix("repo-cred-")
    labels = LABELS | {"databaseID": made_for, "argocd.argoproj.io/secret-type": "repository"}
    item = thing("Secret", ENGINE, f"{REPOSITORY_SECRET}{suffix}", f"u-repository{suffix}")
    item["metadata"]["labels"] = labels
    content = {"name": "login", "url": PRIVATE, "project": f"{PROJECT}{suffix}"}
    return item | {"data": encoded(content | {"username": USERNAME, "password": password})}


def credential() -> Manifest:
    """One without a Secret."""
    item = thing("GitOpsDeploymentRepositoryCredential", HOME, "login", "u-login")
    condition = {"type": "ErrorOccurred", "status": "True", "reason": "SecretNotFound"}
    return item | {"spec": {"repository": PRIVATE, "secret": "login"}, "status": {"conditions": [condition]}}


def add_neighbour(scene: Scene) -> None:
    """Another tenant on the same engine, whose login opens the same repository."""
    namespace, project_name = "chaos-001", f"app-project-{tenant_id('chaos-001', 'n2')}"
    scene.objects["neighbour"] = thing("Namespace", "", namespace, "n2")
    for name, item in {"login": login(LOGIN[1], f"git-{namespace}"), "credential": credential()}.items():
        item["metadata"] |= {"namespace": namespace, "uid": f"{item['metadata']['uid']}-2"}
        scene.put(f"neighbour's {name}", item)
    item["status"]["conditions"] = [
        {"type": "ErrorOccurred", "status": "False", "reason": "RepositoryCredentialUpToDate"}
    ]
    made_for = resource_id(item["metadata"]["uid"])
    secret = repository_secret()
    secret["metadata"]["name"] = f"repo-cred-{made_for}"
    secret["metadata"]["labels"] |= {"databaseID": made_for}
    secret["data"] |= encoded({"project": project_name, "username": f"git-{namespace}"})
    confined = project()
    confined["metadata"] |= {"name": project_name, "annotations": {"username": tenant_id(namespace, "n2")}}
    confined["spec"] |= {
        "sourceRepos": ["https://127.0.0.1:9/private"],
        "destinations": [{"name": "in-cluster", "namespace": namespace}],
    }
    confined["spec"]["destinationServiceAccounts"][0]["namespace"] = namespace
    scene.objects |= {"neighbour's secret": secret, "neighbour's project": confined}


def commit_of(snapshot: str, environment: str = "dev", branch: str = "main") -> Commit:
    """What the build service names of the component "api" for a snapshot."""
    return Commit(REPOSITORY, branch, f"components/api/overlays/{environment}", f"{snapshot}-in-{environment}")


def build(scene: Scene, snapshot: str, environment: str = "dev", branch: str = "main") -> Commit:
    """The build service has pushed that."""
    commit = commit_of(snapshot, environment, branch)
    scene.record.note_build(Build(HOME, environment, snapshot, (commit,)))
    return commit


def show_synced(scene: Scene, commit: Commit, version: int, status: str = "Synced") -> None:
    """Somebody saw the component's Application there."""
    seen = application(f"u-{commit.path}", automated=True)
    seen["metadata"]["resourceVersion"] = str(version)
    compared = {"source": {"repoURL": commit.url, "path": commit.path}}
    seen["status"]["sync"] = {"status": status, "revision": commit.id, "comparedTo": compared}
    scene.record.history.note(seen)


def run() -> Manifest:
    """One that took place."""
    status = {
        "conditions": [{"type": "ErrorOccurred", "status": "False"}],
        "operation": {"phase": "Succeeded", "startedAt": BEGUN, "finishedAt": ENDED},
    }
    item = thing("GitOpsDeploymentSyncRun", HOME, "run", "u-run")
    item["metadata"]["resourceVersion"] = str(OVER_AT)
    return item | {"spec": {"gitopsDeploymentName": "manual"}, "status": status}


def syncing(run_uid: str, started: str = "", *, version: int, requested: bool = True) -> Manifest:
    """A version of an Application whose operation is one of a run; ``started``: when its state says that it has."""
    operation = {"info": [{"name": "gitops-sync-run", "value": run_uid}], "sync": {}}
    state = {"operation": operation, "phase": "Running", "startedAt": started}
    item = thing("Application", ENGINE, "gitopsdepl-u-manual", "a-u-manual")
    item["metadata"]["resourceVersion"] = str(version)
    return (
        item
        | {"status": {"operationState": state if started else None}}
        | ({"operation": operation} if requested else {})
    )


def cluster_secret(token: str, cluster: str = CLUSTER, namespace: str = "web") -> Manifest:
    """What an environment becomes."""
    item = thing("Secret", ENGINE, cluster, f"s-{cluster}")
    made_for = cluster.removeprefix("managed-env-")
    item["metadata"]["labels"] = LABELS | {"databaseID": made_for, "argocd.argoproj.io/secret-type": "cluster"}
    config = {"bearerToken": token, "tlsClientConfig": {"insecure": False, "caData": AUTHORITY}}
    content = {
        "name": cluster,
        "server": f"{API}?managedEnvironment={made_for}",
        "config": json.dumps(config),
        "project": PROJECT,
        "namespaces": namespace,
    }
    return item | {"data": encoded(content)}


def kubeconfig(token: str) -> Manifest:
    """Data of a Secret."""
    content = {
        "clusters": [{"name": "c", "cluster": {"server": API, "certificate-authority-data": AUTHORITY}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    return encoded({"kubeconfig": yaml.safe_dump(content)})


def encoded(content: dict[str, str]) -> Manifest:
    """As a Secret has it."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in content.items()}
