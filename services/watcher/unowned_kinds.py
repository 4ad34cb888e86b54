"""The closed list of unowned objects: which ones a watcher may create or delete, and which fields it may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from services.common.kubernetes import ApiResource
from services.common.messages import UnownedKind
from services.kinds.application.kind import APPLICATION
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target.rows import CLAIM_UID, PROVISIONED_BY
from services.kinds.deployment_target.rows import FINALIZER as TARGET_FINALIZER
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.rows import BIND_COMPLETE, BOUND_BY_CONTROLLER, PROVISIONER
from services.kinds.deployment_target_claim.rows import FINALIZER as CLAIM_FINALIZER
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.progress import APPLICATION_LABEL, ENVIRONMENT_LABEL
from services.kinds.promotion_run.rows import AUTOMATED_LABEL
from services.kinds.registry import Registry
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.space_request.model import CLAIM_LABEL, SPACE_REQUEST, TARGET_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class UnownedResource:
    """What may be done with objects of one kind. Everything else is left as it is."""

    resource: ApiResource
    verbs: frozenset[str] = frozenset()
    """Verbs besides patch: create, delete."""
    spec: frozenset[str] = frozenset()
    """Fields of the spec that may be changed. All of them are texts."""
    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    """Annotations that may be set, also on an object that is created."""
    finalizers: frozenset[str] = frozenset()
    """Our finalizers, which are added and removed without touching those of others."""
    kept_by: frozenset[ApiResource] = frozenset()
    """Kinds of objects that keep this one: it is not deleted while an object that its row names exists."""


UNOWNED_RESOURCES: Mapping[str, UnownedResource] = {
    UnownedKind.ENVIRONMENT: UnownedResource(resource=ENVIRONMENT, verbs=frozenset({"delete"})),
    UnownedKind.BINDING: UnownedResource(
        resource=BINDING,
        verbs=frozenset({"create", "delete"}),
        spec=frozenset({"snapshot"}),
        labels=frozenset({APPLICATION_LABEL, ENVIRONMENT_LABEL}),
        kept_by=frozenset({APPLICATION}),
    ),
    UnownedKind.PROMOTION_RUN: UnownedResource(
        resource=PROMOTION_RUN, verbs=frozenset({"create", "delete"}), labels=frozenset({AUTOMATED_LABEL})
    ),
    UnownedKind.CLAIM: UnownedResource(
        resource=DEPLOYMENT_TARGET_CLAIM,
        verbs=frozenset({"delete"}),
        spec=frozenset({"targetName"}),
        annotations=frozenset({BIND_COMPLETE, BOUND_BY_CONTROLLER, PROVISIONER}),
        finalizers=frozenset({CLAIM_FINALIZER}),
    ),
    UnownedKind.TARGET: UnownedResource(
        resource=DEPLOYMENT_TARGET,
        verbs=frozenset({"create", "delete"}),
        spec=frozenset({"claimRef"}),
        annotations=frozenset({CLAIM_UID, PROVISIONED_BY}),
        finalizers=frozenset({TARGET_FINALIZER}),
        kept_by=frozenset({DEPLOYMENT_TARGET_CLAIM}),
    ),
    UnownedKind.SPACE_REQUEST: UnownedResource(
        resource=SPACE_REQUEST,
        verbs=frozenset({"create", "delete"}),
        labels=frozenset({CLAIM_LABEL, TARGET_LABEL}),
        annotations=frozenset({PROVISIONER}),
        kept_by=frozenset({DEPLOYMENT_TARGET_CLAIM, DEPLOYMENT_TARGET}),
    ),
}


def changed_resources(registry: Registry) -> Iterator[UnownedResource]:
    """What the watcher changes for these kinds of resources. It has the right to change nothing else."""
    declared = {unowned for kind in registry.kinds for unowned in kind.unowned}
    return (known for kind, known in UNOWNED_RESOURCES.items() if kind in declared)
