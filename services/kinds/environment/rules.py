"""What an Environment wants in its namespace, and its problems."""

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
"""Label of a copied Secret: the environment that it was copied for."""
CHILDREN = (ChildKind.MANAGED_ENVIRONMENT, ChildKind.SECRET_COPY)
BOUND = "Bound"
"""Phase of a claim that has a target."""


@dataclass(frozen=True, slots=True)
class Backing:
    """What exists of what an environment names."""

    claim_phase: str | None = None
    """Phase of the claim; None: there is no such claim."""
    target: DeploymentTargetSpec | None = None
    """The target that is bound to the claim."""
    secret_types: Mapping[str, str] = field(default_factory=dict)
    """Types of the existing Secrets by name; ``TOO_LARGE`` for one that is too large to be copied."""
    secret_version: str = ""
    """Version of the target's Secret; empty: unknown."""
    has_local_cluster: bool = True
    """Whether the workspace may deploy to the engine's own cluster."""


@dataclass(frozen=True, slots=True)
class Family:
    """An environment's relations to others of its namespace."""

    cycle: tuple[str, ...] = ()
    """The cycle of parents from it back to it; empty if there is none."""
    children: Collection[str] = ()
    """Environments that name it as their parent."""
    missing_parent: str = ""
    """Its parent's name, if that does not exist."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about an environment."""

    children: tuple[ChildObject, ...] | None
    """Its ManagedEnvironment and its copied Secret, as far as it wants them; none: it is its own namespace. None:
    unknown, so existing ones stay as they are."""
    problem: Problem | None = None
    """The problem that keeps it, or a part of it, from being deployed to."""
    warning: Problem | None = None
    """A problem with its relations to others, which does not change what it wants."""


def accept(resource: PlainResource, _addresses: AddressPolicy, limits: Limits) -> EnvironmentSpec:
    """The spec of ``resource``. Problems of its URL are shown by its ManagedEnvironment. Raises Refused."""
    if resource.over_quota:
        raise beyond_quota(resource, limits)
    return spec_of(EnvironmentSpec, resource)


def managed_environment_name(environment: str) -> str:
    """Name of the GitOpsDeploymentManagedEnvironment of an environment."""
    return f"managed-environment-{environment}"


def decide(name: str, spec: EnvironmentSpec, backing: Backing, family: Family, *, deleting: bool = False) -> Decision:
    """The decision about the environment ``name``. Its relations to others do not change what it wants."""
    return replace(_backed(name, spec, backing), warning=_family_problem(family, deleting=deleting))


def parent_cycles(parents: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """For each environment on a cycle, the cycle from it back to it; ``parents`` maps children to parents."""
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
    """The problem of an environment on ``cycle``."""
    return Problem.of(texts.PARENT_CYCLE, cycle=_way(cycle))


def missing_parent_problem(parent: str) -> Problem:
    """The problem of an environment whose parent does not exist."""
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
    """The decision with a claim. While the claim waits for a target, the environment waits, too, without a problem."""
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
    """The ManagedEnvironment. It names every field of its spec, so that any other value is drift."""
    spec = ManagedEnvironmentSpec(
        api_url=credentials.api_url,
        credentials_secret=secret or credentials.cluster_credentials_secret,
        allow_insecure_skip_tls_verify=credentials.allow_insecure_skip_tls_verify,
        namespaces=namespaces or [],
        cluster_resources=cluster_resources,
    )
    return ChildObject(ChildKind.MANAGED_ENVIRONMENT, managed_environment_name(name), spec.model_dump(by_alias=True))


def _secret_copy(name: str, source: str, backing: Backing) -> ChildObject | None:
    """The copy of a Secret, because provisioners make Secrets of their own types.

    None if there is no Secret, or it can be used as it is. The copy names the version, so that it changes with the
    content.
    """
    if _is_used_as_it_is(source, backing):
        return None
    order = {"from": source, "type": ENVIRONMENT_SECRET}
    if backing.secret_version:
        order["version"] = backing.secret_version
    return ChildObject(ChildKind.SECRET_COPY, _copy_name(name), order, {SECRET_LABEL: name})


def _copy_problem(name: str, source: str, backing: Backing) -> Problem | None:
    """Why the Secret ``source`` is not copied, which a watcher would refuse; None: it is, or need not be."""
    if _is_used_as_it_is(source, backing):
        return None
    if (type_ := backing.secret_types[source]) in NEVER_COPIED:
        return Problem.of(texts.SECRET_NEVER_COPIED, secret=source, type=type_)
    if type_ == TOO_LARGE:
        return Problem.of(texts.SECRET_TOO_LARGE, secret=source)
    return Problem.of(texts.SECRET_HAS_NAME_OF_COPY, secret=source) if source == _copy_name(name) else None


def _is_used_as_it_is(secret: str, backing: Backing) -> bool:
    """Whether the Secret needs no copy. True also if it does not exist."""
    return backing.secret_types.get(secret, ENVIRONMENT_SECRET) == ENVIRONMENT_SECRET


def _copy_name(environment: str) -> str:
    return f"managed-environment-secret-{environment}"


def _secret_problem(credentials: ClusterCredentials, backing: Backing) -> Problem | None:
    """The problem of a Secret. Without a Secret the ManagedEnvironment is made, but has no credentials."""
    secret = credentials.cluster_credentials_secret
    return None if secret in backing.secret_types else Problem.of(texts.SECRET_NOT_FOUND, secret=secret)


def _family_problem(family: Family, *, deleting: bool) -> Problem | None:
    if family.cycle:
        return cycle_problem(family.cycle)
    if deleting and family.children:
        return Problem.of(texts.HAS_CHILDREN, children=listed(family.children))
    return missing_parent_problem(family.missing_parent) if family.missing_parent else None


def _way(cycle: tuple[str, ...]) -> str:
    """A cycle as a text: its first members and its end."""
    first = cycle[:-1][:MAX_LISTED]
    beyond = ("...",) if len(cycle) - 1 > MAX_LISTED else ()
    return " -> ".join((*first, *beyond, cycle[-1]))
