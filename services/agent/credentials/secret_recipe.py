"""Parses the recipe in a row's manifest, opens the sealed Secret in it, and gives the composed Secret its form.

The planner wrote the recipe; it is validated because it crossed a wire.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from services.agent.objects.desired_objects import manifest_of, mapping
from services.common.argocd_names import CLUSTER_SUFFIX, SECRET_TYPE_LABEL
from services.common.errors import Permanent
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource, RowKind
from services.common.ownership import OURS
from services.common.sealing import OpeningKeys, SecretContext, Unbound, Unopenable, UseRefused
from services.common.secret_use import SecretUse
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET
from services.kinds.managed_environment.validation import cluster_use
from services.kinds.repository_credential.model import CREDENTIAL_SECRET
from services.kinds.repository_credential.validation import repository_use

SecretType = Literal["cluster", "repository"]

_TYPE_OF: Mapping[RowKind, SecretType] = {
    RowKind.CLUSTER_SECRET: "cluster",
    RowKind.REPOSITORY_SECRET: "repository",
}
_SCOPE = frozenset({"project", "namespaces", "clusterResources"})
_USER_SECRET_TYPES = {"cluster": ENVIRONMENT_SECRET, "repository": CREDENTIAL_SECRET}
_UID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAMESPACE = _UID


@dataclass(frozen=True, slots=True)
class Sealed:
    """A tenant's sealed Secret, and what it must be sealed for."""

    text: str = field(repr=False)
    context: SecretContext
    use: SecretUse
    """The use that the recipe requests."""
    binding: str = field(default="", repr=False)
    """The permitted use, sealed; empty if no watcher has sent one."""


@dataclass(frozen=True, slots=True)
class ClusterRecipe:
    """How to compose a cluster Secret."""

    uid: str
    api_url: str
    server: str
    insecure: bool
    creates_account: bool
    namespaces: tuple[str, ...]
    cluster_resources: bool
    project: str
    secret: Sealed

    @property
    def is_confined(self) -> bool:
        """Whether the recipe requests nothing outside its namespaces."""
        return bool(self.namespaces) and not self.cluster_resources


@dataclass(frozen=True, slots=True)
class RepositoryRecipe:
    """How to compose a repository Secret."""

    repository: str
    project: str
    secret: Sealed


def cluster_recipe(row: EngineResource) -> ClusterRecipe:
    """The recipe of a ClusterSecret. Raises Permanent if the row is not as the planner compiles it."""
    recipe = _recipe(row)
    namespaces = recipe.get("namespaces") or []
    uid, api_url, server = _text(recipe, "uid"), _text(recipe, "apiURL"), _text(recipe, "server")
    if not _UID.fullmatch(uid):
        raise _unlike(row, "uid")
    if not isinstance(namespaces, list) or not all(isinstance(n, str) and _NAMESPACE.fullmatch(n) for n in namespaces):
        raise _unlike(row, "namespaces")
    if not server.startswith(f"{api_url}?managedEnvironment="):
        raise _unlike(row, "server")  # without the query it would be another tenant's entry, or everybody's
    insecure, creates_account = _flag(recipe, "insecure"), _flag(recipe, "createServiceAccount")
    cluster_resources = _flag(recipe, "clusterResources")
    use = cluster_use(
        api_url,
        namespaces,
        skips_tls_verification=insecure,
        creates_account=creates_account,
        cluster_resources=cluster_resources,
    )
    return ClusterRecipe(
        uid=uid,
        api_url=api_url,
        server=server,
        insecure=insecure,
        creates_account=creates_account,
        namespaces=tuple(sorted(namespaces)),
        cluster_resources=cluster_resources,
        project=_text(recipe, "project"),
        secret=_sealed(row, recipe, "cluster", use),
    )


def repository_recipe(row: EngineResource) -> RepositoryRecipe:
    """The recipe of a RepositorySecret. Raises Permanent if the row is not as the planner compiles it."""
    recipe = _recipe(row)
    repository = _text(recipe, "repository")
    return RepositoryRecipe(
        repository=repository,
        project=_text(recipe, "project"),
        secret=_sealed(row, recipe, "repository", repository_use(repository)),
    )


