"""What an Argo CD lacks of what tenancy needs, as its objects show. ``k8s/argocd`` provides all of it.

Some requirements keep tenants apart; no version may lack these. The others bound what one tenant can use, or make up
for what newer versions have fixed.

Pure: ``engine_inspection`` reads the objects and reports. Requirements of the Deployments are in
``workload_requirements``.
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
"""Settings that must have no value. Each name may end with a version."""
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
    """The objects of one engine namespace; None: there is no such object."""

    config: Mapping[str, str] | None
    """Data of argocd-cm."""
    default_project: Manifest | None
    workloads: Workloads
    unserved: tuple[str, ...] = ()
    """Required fields that the cluster's CRDs would drop."""
    excessive_rights: tuple[str, ...] = ()
    """What the controller may write in its own cluster, and no tenant may."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What operators accept at their own risk."""

    unseen: bool = False
    """An instance is used although its workloads are not found."""
    unisolated: bool = False
    """An instance is used although it does not keep tenants apart; with ``unseen``, although it may not be read."""
    installation_id: str = INSTALLATION_ID
    """The id by which the fleet's Argo CDs recognise what they have deployed. It is the same for all, so tenants can be
    moved."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an inspection."""

    version: Version | None
    shortcomings: tuple[str, ...]
    """A sentence for each requirement that is not met."""
    refusal: str
    """Why nothing new is deployed; empty if it is."""
    is_unisolated: bool = False
    """Tenants are not kept apart, or that is unknown, and operators accept that."""


def verdicts(engines: Mapping[str, Found], accepted: Acceptance) -> dict[str, Verdict]:
    """The verdict on each instance, by id."""
    return {name: _verdict(found, accepted) for name, found in engines.items()}


def verdict_on_unreadable(error: str, refusal: str, accepted: Acceptance) -> Verdict:
    """The verdict on an instance that may not be read; ``refusal`` is that of the last verdict.

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
    """Refused whatever the version, unless operators accept it."""
    if not shortcomings or accepted.unisolated:
        return ""
    return (
        f"Argo CD {_version_text(version)} does not keep tenants apart: {shortcomings[0]} "
        "(ACCEPT_UNISOLATED_ENGINES would have it used all the same)"
    )


def _refusal_of_unpatched(found: Found, version: Version | None, shortcomings: tuple[str, ...]) -> str:
    """An unpatched version is safe only with all settings. Operators answer for a version that is not seen."""
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
    """What keeps a tenant from resources of other tenants and of the platform."""
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
    """Other missing settings. A missing config map is already reported."""
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
    """Whether Argo CD excludes the kind. An entry that names clusters does not count: it leaves others open."""
    try:
        entries = yaml.safe_load(exclusions) or []
    except yaml.YAMLError:
        return False
    return isinstance(entries, list) and any(_covers(entry, kind) for entry in entries if isinstance(entry, dict))


def _covers(entry: Mapping[str, Any], kind: str) -> bool:
    groups, kinds, clusters = (_patterns(entry.get(name)) for name in ("apiGroups", "kinds", "clusters"))
    return any(fnmatchcase(GROUP, group) for group in groups) and bool({kind, "*"} & {*kinds}) and "*" in clusters


def _patterns(value: Any) -> list[str]:
    """The patterns in ``value``. None matches everything; Argo CD does not accept anything but a list."""
    return [str(item) for item in value or ["*"]] if isinstance(value, list | None) else []


def _of_default_project(project: Manifest | None) -> Iterator[str]:
    if project is None:
        yield f"there is no AppProject {DEFAULT_PROJECT}: Argo CD's API server makes one that permits everything"
    elif (spec := project.get("spec") or {}) and spec.get("sourceRepos") and spec.get("destinations"):
        yield f"AppProject {DEFAULT_PROJECT} permits sources and destinations: nobody's Application could use it"
