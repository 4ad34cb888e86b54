"""Tenants' users: their operations, as calls to the API server."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import yaml

from chaos.api import (
    APP,
    APP_ENVIRONMENT,
    BINDING,
    COMPONENT,
    CREDENTIAL,
    DEPLOYMENT,
    ENVIRONMENT,
    FINALIZER,
    KUBECONFIG_TYPE,
    LOGIN_TYPE,
    PROMOTION_RUN,
    SNAPSHOT,
    SYNC_RUN,
)
from chaos.execution.api_calls import ApiCalls
from chaos.plan.operations import (
    AskForSync,
    CustomKind,
    Promote,
    PutAppEnvironment,
    PutBinding,
    PutCredential,
    PutDeployment,
    PutEnvironment,
    PutKubeconfig,
    PutLogin,
    PutRefused,
    PutSnapshot,
    RemakeNamespace,
    Remove,
    UserOperation,
)
from chaos.plan.random_operations import COMPONENTS, WEB
from chaos.record import Asked, Record, key_of, version_of
from services.common.errors import Permanent
from services.common.kubernetes import NAMESPACE, SECRET, ApiResource, Manifest, Rejected

KUBECONFIG, LOGIN, KEY = "kubeconfig", "login", "key"
SHOP = "shop"
"""The application of each tenant."""
RESOURCES = {
    "deployment": DEPLOYMENT,
    "environment": ENVIRONMENT,
    "credential": CREDENTIAL,
    "run": SYNC_RUN,
    KUBECONFIG: SECRET,
    LOGIN: SECRET,
    KEY: SECRET,
    "app environment": APP_ENVIRONMENT,
    "snapshot": SNAPSHOT,
    "binding": BINDING,
    "promotion": PROMOTION_RUN,
}
UNPROCESSABLE = 422
REFUSED_SPECS: dict[CustomKind, Manifest] = {
    "deployment": {"type": "neither", "source": {"repoURL": "https://git.example.com/config.git", "path": "."}},
    "environment": {
        "apiURL": "http://127.0.0.1:6443",
        "credentialsSecret": KUBECONFIG,
        "allowInsecureSkipTLSVerify": False,
    },
    "credential": {"repository": "ftp://git.example.com/config.git", "secret": LOGIN},
}
"""Each with one value that its CRD does not take."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What users' resources point to."""

    prefix: str
    """Of tenants' namespaces."""
    cluster: str
    """URL of the API server that environments are of."""
    authority: str
    """Its certificate, base64 of PEM."""
    tokens: tuple[str, ...]
    """That it knows."""
    repositories: tuple[str, ...]
    """URLs, with ``{namespace}`` for the tenant's."""
    private: tuple[str, ...]
    """URLs of repositories that credentials are for, with ``{username}`` for the tenant's where they are of ssh."""
    login: tuple[str, str]
    """That they accept: how the user names of tenants begin, and their password."""
    key_of: Callable[[str], str]
    """The private key that they accept over ssh, by user name."""

    def namespace(self, tenant: int) -> str:
        """Of a tenant."""
        return f"{self.prefix}-{tenant:03d}"

    def login_of(self, tenant: int) -> tuple[str, str]:
        """User name and password: each tenant has a name of its own, so whose login is where can be told."""
        username, password = self.login
        return f"{username}-{self.namespace(tenant)}", password