def secret_metadata(row: EngineResource, type_: SecretType) -> Manifest:
    """Metadata of the Secret to compose: identity, labels and annotations of the row, overridden by ours."""
    meta = mapping(manifest_of(row), "metadata")
    labels = mapping(meta, "labels") | {SECRET_TYPE_LABEL: type_} | OURS
    return {
        "name": row.name,
        "namespace": row.namespace,
        "labels": labels,
        "annotations": dict(mapping(meta, "annotations")),
    }


def cluster_scope(recipe: ClusterRecipe) -> dict[str, str]:
    """Who may use a cluster Secret, and for what: ``project`` restricts the cluster to that project."""
    scope = {"project": recipe.project}
    if recipe.namespaces:
        scope["namespaces"] = ",".join(recipe.namespaces)
    if recipe.cluster_resources:
        scope["clusterResources"] = "true"
    return scope


def retained_secret(row: EngineResource, live: Manifest) -> Manifest:
    """``live`` as it should stay while the row's credentials fail: only what identifies its owner is restored.

    The rest once worked, or cannot be distinguished from what did. Raises Permanent if the row is not as the planner
    compiles it.
    """
    data, type_ = mapping(live, "data"), _TYPE_OF[RowKind(row.kind)]
    if data.get("project") not in {_encoded(row.lane), _encoded(f"{row.lane}{CLUSTER_SUFFIX}")}:
        is_cluster = type_ == "cluster"
        scope = cluster_scope(cluster_recipe(row)) if is_cluster else {"project": repository_recipe(row).project}
        kept = {name: value for name, value in data.items() if name not in _SCOPE}
        data = kept | {name: _encoded(value) for name, value in scope.items()}
    return {"type": "Opaque", "metadata": secret_metadata(row, type_), "data": data}


def _recipe(row: EngineResource) -> Manifest:
    return mapping(manifest_of(row), "recipe")


def _sealed(row: EngineResource, recipe: Manifest, type_: SecretType, use: SecretUse) -> Sealed:
    """The sealed Secret. Context and use come from the row: a text sealed for another tenant or URL does not open.

    Empty if the row has none: then nothing was created with it that would have to be removed.
    """
    secret = mapping(recipe, "secret")
    is_left_out = not secret and row.desired == "absent" and not _flag(recipe, "createServiceAccount")
    name, text = ("", "") if is_left_out else (_text(secret, "name"), _text(secret, "sealed"))
    namespace_uid = _text(secret, "namespaceUID") if "namespaceUID" in secret else ""
    binding = _text(secret, "binding") if "binding" in secret else ""
    context = SecretContext(row.workspace, row.tenant_namespace, name, _USER_SECRET_TYPES[type_], namespace_uid)
    return Sealed(text, context, use, binding)


def _text(content: Manifest, name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str) or not value:
        raise Permanent(f"the manifest's recipe has no {name}")
    return value


def _flag(content: Manifest, name: str) -> bool:
    value = content.get(name, False)
    if not isinstance(value, bool):
        raise Permanent(f"the manifest's {name} is neither true nor false")
    return value


def _unlike(row: EngineResource, what: str) -> Permanent:
    return Permanent(f"the manifest of {row.kind} {row.name} is not one that the planner compiles: {what}")


class SealedSecretUnreadable(Exception):
    """A sealed Secret does not open."""


class SecretUseRefused(Exception):
    """A sealed Secret opens, but not for what the recipe asks to use it for."""

    def __init__(self, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        """True if no watcher has sent the permitted use yet."""


def open_sealed_secret(keys: OpeningKeys, sealed: Sealed) -> dict[str, bytes]:
    """The Secret's values. Raises SealedSecretUnreadable, SecretUseRefused with the reason in words for its owner."""
    refused = None
    try:
        return keys.open_secret_for(sealed.use, sealed.text, sealed.binding, sealed.context)
    except UseRefused as error:
        refused = SecretUseRefused(f"the Secret may not be used for this: {error}", may_pass=isinstance(error, Unbound))
    except Unopenable as error:
        why = str(error)
    if refused is not None:
        raise refused
    raise SealedSecretUnreadable(f"the Secret could not be opened; {why}; your operators have to mend that")


def composed_secret(metadata: Manifest, data: Mapping[str, str]) -> Manifest:
    """A v1 Secret with ``data`` in clear."""
    if not metadata.get("annotations"):
        metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    encoded = {name: _encoded(value) for name, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}


def _encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
