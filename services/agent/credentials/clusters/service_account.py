"""Installs the service account that Argo CD uses on a tenant's cluster, with rights and tokens, and removes it.

Called with the identity of the tenant's kubeconfig. In kube-system that identity needs: get, create, patch, delete
serviceaccounts, and create serviceaccounts/token. In each namespace (or cluster-wide) it needs: get, create, patch,
delete of (cluster)roles and (cluster)rolebindings, and every right that is granted with them. To run it twice changes
nothing.

The account carries a list of the scopes where rights were granted. The list is written before rights are granted and
shortened after they are removed, so no crash leaves a scope unlisted. Bindings are also found by their label where that
may be listed, in case somebody deleted the account.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from urllib.parse import quote

from services.agent.credentials.clusters import rights
from services.agent.credentials.clusters.cluster_client import AccessRequest, ClusterClient, ClusterRefused
from services.agent.credentials.clusters.tokens import Token, issued_token
from services.agent.credentials.secret_recipe import ClusterRecipe
from services.common.json_values import dict_of
from services.common.kubernetes import ApiResource, Manifest
from services.common.ownership import OURS

ACCOUNT_NAMESPACE = "kube-system"
LABEL = "managed-gitops.redhat.com/managed-environment"
GRANTED = "managed-gitops.redhat.com/granted-in"
"""Annotation of the account: namespaces in which it has rights; ``*`` for all of them."""
EVERYWHERE = "*"

_RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")
ROLE = ApiResource(_RBAC, "v1", "Role", "roles")
ROLE_BINDING = ApiResource(_RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = ApiResource(_RBAC, "v1", "ClusterRole", "clusterroles")
CLUSTER_ROLE_BINDING = ApiResource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings")
DISCOVERY = ApiResource("", "v1", "APIGroupDiscoveryList", "discovery")

MAX_DISCOVERY_BYTES = 512 * 1024
"""Ten times what a plain cluster answers. It bounds the work that an answer causes."""
ACCEPT_DISCOVERY = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)


class TooOld(Exception):
    """The cluster cannot list its resources in one answer (Kubernetes before 1.26)."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one environment."""

    target: ClusterClient
    uid: str

    @property
    def name(self) -> str:
        """Name of the service account."""
        return f"argocd-manager-{self.uid}"

    async def install_account(self, recipe: ClusterRecipe) -> bool:
        """Create the account and its rights for ``recipe``. Raises ClusterRefused, Unreachable, TooOld.

        Returns whether the account existed before: tokens of a deleted account may seem to work for seconds.
        """
        wanted = scopes_of(recipe.namespaces, cluster_resources=recipe.cluster_resources)
        account = await self._find()
        granted = _granted(account)
        # 1. Note where rights will be. 2. Give them. 3. Take away the others. 4. Shorten the note.
        # A crash leaves a note that names at least every scope where there are rights.
        await self._note(granted | wanted)
        for scope in sorted(wanted):
            await self._grant(scope, recipe)
        stale = (granted | await self._labelled()) - wanted
        for scope in sorted(stale):
            await self._revoke(scope)
        if stale:
            await self._note(wanted)
        return account is not None

    async def request_token(self, lifetime: timedelta, now: datetime) -> Token:
        """A new token. Earlier tokens stay valid until they expire or the account is deleted."""
        asked = AccessRequest("create", SERVICE_ACCOUNT, ACCOUNT_NAMESPACE, self.name, "token")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(lifetime.total_seconds())},
        }
        status = (await self.target.create_object(asked, body)).get("status")
        return issued_token(dict_of(status), lifetime, now)

    async def remove_account(self, scopes: frozenset[str]) -> None:
        """Remove the rights in ``scopes`` and everywhere else, then the account, which lists its scopes."""
        scopes |= _granted(await self._find()) | await self._labelled()
        for scope in sorted(scopes):
            await self._revoke(scope)
        await self.target.remove_object(SERVICE_ACCOUNT, ACCOUNT_NAMESPACE, self.name)

    async def withdraw_account(self, scopes: frozenset[str]) -> list[ClusterRefused]:
        """Remove whatever the target's token may remove, and return what was refused. Raises Unreachable.

        The token may be the account's own, which loses rights with each removal. So the account is deleted first if
        possible: that ends all its tokens. Then only rights of nobody are left; otherwise an account without rights.
        """
        with contextlib.suppress(ClusterRefused):
            scopes |= _granted(await self._find()) | await self._labelled()
        account = (SERVICE_ACCOUNT, ACCOUNT_NAMESPACE, self.name)
        refused = []
        for each in (account, *(grant for scope in sorted(scopes) for grant in self._grants(scope))):
            try:
                await self.target.remove_object(*each)
            except ClusterRefused as error:
                refused.append(error)
        return refused

    async def _find(self) -> Manifest | None:
        return await self.target.find_object(SERVICE_ACCOUNT, ACCOUNT_NAMESPACE, self.name)

    async def _labelled(self) -> frozenset[str]:
        """Namespaces of our role bindings; empty if we may not list them everywhere."""
        try:
            found = await self.target.list_objects(
                ROLE_BINDING, f"labelSelector={quote(f'{LABEL}={self.uid}', safe='')}"
            )
        except ClusterRefused as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return frozenset()
            raise
        metas = (item.get("metadata") for item in found)
        return frozenset(str(meta.get("namespace")) for meta in metas if isinstance(meta, dict))

    async def _note(self, scopes: frozenset[str]) -> None:
        metadata = self._metadata(self.name, ACCOUNT_NAMESPACE)
        metadata["annotations"] = {GRANTED: ",".join(sorted(scopes))}
        await self.target.apply_object(SERVICE_ACCOUNT, self._object(SERVICE_ACCOUNT, metadata))

    async def _grant(self, scope: str, recipe: ClusterRecipe) -> None:
        role, binding, namespace = self._kinds_in(scope)
        rules = [rights.EVERYTHING] if recipe.is_confined or recipe.cluster_resources else await self._whole_cluster()
        role_manifest = self._object(role, self._metadata(self._role_name(scope), namespace)) | {"rules": rules}
        await self.target.apply_object(role, role_manifest)
        bound = {
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": ACCOUNT_NAMESPACE}],
            "roleRef": {"apiGroup": _RBAC, "kind": role.kind, "name": self._role_name(scope)},
        }
        metadata = self._metadata(self._binding_name(scope), namespace)
        await self.target.apply_object(binding, self._object(binding, metadata) | bound)

    async def _revoke(self, scope: str) -> None:
        for grant in self._grants(scope):
            await self.target.remove_object(*grant)

    async def _whole_cluster(self) -> list[Manifest]:
        groups: list[tuple[str, list[str]]] = []
        for path in ("/api", "/apis"):
            found = await self.target.read_path(
                path, AccessRequest("get", DISCOVERY), ACCEPT_DISCOVERY, MAX_DISCOVERY_BYTES
            )
            if found.get("kind") != DISCOVERY.kind:
                raise TooOld
            groups += await asyncio.to_thread(rights.namespaced_resources, found)
        return rights.whole_cluster(groups)

    def _grants(self, scope: str) -> tuple[tuple[ApiResource, str, str], tuple[ApiResource, str, str]]:
        """Binding and role in ``scope``, in the order of their removal."""
        role, binding, namespace = self._kinds_in(scope)
        return (binding, namespace, self._binding_name(scope)), (role, namespace, self._role_name(scope))

    def _kinds_in(self, scope: str) -> tuple[ApiResource, ApiResource, str]:
        if scope == EVERYWHERE:
            return CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ""
        return ROLE, ROLE_BINDING, scope

    def _role_name(self, scope: str) -> str:
        return f"argocd-manager-{'cluster-' if scope == EVERYWHERE else ''}role-{self.uid}"

    def _binding_name(self, scope: str) -> str:
        return f"argocd-manager-{'cluster-' if scope == EVERYWHERE else ''}role-binding-{self.uid}"

    def _metadata(self, name: str, namespace: str) -> Manifest:
        labels = {LABEL: self.uid} | OURS
        return {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})

    def _object(self, resource: ApiResource, metadata: Manifest) -> Manifest:
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def scopes_of(namespaces: Iterable[str], *, cluster_resources: bool) -> frozenset[str]:
    """The scopes in which an environment's account has rights."""
    confined = frozenset() if cluster_resources else frozenset(namespaces)
    return confined or frozenset({EVERYWHERE})


def _granted(account: Manifest | None) -> frozenset[str]:
    meta = (account or {}).get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    noted = notes.get(GRANTED, "") if isinstance(notes, dict) else ""
    return frozenset(scope for scope in str(noted).split(",") if scope)