class Users:
    """All tenants."""

    def __init__(self, calls: ApiCalls, surroundings: Surroundings, record: Record) -> None:
        self._calls, self._around, self._record = calls, surroundings, record

    async def carry_out(self, operation: UserOperation) -> None:
        """Return once it was acknowledged. Raises Unavailable."""
        acts: dict[type[UserOperation], Callable[[Any], Awaitable[None]]] = {
            PutDeployment: self._put_deployment,
            PutEnvironment: self._put_environment,
            PutCredential: self._put_credential,
            PutRefused: self._put_refused,
            PutKubeconfig: self._put_kubeconfig,
            PutLogin: self._put_login,
            AskForSync: self._ask_for_sync,
            PutAppEnvironment: self._put_app_environment,
            PutSnapshot: self._put_snapshot,
            PutBinding: self._put_binding,
            Promote: self._promote,
            Remove: self._remove,
            RemakeNamespace: self._remake_namespace,
        }
        await acts[type(operation)](operation)

    async def make_namespace(self, tenant: int) -> None:
        """As somebody does who gives them out, with an application."""
        name = self._around.namespace(tenant)
        await self._calls.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await self._calls.create(APP, _resource(APP, name, SHOP, {"displayName": SHOP}))
        for component in COMPONENTS:
            spec = {"application": SHOP, "componentName": component}
            await self._calls.create(COMPONENT, _resource(COMPONENT, name, component, spec))

    async def _put_deployment(self, wanted: PutDeployment) -> None:
        """Make or change a GitOpsDeployment."""
        namespace = self._around.namespace(wanted.tenant)
        revision = {"targetRevision": wanted.revision} if wanted.revision else {}
        url = self._around.repositories[wanted.repository].format(namespace=namespace)
        spec: Manifest = {
            "type": "automated" if wanted.automated else "manual",
            "source": {"repoURL": url, "path": wanted.path} | revision,
        }
        if wanted.environment:
            spec["destination"] = {"environment": wanted.environment, "namespace": WEB}
        if wanted.creates_namespace:
            spec["syncPolicy"] = {"syncOptions": ["CreateNamespace=true"]}
        finalizers = [FINALIZER] if wanted.finalizer else []
        manifest = _resource(DEPLOYMENT, namespace, wanted.name, spec, finalizers)
        await self._put(DEPLOYMENT, manifest, "spec", afresh=wanted.afresh)

    async def _put_environment(self, wanted: PutEnvironment) -> None:
        """Make or change a GitOpsDeploymentManagedEnvironment."""
        spec: Manifest = {
            "apiURL": self._around.cluster,
            "credentialsSecret": KUBECONFIG,
            "allowInsecureSkipTLSVerify": False,
            "createNewServiceAccount": wanted.creates_account,
            "clusterResources": wanted.cluster_resources,
        }
        if wanted.namespaces:
            spec["namespaces"] = list(wanted.namespaces)
        manifest = _resource(ENVIRONMENT, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._put(ENVIRONMENT, manifest, "spec", afresh=wanted.afresh)

    async def _put_credential(self, wanted: PutCredential) -> None:
        """Make or change a GitOpsDeploymentRepositoryCredential."""
        username, _ = self._around.login_of(wanted.tenant)
        url = self._around.private[wanted.repository].format(username=username)
        spec = {"repository": url, "secret": KEY if url.startswith("ssh:") else LOGIN}
        manifest = _resource(CREDENTIAL, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._put(CREDENTIAL, manifest, "spec", afresh=wanted.afresh)

    async def _put_refused(self, refused: PutRefused) -> None:
        """Try to make or change a resource. Raises Permanent if its CRD does not refuse that."""
        resource, namespace = RESOURCES[refused.kind], self._around.namespace(refused.tenant)
        manifest = _resource(resource, namespace, refused.name, REFUSED_SPECS[refused.kind])
        found = await self._calls.find(resource, namespace, refused.name)
        try:
            if found is None:
                stored: Manifest | None = await self._calls.create(resource, manifest)
            else:
                stored = await self._calls.replace(resource, found, "spec", manifest["spec"])
        except Rejected as error:
            if error.status == UNPROCESSABLE:
                return
            raise
        if stored is not None:  # or its deletion has ended meanwhile
            raise Permanent(f"{resource.kind} {namespace}/{refused.name} was stored with {manifest['spec']}")

    async def _put_kubeconfig(self, wanted: PutKubeconfig) -> None:
        """Make or change the Secret of environments."""
        tokens = self._around.tokens
        token = tokens[wanted.token] if wanted.token < len(tokens) else f"wrong-{wanted.token}"
        content = {"kubeconfig": _kubeconfig(self._around, token)}
        await self._put_secret(wanted.tenant, KUBECONFIG, KUBECONFIG_TYPE, content)

    async def _put_login(self, wanted: PutLogin) -> None:
        """Make or change the Secrets of credentials; version 0 is the right one."""
        username, password = self._around.login_of(wanted.tenant)
        content = {"username": username, "password": f"{password}{wanted.version or ''}"}
        await self._put_secret(wanted.tenant, LOGIN, LOGIN_TYPE, content)
        key = self._around.key_of(f"{username}{wanted.version or ''}")
        await self._put_secret(wanted.tenant, KEY, LOGIN_TYPE, {"sshPrivateKey": key})

    async def _ask_for_sync(self, wanted: AskForSync) -> None:
        """Make a GitOpsDeploymentSyncRun."""
        namespace = self._around.namespace(wanted.tenant)
        found = await self._calls.find(DEPLOYMENT, namespace, wanted.deployment)
        manifest = _resource(SYNC_RUN, namespace, wanted.name, {"gitopsDeploymentName": wanted.deployment})
        stored = await self._calls.create(SYNC_RUN, manifest)
        self._record.acknowledge(stored)
        deployment = found["metadata"]["uid"] if found is not None else ""
        uid = stored["metadata"]["uid"]
        self._record.runs[uid] = Asked(uid, deployment, version_of(stored))

    async def _put_app_environment(self, wanted: PutAppEnvironment) -> None:
        """Make or change an Environment of AppStudio."""
        spec = {"displayName": wanted.name, "deploymentStrategy": "Manual"}
        manifest = _resource(APP_ENVIRONMENT, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._put(APP_ENVIRONMENT, manifest, "spec", afresh=wanted.afresh)

    async def _put_snapshot(self, wanted: PutSnapshot) -> None:
        """Make a Snapshot."""
        images = [{"name": each, "containerImage": f"{each}:{wanted.name}"} for each in COMPONENTS]
        spec = {"application": SHOP, "components": images}
        manifest = _resource(SNAPSHOT, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._put(SNAPSHOT, manifest, "spec")

    async def _put_binding(self, wanted: PutBinding) -> None:
        """Make or change a SnapshotEnvironmentBinding."""
        spec = {"application": SHOP, "environment": wanted.environment, "snapshot": wanted.snapshot}
        components = [{"name": each} for each in wanted.components]
        namespace = self._around.namespace(wanted.tenant)
        manifest = _resource(BINDING, namespace, wanted.name, spec | {"components": components})
        await self._put(BINDING, manifest, "spec", afresh=wanted.afresh)

    async def _promote(self, wanted: Promote) -> None:
        """Make a PromotionRun."""
        promotion = {"manualPromotion": {"targetEnvironment": wanted.environment}}
        spec = {"application": SHOP, "snapshot": wanted.snapshot} | promotion
        manifest = _resource(PROMOTION_RUN, self._around.namespace(wanted.tenant), wanted.name, spec)
        self._record.acknowledge(await self._calls.create(PROMOTION_RUN, manifest))

    async def _remove(self, unwanted: Remove) -> None:
        """Delete a resource or Secret."""
        resource, namespace = RESOURCES[unwanted.kind], self._around.namespace(unwanted.tenant)
        name = unwanted.name or unwanted.kind
        await self._calls.delete(resource, namespace, name)
        self._record.forget((resource.kind, namespace, name))

    async def _remake_namespace(self, wanted: RemakeNamespace) -> None:
        """Delete a namespace, wait until it is gone with all that was in it, and make it again."""
        name = self._around.namespace(wanted.tenant)
        await self._calls.delete(NAMESPACE, None, name)
        self._record.forget_namespace(name)
        await self._calls.until_gone(NAMESPACE, None, name)
        await self.make_namespace(wanted.tenant)
        # A controller of namespaces that reaches an API server before it knows custom resources passes them over:
        # they outlive their namespace, cannot be deleted without it, and are in the new one.
        for resource in set(RESOURCES.values()):
            await self._calls.clear(resource, name)

    async def _put_secret(self, tenant: int, name: str, type_: str, content: dict[str, str]) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
        meta = {"name": name, "namespace": self._around.namespace(tenant)}
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": type_, "data": data}
        await self._put(SECRET, manifest, "data")

    async def _put(self, resource: ApiResource, manifest: Manifest, part: str, *, afresh: bool = False) -> None:
        kind, namespace, name = key_of(manifest)
        if afresh:
            await self._calls.delete(resource, namespace, name)
            self._record.forget((kind, namespace, name))
        while True:
            found = await self._calls.find(resource, namespace, name)
            if found is None:
                stored: Manifest | None = await self._calls.create(resource, manifest)
            elif found["metadata"].get("deletionTimestamp"):
                await self._calls.until_gone(resource, namespace, name)
                continue
            else:
                stored = await self._calls.replace(resource, found, part, manifest[part])
            if stored is not None and not stored["metadata"].get("deletionTimestamp"):
                self._record.acknowledge(stored)
                return


def _resource(
    resource: ApiResource, namespace: str, name: str, spec: Manifest, finalizers: list[str] | None = None
) -> Manifest:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace, "finalizers": finalizers or []},
        "spec": spec,
    }


def _kubeconfig(around: Surroundings, token: str) -> str:
    cluster = {"server": around.cluster, "certificate-authority-data": around.authority}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return yaml.safe_dump(content)
