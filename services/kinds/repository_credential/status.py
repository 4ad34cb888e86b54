"""The status of a GitOpsDeploymentRepositoryCredential: whether its repository can be read."""

from __future__ import annotations

from services.kinds.repository_credential import catalogue as texts
from services.kinds.repository_credential.model import RepositoryCredentialSpec
from services.kinds.repository_credential.validation import INVALID_CREDENTIALS, INVALID_URL
from services.kinds.shared.catalogue import ERROR, Reason
from services.kinds.shared.conditions import (
    ConditionStates,
    Refused,
    compile_status,
    parsed_status,
    recurring_states,
    throttling,
)
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.shared.spec_text import spec_of

UP_TO_DATE = texts.VALID[0].reason


def credential_status(inputs: StatusInputs) -> str:
    """Canonical JSON of the whole status, its conditions sorted by type; ``previous`` if nothing has changed."""
    resource, previous = inputs.resource, inputs.previous
    throttled = recurring_states(throttling(resource.held_back_ms), parsed_status(previous))
    states = _states(resource, refusal_of(resource), inputs.check, inputs.digest)
    return compile_status(previous, {**states, **throttled}, inputs.at, by_type=True)


def _states(
    resource: PlainResource, refused: Refused | None, check: Check | None, digest: str | None
) -> ConditionStates:
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


def _pending(message: str) -> ConditionStates:
    return dict.fromkeys((ERROR, texts.CREDENTIAL, texts.URL), ("Unknown", Reason.CHECKING, message))


def _wrong(reason: str, message: str) -> ConditionStates:
    return {
        ERROR: ("True", reason, message),
        texts.CREDENTIAL: ("False", reason, message),
        texts.URL: ("False", reason, message),
    }
