"""Tenants' users: their operations, as calls to the API server."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from chaos.api import (
    APP_ENVIRONMENT,
    BINDING,
    CLAIM,
    CREDENTIAL,
    DEPLOYMENT,
    ENVIRONMENT,
    FINALIZER,
    KUBECONFIG_TYPE,
    LOGIN_TYPE,
    PROMOTION_RUN,
    SNAPSHOT,
    SPACE_REQUEST,
    SYNC_RUN,
    TARGET,
)
from chaos.execution.api_calls import ApiCalls
from chaos.execution.application_users import Act, ApplicationUsers
from chaos.execution.surroundings import KUBECONFIG, Surroundings
from chaos.execution.writes import Writes, resource_of
from chaos.plan.operations import (
    AskForSync,
    CustomKind,
    PutCredential,
    PutDeployment,
    PutEnvironment,
    PutKubeconfig,
    PutLogin,
    PutRefused,
    RemakeNamespace,
    Remove,
    UserOperation,
)
from chaos.plan.random_operations import WEB
from chaos.record import Asked, Record, version_of
from services.common.errors import Permanent
from services.common.kubernetes import NAMESPACE, SECRET, Manifest, Rejected

LOGIN, KEY = "login", "key"
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
    "claim": CLAIM,
    "target": TARGET,
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


class Users:
    """All tenants."""

    def __init__(self, calls: ApiCalls, surroundings: Surroundings, record: Record) -> None:
        self._calls, self._around, self._record = calls, surroundings, record
        self._writes = Writes(calls, record)
        self._applications = ApplicationUsers(calls, surroundings, record)

    async def carry_out(self, operation: UserOperation) -> None:
        """Return once it was acknowledged. Raises Unavailable."""
        acts: Mapping[type[UserOperation], Act] = {
            PutDeployment: self._put_deployment,
            PutEnvironment: self._put_environment,
            PutCredential: self._put_credential,
            PutRefused: self._put_refused,
            PutKubeconfig: self._put_kubeconfig,
            PutLogin: self._put_login,
            AskForSync: self._ask_for_sync,
            Remove: self._remove,
            RemakeNamespace: self._remake_namespace,
            **self._applications.acts,
        }
        await acts[type(operation)](operation)

    async def make_classes(self) -> None:
        """As operators do for all tenants."""
        await self._applications.make_classes()

    async def make_namespace(self, tenant: int) -> None:
        """As somebody does who gives them out, with an application."""
        name = self._around.namespace(tenant)
        await self._calls.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await self._applications.make_application(name)

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
        manifest = resource_of(DEPLOYMENT, namespace, wanted.name, spec, finalizers)
        await self._writes.put(DEPLOYMENT, manifest, "spec", afresh=wanted.afresh)

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
        manifest = resource_of(ENVIRONMENT, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._writes.put(ENVIRONMENT, manifest, "spec", afresh=wanted.afresh)

    async def _put_credential(self, wanted: PutCredential) -> None:
        """Make or change a GitOpsDeploymentRepositoryCredential."""
        username, _ = self._around.login_of(wanted.tenant)
        url = self._around.private[wanted.repository].format(username=username)
        spec = {"repository": url, "secret": KEY if url.startswith("ssh:") else LOGIN}
        manifest = resource_of(CREDENTIAL, self._around.namespace(wanted.tenant), wanted.name, spec)
        await self._writes.put(CREDENTIAL, manifest, "spec", afresh=wanted.afresh)

    async def _put_refused(self, refused: PutRefused) -> None:
        """Try to make or change a resource. Raises Permanent if its CRD does not refuse that."""
        resource, namespace = RESOURCES[refused.kind], self._around.namespace(refused.tenant)
        manifest = resource_of(resource, namespace, refused.name, REFUSED_SPECS[refused.kind])
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
        content = {"kubeconfig": self._around.kubeconfig(token)}
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
        manifest = resource_of(SYNC_RUN, namespace, wanted.name, {"gitopsDeploymentName": wanted.deployment})
        stored = await self._calls.create(SYNC_RUN, manifest)
        self._record.acknowledge(stored)
        deployment = found["metadata"]["uid"] if found is not None else ""
        uid = stored["metadata"]["uid"]
        self._record.runs[uid] = Asked(uid, deployment, version_of(stored))

    async def _remove(self, unwanted: Remove) -> None:
        """Delete a resource or Secret."""
        resource, namespace = RESOURCES[unwanted.kind], self._around.namespace(unwanted.tenant)
        await self._writes.remove(resource, namespace, unwanted.name or unwanted.kind)

    async def _remake_namespace(self, wanted: RemakeNamespace) -> None:
        """Delete a namespace, wait until it is gone with all that was in it, and make it again."""
        name = self._around.namespace(wanted.tenant)
        await self._calls.delete(NAMESPACE, None, name)
        self._record.forget_namespace(name)
        await self._calls.until_gone(NAMESPACE, None, name)
        await self.make_namespace(wanted.tenant)
        # A controller of namespaces that reaches an API server before it knows custom resources passes them over:
        # they outlive their namespace, cannot be deleted without it, and are in the new one.
        for resource in (*dict.fromkeys(RESOURCES.values()), SPACE_REQUEST):
            await self._calls.clear(resource, name)

    async def _put_secret(self, tenant: int, name: str, type_: str, content: dict[str, str]) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
        meta = {"name": name, "namespace": self._around.namespace(tenant)}
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": type_, "data": data}
        await self._writes.put(SECRET, manifest, "data")
