"""Whether deployments may use a GitOpsDeploymentManagedEnvironment, and what they must know of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from services.common.errors import Permanent
from services.common.text_cache import TEXTS
from services.kinds.managed_environment import catalogue as texts
from services.kinds.managed_environment.model import ManagedEnvironmentSpec
from services.kinds.managed_environment.validation import accepted_environment
from services.kinds.shared.conditions import Refused
from services.kinds.shared.connections import Cluster, ConnectionInputs
from services.kinds.shared.resource import Check
from services.kinds.shared.spec_text import parsed

SUCCEEDED = texts.CONNECTED.reason
WHOLE_CLUSTER = ("*",)


class Usability(Enum):
    """Whether deployments may use an environment."""

    PENDING = "pending"
    """Its first check has no result yet, so deployments wait."""
    USABLE = "usable"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class EnvironmentView:
    """What a deployment knows of an environment."""

    id: str
    """Id of the environment, which its cluster secret's name contains."""
    name: str
    usability: Usability
    namespaces: tuple[str, ...]
    """Namespaces that deployments may use; none: the whole cluster."""
    cluster_resources: bool


@TEXTS.remember
def destinations(text: str) -> frozenset[str]:
    """Namespaces that deployments may use because of a spec (JSON text); none if it is invalid."""
    try:
        spec = parsed(ManagedEnvironmentSpec, text)
    except Permanent:
        return frozenset()
    return frozenset(spec.namespaces or WHOLE_CLUSTER)


def connections(inputs: ConnectionInputs) -> tuple[Cluster]:
    """The cluster of an environment."""
    cluster = _cluster(inputs.spec)
    return (replace(cluster, secret=inputs.secret) if inputs.secret is not None else cluster,)


@TEXTS.remember
def _cluster(text: str) -> Cluster:
    spec = accepted_environment(text)
    return Cluster(
        api_url=spec.api_url,
        skips_tls_verification=spec.allow_insecure_skip_tls_verify,
        creates_account=spec.create_new_service_account,
        namespaces=tuple(sorted(set(spec.namespaces or ()))),
        cluster_resources=spec.cluster_resources,
        secret=None,
    )


def is_usable(
    refused: Refused | None, check: Check | None, digest: str | None, *, holds_this_cluster: bool = False
) -> Usability:
    """Whether deployments may go there; ``digest`` is that of the manifest compiled now, None if there is none.

    Once its credentials have worked, an engine holds them until better ones have: then a failing check says that new
    credentials are bad, or that the cluster is away for a moment. But what it holds must be of the cluster that the
    environment names now (``holds_this_cluster``), or deployments would go to the one it named before.
    """
    if refused is not None and not refused.pending:
        return Usability.UNUSABLE
    if holds_this_cluster or (check is not None and check.reason == SUCCEEDED and check.digest == digest):
        return Usability.USABLE
    is_current = refused is None and check is not None and check.digest == digest
    return Usability.UNUSABLE if is_current else Usability.PENDING
