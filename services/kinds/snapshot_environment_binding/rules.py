"""Which GitOpsDeployments a SnapshotEnvironmentBinding wants, and its problems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from services.common.addresses import AddressPolicy
from services.common.errors import Permanent
from services.common.json_values import canonical, digest
from services.common.messages import ChildKind
from services.kinds.environment.known import KnownEnvironment
from services.kinds.environment.rules import Backing, managed_environment_name
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec
from services.kinds.gitops_deployment.validation import accept as accept_deployment
from services.kinds.shared.api_group import API_VERSION, APPSTUDIO_LABELS, is_appstudio_label
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.limits import Limits
from services.kinds.shared.reconciled import Problem, beyond_quota, listed
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.snapshot_environment_binding import catalogue as texts
from services.kinds.snapshot_environment_binding.model import BindingSpec, BindingStatus, ComponentStatus

COMPONENT_LABEL = f"{APPSTUDIO_LABELS}/component"
"""Label of a deployment: its component."""

_LONGEST = 250
"""Longest name of a GitOpsDeployment."""
_KEPT = 180
"""Characters of a longer name before its digest."""
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")

Destination = Mapping[str, str]
"""A GitOpsDeployment's destination; empty: its own namespace."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding, and what is known of what it names."""

    name: str
    spec: BindingSpec
    reported: BindingStatus
    """What the build service has written into its status."""
    environment: KnownEnvironment | None
    """None: there is no such Environment."""
    backing: Backing = field(default_factory=Backing)
    """What exists of what the environment names."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Its labels. Its deployments get those of AppStudio."""
    older: str = ""
    """Name of an older binding of the same application and environment, which is in force instead."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a binding."""

    deployments: Mapping[str, ChildObject] | None
    """The desired deployments by component; None: unknown, so existing ones stay as they are."""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Rival:
    """What decides which of several bindings is in force."""

    id: UUID
    name: str
    created_at: int
    """Milliseconds since 1970."""
    application: str
    environment: str


def older_bindings(bindings: Iterable[Rival]) -> dict[UUID, str]:
    """For each binding that is not in force, the name of the one that is.

    That is the oldest of its application and environment. One that is being deleted counts until it is gone, because
    what it has deployed still exists.
    """
    in_force: dict[tuple[str, str], str] = {}
    others: dict[UUID, str] = {}
    for each in sorted(bindings, key=lambda each: (each.created_at, each.name)):
        first = in_force.setdefault((each.application, each.environment), each.name)
        if first != each.name:
            others[each.id] = first
    return others


def accept(resource: PlainResource, _addresses: AddressPolicy, limits: Limits) -> BindingSpec:
    """The spec of ``resource``. Raises Refused."""
    if resource.over_quota:
        raise beyond_quota(resource, limits)
    return spec_of(BindingSpec, resource)


def decide(binding: Binding, addresses: AddressPolicy) -> Decision:
    """The GitOpsDeployments that ``binding`` wants."""
    components = _reported_components(binding)
    if binding.older:
        return Decision({}, _duplicate(binding))
    if binding.environment is None:
        return Decision(None, Problem.of(texts.ENVIRONMENT_NOT_FOUND, environment=binding.spec.environment))
    if _is_repository_broken(binding.reported):
        return Decision(None, Problem.of(texts.REPOSITORY_NOT_READY, binding=binding.name))
    if not components and binding.spec.components:
        return Decision({}, Problem.of(texts.NO_COMPONENT_STATUS, binding=binding.name))
    destination = _destination(binding.spec.environment, binding.environment, binding.backing)
    problem = destination if isinstance(destination, Problem) else _component_problem(binding.spec, components)
    if isinstance(destination, Problem) or problem is not None:
        return Decision(None, problem)
    return _deployments(binding, components, destination, addresses)


def deployment_name(binding: str, application: str, environment: str, component: str) -> str:
    """Name of a component's GitOpsDeployment: at most 250 characters, and different for each component."""
    name, short = f"{binding}-{application}-{environment}-{component}", f"{binding}-{component}"
    if len(name) <= _LONGEST:
        return name
    # No part of a name between two dots begins with '-'.
    return short if len(short) <= _LONGEST else f"{short[:_KEPT].rstrip('.')}-{digest(name)}"


def pair_of_labels(labels: Mapping[str, str]) -> tuple[str, str]:
    """Application and environment of the binding of a deployment with these labels."""
    return labels[f"{APPSTUDIO_LABELS}/application"], labels[f"{APPSTUDIO_LABELS}/environment"]


def missing_components(binding: Binding) -> frozenset[str]:
    """Components on which the build service has not reported yet."""
    return frozenset(each.name for each in binding.spec.components) - {
        each.name for each in binding.reported.components or ()
    }


