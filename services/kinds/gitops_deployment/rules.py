"""The life of a GitOpsDeployment, from its first event until its resource and its object on an engine are gone.

The plan calls it for each event. Every function takes the row as it is and returns the row as it should be. A late or
repeated event returns the row unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from services.common.addresses import AddressPolicy
from services.common.errors import Permanent
from services.common.messages import Applied, Failed, ResourceChanged, StatusReported
from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.gitops_deployment.validation import accept, accepted_deployment
from services.kinds.shared.api_group import FINALIZER
from services.kinds.shared.catalogue import UNKNOWN_ERROR
from services.kinds.shared.incarnation import version_order
from services.kinds.shared.resource import Cause, Origin
from services.kinds.shared.text import MAX_REFUSAL


def update_deployment(
    known: Deployment | None, event: ResourceChanged, origin: Origin, cause: Cause, addresses: AddressPolicy
) -> Deployment:
    """The row of a resource with this content. ``event`` is not late."""
    seen = _sighted(known, event, origin, cause)
    return seen if event.deleting else _with_spec(seen, event, addresses)


def empty_deployment(known: Deployment) -> Deployment:
    """The row when nothing of the deployment is left on any engine."""
    return replace(
        known,
        spec=None,
        pending_spec=None,
        environment=None,
        environment_id=None,
        repository=None,
        digest=None,
        pending_reason="",
        over_quota=False,
        engine_instance_id="",
    )


def update_status(known: Observed, event: StatusReported, cause: Cause) -> Observed:
    """The engine reports a status. A status older than the last one is ignored."""
    older = version_order(event.resource_version) < version_order(known.resource_version)
    is_known = event.status == known.status and known.resource_version != ""  # or it was seen on another instance
    if is_known or (older and cause.at <= known.observed_at):
        return known
    return replace(known, status=event.status, resource_version=event.resource_version, observed_at=cause.at)


def mark_applied(known: Observed, event: Applied, deployment: Deployment) -> Observed:
    """The engine has a manifest, which may not be the desired one."""
    if event.digest != deployment.digest or (known.applied_digest == event.digest and not known.failure):
        return known
    return replace(known, applied_digest=event.digest, failed_digest="", failure="", failure_for_user=False)


def mark_failed(known: Observed, event: Failed, deployment: Deployment) -> Observed:
    """The engine refuses a manifest. That is ignored unless it is the desired one."""
    if event.digest != deployment.digest:
        return known
    message = event.message.replace("\0", "")[:MAX_REFUSAL] or UNKNOWN_ERROR.message
    return replace(
        known, applied_digest="", failed_digest=event.digest, failure=message, failure_for_user=event.for_user
    )


def unobserved(deployment: Deployment) -> Observed:
    """The row of a deployment without any report."""
    return Observed(
        deployment_id=deployment.id,
        status="",
        resource_version="",
        observed_at=deployment.seen_at,
        applied_digest="",
        failed_digest="",
        failure="",
        failure_for_user=False,
        status_generation=0,
    )


def _sighted(known: Deployment | None, event: ResourceChanged, origin: Origin, cause: Cause) -> Deployment:
    """The row with everything in the event except the spec. Its time changes only with its content."""
    if known is None:
        return Deployment(
            id=origin.id,
            tenant_id=origin.tenant_id,
            source=origin.source,
            name=event.name,
            uid=event.uid,
            resource_version=event.resource_version,
            generation=event.generation,
            epoch=event.epoch,
            present=True,
            deleting=event.deleting,
            finalizer=FINALIZER in event.finalizers,
            spec=None,
            pending_spec=None,
            environment=None,
            repository=None,
            digest=None,
            error="",
            pending_reason="",
            over_quota=False,
            held_back_ms=event.held_back_ms,
            sync_sequence=0,
            seen_at=cause.at,
            trace_id=cause.trace_id,
            metadata=event.metadata,
        )
    before = (known.generation, known.deleting, known.present, known.metadata)
    news = before != (event.generation, event.deleting, True, event.metadata)
    since = cause if news else Cause(known.seen_at, known.trace_id)
    return replace(
        known,
        source=origin.source,
        resource_version=event.resource_version,
        generation=event.generation,
        epoch=max(known.epoch, event.epoch),
        present=True,
        deleting=event.deleting,
        finalizer=FINALIZER in event.finalizers,
        held_back_ms=event.held_back_ms if news else known.held_back_ms,
        seen_at=since.at,
        trace_id=since.trace_id,
        metadata=event.metadata,
    )


def refuse_deployment(seen: Deployment, error: str) -> Deployment:
    """The row of a deployment whose newest spec is refused. An older spec that waited is dropped."""
    environment = accepted_deployment(seen.spec).destination.environment if seen.spec is not None else None
    return replace(seen, pending_spec=None, environment=environment, error=error, pending_reason="", over_quota=False)


def _with_spec(seen: Deployment, event: ResourceChanged, addresses: AddressPolicy) -> Deployment:
    """The row with the event's spec pending, or with its error. What is deployed stays as it was."""
    if event.spec_omitted:
        return refuse_deployment(seen, event.spec_omitted.replace("\0", "")[:MAX_REFUSAL])
    try:
        spec = accept(event.api_version, event.spec, addresses)
    except Permanent as error:
        return refuse_deployment(seen, str(error))
    text = spec.model_dump_json(by_alias=True, exclude_none=True)
    pending_spec = text if text != seen.spec else None
    return replace(seen, pending_spec=pending_spec, environment=spec.destination.environment, error="")
