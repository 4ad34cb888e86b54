"""What an Argo CD lacks of what tenancy needs of it, as its objects show it. ``k8s/argocd`` brings all of it.

Some of it keeps tenants apart, and no version does without that. The rest bounds what one tenant takes, or makes up for
what newer versions have mended.

Pure: ``engine_inspection`` reads, and reports. What concerns its Deployments is in ``workload_requirements``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import yaml

from services.agent.instances.workload_requirements import (
    Workloads,
    hazards_of_workloads,
    missing_workloads,
    unmet_of_workloads,
    unwrapped_generators,
    version_of,
)
from services.common.argocd_names import (
    APP_PROJECT,
    APPLICATION,
    CONFIG,
    CONTROLLER,
    GROUP,
    INSTALLATION_ID,
    REPO_SERVER,
)
from services.common.argocd_versions import READ, TESTED, Version, is_known, is_patched
from services.common.kubernetes import Manifest

INSTALLATION = "installationID"
DEFAULT_PROJECT = "default"
EXCLUDED = (APPLICATION, "ApplicationSet", APP_PROJECT)
VALUES = "helm.valuesFileSchemes"
KUSTOMIZE = ("kustomize.buildOptions", "kustomize.path", "kustomize.version")
"""Of these no setting may have a value; each may end with a version."""
TRACKING = ("annotation", "annotation+label")
RESPECTING = ("normal", "strict")
UNSEEN = (
    f"there is neither a Deployment {REPO_SERVER} nor a StatefulSet {CONTROLLER}, so it is not known which version of "
    "Argo CD runs, and how: give them these names, or set ACCEPT_UNSEEN_ENGINES if it is one that needs nothing"
)
UNREADABLE = (
    "the agent may not look at this Argo CD, so it is not known which version runs, and how: grant it what "
    "k8s/rbac/agent.yaml has ('gitopsctl rbac apply'), or set ACCEPT_UNSEEN_ENGINES and ACCEPT_UNISOLATED_ENGINES if "
    "it is one that needs nothing"
)


@dataclass(frozen=True, slots=True)
class Found:
    """What there is in one engine namespace; None: there is no such object."""

    config: Mapping[str, str] | None
    """Data of argocd-cm."""
    default_project: Manifest | None
    workloads: Workloads
    unserved: tuple[str, ...] = ()
    """Fields that we need and the cluster's CRDs would drop."""
    excessive_rights: tuple[str, ...] = ()
    """What its controller may write in its own cluster, and no tenant may."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What operators answer for themselves."""

    unseen: bool = False
    """An instance is used though its workloads are not found."""
    unisolated: bool = False
    """An instance is used though it does not keep tenants apart; with ``unseen``, though it may not be read at all."""
    installation_id: str = INSTALLATION_ID
    """By which the Argo CDs of the fleet know what they have deployed: one for all, so that a tenant can be moved."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of an Argo CD."""

    version: Version | None
    shortcomings: tuple[str, ...]
    """A sentence for each requirement that is not met."""
    refusal: str
    """Why nothing new is deployed by it; empty if it is."""
    is_unisolated: bool = False
    """It does not keep tenants apart, or may not be asked, and is used because operators accept that."""


def verdicts(engines: Mapping[str, Found], accepted: Acceptance) -> dict[str, Verdict]:
    """By instance."""
    return {name: _verdict(found, accepted) for name, found in engines.items()}


def verdict_on_unreadable(error: str, refusal: str, accepted: Acceptance) -> Verdict:
    """On an instance that may not be read; ``refusal`` is what was said of it before.

    Neither its version is known nor whether it keeps tenants apart: operators have to accept both.
    """
    if not (accepted.unseen and accepted.unisolated):
        refusal = UNREADABLE
    return Verdict(None, (f"the agent may not see it: {error}",), refusal, not refusal)


def _verdict(found: Found, accepted: Acceptance) -> Verdict:
    version = version_of(found.workloads)
    isolation = (
        *_of_isolation(found.config),
        *_of_default_project(found.default_project),
        *_of_rights(found.excessive_rights),
        *unwrapped_generators(found.workloads),
    )
    missing = tuple(missing_workloads(found.workloads))
    config = _of_config(found.config, accepted.installation_id)
    others = (*_of_schemas(found.unserved), *config, *unmet_of_workloads(found.workloads))
    unisolated = (*isolation, *(missing if found.workloads.any_seen else ()))
    refusal = (
        _refusal_of_version(found, version, accepted)
        or _refusal_of_isolation(version, unisolated, accepted)
        or _refusal_of_unpatched(found, version, (*unisolated, *others))
    )
    shortcomings = (*isolation, *missing, *others, *hazards_of_workloads(found.workloads))
    return Verdict(version, shortcomings, refusal, bool(unisolated) and not refusal)


