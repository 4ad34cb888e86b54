"""Which of our fields a cluster's CRDs know. The API server drops all others silently. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from services.common.argocd_names import APP_PROJECT, APPLICATION
from services.common.json_values import dict_of, dicts_of
from services.common.kubernetes import Manifest

Path = tuple[str, ...]

RETRY_REFRESH: Path = ("spec", "syncPolicy", "retry", "refresh")
"""Since Argo CD 3.2. Earlier versions retry a sync at the commit that failed."""

OPTIONAL: Mapping[str, tuple[Path, ...]] = {APPLICATION: (RETRY_REFRESH,)}
"""By kind, fields that are left out where the CRD does not know them."""

_SPEC = {
    APPLICATION: (
        *("project", "source.repoURL", "source.path", "source.targetRevision"),
        *("destination.name", "destination.namespace", "syncPolicy.syncOptions", "syncPolicy.retry.limit"),
        *("syncPolicy.automated.prune", "syncPolicy.automated.selfHeal", "syncPolicy.automated.allowEmpty"),
    ),
    APP_PROJECT: (
        *("sourceRepos", "destinations", "destinationServiceAccounts"),
        *("namespaceResourceBlacklist", "clusterResourceWhitelist"),
    ),
}
REQUIRED: Mapping[str, tuple[Path, ...]] = {
    kind: tuple(("spec", *field.split(".")) for field in fields) for kind, fields in _SPEC.items()
}
"""By kind, fields without which the object would differ from what was decided."""


def dropped(document: Manifest, fields: Mapping[str, tuple[Path, ...]]) -> Iterator[tuple[str, Path]]:
    """Kinds and fields missing in ``document``, the OpenAPI description of Argo CD's API group."""
    schemas = {kind: schema for schema in _schemas(document) for kind in _kinds(schema)}
    for kind, paths in fields.items():
        yield from ((kind, path) for path in paths if not _has(schemas.get(kind, {}), path))


def _schemas(document: Manifest) -> list[Manifest]:
    return dicts_of([*dict_of(dict_of(document.get("components")).get("schemas")).values()])


def _kinds(schema: Manifest) -> list[str]:
    return [str(each.get("kind")) for each in dicts_of(schema.get("x-kubernetes-group-version-kind"))]


def _has(schema: Manifest, path: Path) -> bool:
    """Whether the API server stores the field. Below a field that accepts any content everything is stored."""
    if not path or schema.get("x-kubernetes-preserve-unknown-fields") is True:
        return True
    properties = dict_of(schema.get("properties"))
    return path[0] in properties and _has(dict_of(properties[path[0]]), path[1:])