def _reported_components(binding: Binding) -> list[ComponentStatus]:
    """Reports on components of its spec. The build service may still report on a removed one."""
    named = {each.name for each in binding.spec.components}
    return [each for each in binding.reported.components or () if each.name in named]


def _duplicate(binding: Binding) -> Problem:
    spec = binding.spec
    return Problem.of(
        texts.DUPLICATE_BINDING, binding=binding.older, application=spec.application, environment=spec.environment
    )


def _is_repository_broken(reported: BindingStatus) -> bool:
    conditions = reported.git_ops_repo_conditions or []
    return bool(conditions) and conditions[-1].status == "False"


def _destination(name: str, environment: KnownEnvironment, backing: Backing) -> Destination | Problem:
    """Where the components of an environment are deployed."""
    namespace = environment.target_namespace
    if environment.claim_name and namespace is not None:
        return Problem.of(texts.ENVIRONMENT_INVALID, environment=name)
    if namespace is not None:
        return _on_cluster(name, namespace) or Problem.of(texts.NAMESPACE_MISSING)
    if not environment.claim_name:
        return {}
    if backing.claim_phase is None:
        return Problem.of(texts.CLAIM_NOT_FOUND)
    if backing.target is None:
        return Problem.of(texts.TARGET_NOT_FOUND)
    default = backing.target.kubernetes_credentials.default_namespace
    return _on_cluster(name, default) or {"environment": managed_environment_name(name)}


def _on_cluster(environment: str, namespace: str) -> Destination:
    """The destination; empty if there is no namespace."""
    return {"environment": managed_environment_name(environment), "namespace": namespace} if namespace else {}


def _component_problem(spec: BindingSpec, components: list[ComponentStatus]) -> Problem | None:
    """The problem that makes components, or the names and labels of their deployments, ambiguous or invalid.

    The spec bounds the number of names, and their length.
    """
    for name, times in Counter(each.name for each in components).items():
        if times > 1:
            return Problem.of(texts.DUPLICATE_COMPONENTS, component=name)
    for each in components:
        for what, name in (("application", spec.application), ("component", each.name)):
            if not _DNS_LABEL.fullmatch(name):
                detail = f"the name of its {what} must be a DNS-1123 label, such as 'my-{what}'; correct it"
                return Problem.of(texts.INVALID_COMPONENT, component=each.name, detail=detail)
    return None


def _deployments(
    binding: Binding, components: list[ComponentStatus], destination: Destination, addresses: AddressPolicy
) -> Decision:
    wanted: dict[str, ChildObject] = {}
    for each in sorted(components, key=lambda each: each.name):
        try:
            spec = _spec(each, destination, addresses)
        except Permanent as refused:
            return Decision(None, Problem.of(texts.INVALID_COMPONENT, component=each.name, detail=str(refused)))
        wanted[each.name] = ChildObject(
            ChildKind.DEPLOYMENT, _name(binding, each.name), _content(spec), _labels(binding, each.name)
        )
    missing = missing_components(binding)
    if missing:
        return Decision(wanted, Problem.of(texts.COMPONENTS_MISSING, binding=binding.name, components=listed(missing)))
    return Decision(wanted)


def _spec(component: ComponentStatus, destination: Destination, addresses: AddressPolicy) -> GitOpsDeploymentSpec:
    """The spec of a deployment. Raises Permanent with the error of the API server, or of the deployment's own rules."""
    repository = component.git_ops_repository
    source = {"repoURL": repository.url, "path": repository.path}
    source |= {"targetRevision": repository.branch} if repository.branch else {}
    spec = {"source": source, "type": "automated", "destination": destination}
    return accept_deployment(API_VERSION, canonical(spec), addresses)


def _content(spec: GitOpsDeploymentSpec) -> dict[str, Any]:
    """Every field of a deployment, even empty ones, so that any other value is drift."""
    source, destination = spec.source, spec.destination
    return {
        "source": {
            "repoURL": source.repo_url,
            "path": source.path,
            "targetRevision": source.target_revision or "",
        },
        "destination": {
            "environment": destination.environment or "",
            "namespace": destination.namespace or "",
        },
        "syncPolicy": {"syncOptions": []},
        "type": spec.type,
    }


def _name(binding: Binding, component: str) -> str:
    return deployment_name(binding.name, binding.spec.application, binding.spec.environment, component)


def _labels(binding: Binding, component: str) -> dict[str, str]:
    inherited = {key: value for key, value in binding.labels.items() if is_appstudio_label(key)}
    own = {"application": binding.spec.application, "component": component, "environment": binding.spec.environment}
    return inherited | {f"{APPSTUDIO_LABELS}/{what}": name for what, name in own.items()}
