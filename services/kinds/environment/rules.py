"""What an Environment wants in its namespace, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from services.common.addresses import AddressPolicy
from services.common.messages import ChildKind
from services.kinds.deployment_target.model import DeploymentTargetSpec
from services.kinds.environment import catalogue as texts
from services.kinds.environment.model import EnvironmentSpec
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET, ManagedEnvironmentSpec
from services.kinds.secret.rules import NEVER_COPIED, TOO_LARGE
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.cluster_credentials import ClusterCredentials
from services.kinds.shared.limits import Limits
from services.kinds.shared.reconciled import MAX_LISTED, Problem, beyond_quota, listed
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import spec_of

SECRET_LABEL = "appstudio.openshift.io/environment-secret"  # noqa: S105 - a label
"""Its value is the name of the environment that a Secret was copied for."""
CHILDREN = (ChildKind.MANAGED_ENVIRONMENT, ChildKind.SECRET_COPY)
BOUND = "Bound"
"""Phase of a claim that has a target."""


@dataclass(frozen=True, slots=True)
class Backing:
    """What there is of what an environment names."""

    claim_phase: str | None = None
    """Of the claim; None: there is no such claim."""
    target: DeploymentTargetSpec | None = None
    """The one that is bound to the claim."""
    secret_types: Mapping[str, str] = field(default_factory=dict)
    """Types of the Secrets that there are, by name; ``TOO_LARGE`` of one that is too large to be copied."""
    secret_version: str = ""
    """Of the Secret of the target; empty: it is not known."""
    has_local_cluster: bool = True
    """Whether the workspace may deploy to the cluster of the engine itself."""


@dataclass(frozen=True, slots=True)
class Family:
    """Where an environment stands among those of its namespace."""

    cycle: tuple[str, ...] = ()
    """The way from it along the parents back to it; empty if there is none."""
    children: Collection[str] = ()
    """Those that name it as their parent."""
    missing_parent: str = ""
    """The name that it gives its parent, if no environment has it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from an environment."""

    children: tuple[ChildObject, ...] | None
    """Its ManagedEnvironment and its copied Secret, as far as it wants them; none: it is its own namespace.

    None: it is not known, so what is there stays as it is.
    """
    problem: Problem | None = None
    """What keeps it, or a part of it, from being deployed to."""
    warning: Problem | None = None
    """What is wrong with its place among others, which changes nothing about what it wants."""


def accept(resource: PlainResource, _addresses: AddressPolicy, limits: Limits) -> EnvironmentSpec:
    """The spec of ``resource``; its ManagedEnvironment says what is wrong with its URL. Raises Refused."""
    if resource.over_quota:
        raise beyond_quota(resource, limits)
    return spec_of(EnvironmentSpec, resource)


def managed_environment_name(environment: str) -> str:
    """Of the GitOpsDeploymentManagedEnvironment that is made for an environment."""
    return f"managed-environment-{environment}"


def decide(name: str, spec: EnvironmentSpec, backing: Backing, family: Family, *, deleting: bool = False) -> Decision:
    """What the environment ``name`` wants. Its place among others changes nothing about that."""
    return replace(_backed(name, spec, backing), warning=_family_problem(family, deleting=deleting))


def parent_cycles(parents: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """For each environment on a cycle the way from it back to it, by name; ``parents`` maps children to parents."""
    cycles: dict[str, tuple[str, ...]] = {}
    done: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        at = start
        while at in parents and at not in done and at not in path:
            path[at] = None
            at = parents[at]
        if at in path:
            members = [*path][[*path].index(at) :]
            cycles |= {each: (*members[i:], *members[:i], each) for i, each in enumerate(members)}
        done.update(path)  # `|=` with keys would copy all that is done, for each start
    return cycles


def cycle_problem(cycle: tuple[str, ...]) -> Problem:
    """What is wrong with an environment from which ``cycle`` leads back to it."""
    return Problem.of(texts.PARENT_CYCLE, cycle=_way(cycle))


def missing_parent_problem(parent: str) -> Problem:
    """What is wrong with an environment whose parent does not exist."""
    return Problem.of(texts.PARENT_NOT_FOUND, parent=parent)


def _backed(name: str, spec: EnvironmentSpec, backing: Backing) -> Decision:
    credentials = spec.credentials
    if spec.claim_name and credentials is not None:
        return Decision(None, Problem.of(texts.BOTH_CONFIGURED))
    if credentials is not None:
        wanted = _managed_environment(name, credentials, credentials.namespaces, credentials.cluster_resources)
        return Decision((wanted,), _secret_problem(credentials, backing))
    if spec.claim_name:
        return _claimed(name, backing)
    problem = None if backing.has_local_cluster else Problem.of(texts.NO_LOCAL_CLUSTER)
    return Decision((), problem)


def _claimed(name: str, backing: Backing) -> Decision:
    """While the claim waits for a target the environment waits, too, and nothing is wrong."""
    if backing.claim_phase is None:
        return Decision(None, Problem.of(texts.CLAIM_NOT_FOUND))
    if backing.claim_phase != BOUND:
        return Decision(None)
    if backing.target is None:
        return Decision(None, Problem.of(texts.TARGET_NOT_FOUND))
    credentials = backing.target.kubernetes_credentials
    not_copied = _copy_problem(name, credentials.cluster_credentials_secret, backing)
    copy = None if not_copied else _secret_copy(name, credentials.cluster_credentials_secret, backing)
    namespaces = [credentials.default_namespace] if credentials.default_namespace else None
    wanted = _managed_environment(name, credentials, namespaces, secret=copy.name if copy else "")
    return Decision((wanted, copy) if copy else (wanted,), not_copied or _secret_problem(credentials, backing))


def _managed_environment(
    name: str,
    credentials: ClusterCredentials,
    namespaces: list[str] | None,
    cluster_resources: bool = False,
    *,
    secret: str = "",
) -> ChildObject:
    """It names every field of its spec, so that whatever somebody else sets in one is drift."""
    spec = ManagedEnvironmentSpec(
        api_url=credentials.api_url,
        credentials_secret=secret or credentials.cluster_credentials_secret,
        allow_insecure_skip_tls_verify=credentials.allow_insecure_skip_tls_verify,
        namespaces=namespaces or [],
        cluster_resources=cluster_resources,
    )
    return ChildObject(ChildKind.MANAGED_ENVIRONMENT, managed_environment_name(name), spec.model_dump(by_alias=True))


def _secret_copy(name: str, source: str, backing: Backing) -> ChildObject | None:
    """Provisioners make Secrets of types of their own. None if there is no Secret, or it can be used as it is.

    The version is in the order so that it is another one when the content is.
    """
    if _is_used_as_it_is(source, backing):
        return None
    order = {"from": source, "type": ENVIRONMENT_SECRET}
    if backing.secret_version:
        order["version"] = backing.secret_version
    return ChildObject(ChildKind.SECRET_COPY, _copy_name(name), order, {SECRET_LABEL: name})


def _copy_problem(name: str, source: str, backing: Backing) -> Problem | None:
    """Why the Secret ``source`` is not copied; a watcher would refuse to. None: it is, or need not be."""
    if _is_used_as_it_is(source, backing):
        return None
    if (type_ := backing.secret_types[source]) in NEVER_COPIED:
        return Problem.of(texts.SECRET_NEVER_COPIED, secret=source, type=type_)
    if type_ == TOO_LARGE:
        return Problem.of(texts.SECRET_TOO_LARGE, secret=source)
    return Problem.of(texts.SECRET_HAS_NAME_OF_COPY, secret=source) if source == _copy_name(name) else None


def _is_used_as_it_is(secret: str, backing: Backing) -> bool:
    """Also if there is none."""
    return backing.secret_types.get(secret, ENVIRONMENT_SECRET) == ENVIRONMENT_SECRET


def _copy_name(environment: str) -> str:
    return f"managed-environment-secret-{environment}"


def _secret_problem(credentials: ClusterCredentials, backing: Backing) -> Problem | None:
    """A missing Secret is told here, too; the ManagedEnvironment is made, and has no credentials until there is one."""
    secret = credentials.cluster_credentials_secret
    return None if secret in backing.secret_types else Problem.of(texts.SECRET_NOT_FOUND, secret=secret)


def _family_problem(family: Family, *, deleting: bool) -> Problem | None:
    if family.cycle:
        return cycle_problem(family.cycle)
    if deleting and family.children:
        return Problem.of(texts.HAS_CHILDREN, children=listed(family.children))
    return missing_parent_problem(family.missing_parent) if family.missing_parent else None


def _way(cycle: tuple[str, ...]) -> str:
    """A cycle for a message: the first ones on it, and its end."""
    first = cycle[:-1][:MAX_LISTED]
    beyond = ("...",) if len(cycle) - 1 > MAX_LISTED else ()
    return " -> ".join((*first, *beyond, cycle[-1]))
