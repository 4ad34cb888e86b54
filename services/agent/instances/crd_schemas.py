"""Which fields of ours the CRDs of a cluster know: the API server drops all others without a word. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from services.common.argocd_names import APP_PROJECT, APPLICATION
from services.common.json_values import dict_of, dicts_of
from services.common.kubernetes import Manifest

Path = tuple[str, ...]

RETRY_REFRESH: Path = ("spec", "syncPolicy", "retry", "refresh")
"""Since Argo CD 3.2: before, a sync is tried again at the commit that failed."""

OPTIONAL: Mapping[str, tuple[Path, ...]] = {APPLICATION: (RETRY_REFRESH,)}
"""By kind: left out where they are not known."""

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
"""By kind: without them it would not be what was decided."""


def dropped(document: Manifest, fields: Mapping[str, tuple[Path, ...]]) -> Iterator[tuple[str, Path]]:
    """Kinds and fields that are not in ``document``, the OpenAPI description of Argo CD's API group."""
    schemas = {kind: schema for schema in _schemas(document) for kind in _kinds(schema)}
    for kind, paths in fields.items():
        yield from ((kind, path) for path in paths if not _has(schemas.get(kind, {}), path))


def _schemas(document: Manifest) -> list[Manifest]:
    return dicts_of([*dict_of(dict_of(document.get("components")).get("schemas")).values()])


def _kinds(schema: Manifest) -> list[str]:
    return [str(each.get("kind")) for each in dicts_of(schema.get("x-kubernetes-group-version-kind"))]


def _has(schema: Manifest, path: Path) -> bool:
    """Whether a field is kept; what is below one that keeps everything is."""
    if not path or schema.get("x-kubernetes-preserve-unknown-fields") is True:
        return True
    properties = dict_of(schema.get("properties"))
    return path[0] in properties and _has(dict_of(properties[path[0]]), path[1:])
