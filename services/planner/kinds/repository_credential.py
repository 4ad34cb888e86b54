"""GitOpsDeploymentRepositoryCredential: which are accepted, and what they show."""

from __future__ import annotations

from datetime import datetime

from services.common.addresses import AddressPolicy
from services.common.api import RepositoryCredentialSpec
from services.common.api.catalogue import credential as texts
from services.common.api.catalogue.entry import ERROR, Reason
from services.common.api.limits import MAX_NAME
from services.common.api.names import CREDENTIAL_SECRET
from services.common.urls.repository_url import refusal
from services.planner.kinds.conditions import (
    Refused,
    States,
    compiled,
    parsed_status,
    recurring,
    throttling,
)
from services.planner.kinds.limits import Limits
from services.planner.kinds.names import SECRET
from services.planner.kinds.sealed_secret import SealedSecret, content_of
from services.planner.kinds.written_spec import spec_of
from services.planner.rows import Check, Resource

UP_TO_DATE = texts.VALID[0].reason
INVALID_CREDENTIALS = texts.INVALID[0].reason
INVALID_URL = texts.URL_NOT_FOUND[0].reason


def accept(resource: Resource, policy: AddressPolicy, limits: Limits) -> RepositoryCredentialSpec:
    """The spec of ``resource``. Raises Refused."""
    if resource.over_quota:
        raise Refused("False", Reason.QUOTA_EXCEEDED, limits.message(resource.kind))
    spec = spec_of(RepositoryCredentialSpec, resource)
    if problem := refusal(spec.repository, policy, with_credentials=True):
        raise Refused("False", INVALID_URL, f"spec.repository {problem}")
    return spec


def sealed(resource: Resource, secret: Resource | None, limits: Limits) -> SealedSecret:
    """The Secret with the login; ``secret`` is the row of the name it has in ``resource``. Raises Refused."""
    content = content_of(resource, secret, CREDENTIAL_SECRET)
    if isinstance(content, SealedSecret):
        return content
    match content.why:
        case "awaited":
            entry = texts.AWAITING_SECRET[0]
        case "over quota":
            raise Refused("False", Reason.QUOTA_EXCEEDED, limits.message(SECRET))
        case "omitted":
            raise Refused("False", INVALID_CREDENTIALS, content.detail)
        case "unnamed":
            entry = texts.SECRET_NOT_SPECIFIED[0]
        case "missing":
            entry = texts.SECRET_NOT_FOUND[0]
        case "other type":
            entry = texts.SECRET_INVALID_TYPE[0]
    raise Refused("False", entry.reason, entry.text(secret=resource.refers_to[:MAX_NAME]))


def credential_status(
    resource: Resource, refused: Refused | None, check: Check | None, digest: str | None, previous: str, at: datetime
) -> str:
    """Canonical JSON of the whole status, its conditions sorted by type; ``previous`` if nothing has changed.

    Args:
        resource: the CR.
        refused: what ``accept`` or ``sealed`` raised.
        check: newest result of an agent, for whatever manifest it was.
        digest: of the manifest compiled now; None if there is none.
        previous: the status compiled last for this incarnation, ``"{}"`` if none was.
        at: when that happened which may change it.
    """
    throttled = recurring(throttling(resource.held_back_ms), parsed_status(previous))
    return compiled(previous, {**_states(resource, refused, check, digest), **throttled}, at, by_type=True)


def _states(resource: Resource, refused: Refused | None, check: Check | None, digest: str | None) -> States:
    if refused is not None:
        return _pending(refused.message) if refused.pending else _wrong(refused.reason, refused.message)
    if check is None or check.digest != digest:
        return _pending(texts.CHECKING[0].message)
    if check.reason == INVALID_URL:
        return _wrong(INVALID_URL, texts.URL_NOT_FOUND[0].text(detail=check.message))
    url = spec_of(RepositoryCredentialSpec, resource).repository
    known = {UP_TO_DATE: texts.VALID, INVALID_CREDENTIALS: texts.INVALID}.get(check.reason)
    if known is None:
        return _wrong(check.reason, check.message)
    return {entry.type: (entry.status, entry.reason, entry.text(secret=resource.refers_to, url=url)) for entry in known}


def _pending(message: str) -> States:
    return dict.fromkeys((ERROR, texts.CREDENTIAL, texts.URL), ("Unknown", Reason.CHECKING, message))


def _wrong(reason: str, message: str) -> States:
    return {
        ERROR: ("True", reason, message),
        texts.CREDENTIAL: ("False", reason, message),
        texts.URL: ("False", reason, message),
    }