def _refusal_of_version(found: Found, version: Version | None, accepted: Acceptance) -> str:
    if found.unserved:
        return next(_of_schemas(found.unserved))
    if not found.workloads.any_seen and not accepted.unseen:
        return UNSEEN
    if version is not None and not is_known(version):
        return f"Argo CD {version} was neither tested nor read: take {', '.join((*TESTED, *READ))}, or a newer patch"
    return ""


def _refusal_of_isolation(version: Version | None, shortcomings: tuple[str, ...], accepted: Acceptance) -> str:
    """No version makes up for these."""
    if not shortcomings or accepted.unisolated:
        return ""
    return (
        f"Argo CD {_version_text(version)} does not keep tenants apart: {shortcomings[0]} "
        "(ACCEPT_UNISOLATED_ENGINES would have it used all the same)"
    )


def _refusal_of_unpatched(found: Found, version: Version | None, shortcomings: tuple[str, ...]) -> str:
    """An unpatched version is safe with every setting alone; one that is not seen operators answer for."""
    if not shortcomings or not found.workloads.any_seen or (version is not None and is_patched(version)):
        return ""
    return f"Argo CD {_version_text(version)} lacks fixes, and what makes up for them: {shortcomings[0]}"


def _version_text(version: Version | None) -> str:
    return str(version or "of an unknown version")


def _of_schemas(unserved: tuple[str, ...]) -> Iterator[str]:
    if unserved:
        yield f"the CRDs of {GROUP} drop {', '.join(unserved)}: apply those of a supported version"


def _of_rights(excessive: tuple[str, ...]) -> Iterator[str]:
    if excessive:
        yield f"its application controller may write {', '.join(excessive)} in its own cluster: so may tenants, there"


def _of_isolation(config: Mapping[str, str] | None) -> Iterator[str]:
    """What keeps a tenant from what is another's, or the platform's."""
    if config is None:
        yield f"there is no ConfigMap {CONFIG}"
        return
    if missing := [kind for kind in EXCLUDED if not _is_excluded(kind, config.get("resource.exclusions", ""))]:
        yield f"resource.exclusions leaves out {', '.join(missing)} of {GROUP}: a tenant's repository can bring them"
    if not config.get(INSTALLATION):
        yield f"{INSTALLATION} is empty: it takes resources of any Argo CD for its own"
    if config.get("application.resourceTrackingMethod") not in TRACKING:
        yield "application.resourceTrackingMethod is not 'annotation': labels are cut off, and tenants' to set"
    if options := sorted(name for name, value in config.items() if name.startswith(KUSTOMIZE) and value.strip()):
        yield f"{', '.join(options)}: kustomize is called with options, or by another path"


def _of_config(config: Mapping[str, str] | None, fleet: str) -> Iterator[str]:
    """What else it should have; that there is none is told already."""
    if config is None:
        return
    if config.get(INSTALLATION) not in ("", None, fleet):
        yield f"{INSTALLATION} is not '{fleet}', the fleet's: what other instances have deployed is none of its own"
    if config.get("resource.respectRBAC") not in RESPECTING:
        yield "resource.respectRBAC is not 'normal': a tenant's cluster with few rights cannot be deployed to"
    if config.get("jsonnet.enable") != "false":
        yield "jsonnet.enable is not 'false': a tenant's Jsonnet reads any file of the repo server"
    if config.get(VALUES, "https").strip():
        yield f"{VALUES} is not empty: values of a chart are fetched from wherever a repository says"


def _is_excluded(kind: str, exclusions: str) -> bool:
    """As Argo CD reads it; an entry that names clusters leaves others open."""
    try:
        entries = yaml.safe_load(exclusions) or []
    except yaml.YAMLError:
        return False
    return isinstance(entries, list) and any(_covers(entry, kind) for entry in entries if isinstance(entry, dict))


def _covers(entry: Mapping[str, Any], kind: str) -> bool:
    groups, kinds, clusters = (_patterns(entry.get(name)) for name in ("apiGroups", "kinds", "clusters"))
    return any(fnmatchcase(GROUP, group) for group in groups) and bool({kind, "*"} & {*kinds}) and "*" in clusters


def _patterns(value: Any) -> list[str]:
    """None is every one; what is no list Argo CD does not understand either."""
    return [str(item) for item in value or ["*"]] if isinstance(value, list | None) else []


def _of_default_project(project: Manifest | None) -> Iterator[str]:
    if project is None:
        yield f"there is no AppProject {DEFAULT_PROJECT}: Argo CD's API server makes one that permits everything"
    elif (spec := project.get("spec") or {}) and spec.get("sourceRepos") and spec.get("destinations"):
        yield f"AppProject {DEFAULT_PROJECT} permits sources and destinations: nobody's Application could use it"
