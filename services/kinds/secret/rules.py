"""Secrets that resources name. Their content is sealed, so only existence, type, size and owners are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import orjson

from services.common.api_resource import SECRET
from services.common.json_values import text_of
from services.common.messages import ResourceChanged
from services.kinds.shared.conditions import Refused
from services.kinds.shared.connections import SealedSecret
from services.kinds.shared.kind import Reference
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.secret_binding import binding_of
from services.kinds.shared.text import MAX_NAME, MAX_REFUSAL

RESEALED = "resealed"
"""Field of a Secret's spec, and of a binding: true if an operator's command sealed a stored row again."""
BOUND = "bound"
"""Field of a Secret's spec: true if the watcher sends, with each resource that names it, what it may be used for."""
AWAITED = "awaited"
"""Field of a Secret's spec: true if its content follows, because the watcher does not know yet which cluster to seal it
for."""

NEVER_COPIED = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
"""Types of Secrets that identify the cluster's own accounts. A user who may name a Secret in a resource need not be
allowed to read it, and must not have such an account sent to a server of their choice."""
TOO_LARGE = "too large"
"""Sent in place of the type of a copied Secret that is too large."""

Defect = Literal["unnamed", "missing", "awaited", "other type", "omitted", "over quota"]


def read_secret(
    reference: Reference, resource: PlainResource, secret: PlainResource | None, limits: Limits
) -> SealedSecret:
    """The Secret that ``resource`` names; ``secret`` is the row of that name, if there is one. Raises Refused."""
    found = _found(resource, secret, reference.secret_type)
    if isinstance(found, SealedSecret):
        return found
    defect, detail = found
    status, reason, message = reference.refusals[defect]
    name, quota = resource.refers_to[:MAX_NAME], limits.message(SECRET.kind)
    detail = detail[:MAX_REFUSAL]
    raise Refused(status, reason, message.format(secret=name, type=detail, detail=detail, quota=quota))


def _found(
    resource: PlainResource, secret: PlainResource | None, wanted_type: str
) -> SealedSecret | tuple[Defect, str]:
    """The Secret, or why there is none, with the other type or why the content was left out.

    Secrets of other types are not followed: the watcher looked one up when it sent ``resource``, and no more is known.
    A Secret of the right type without a row is about to arrive.
    """
    if not resource.refers_to:
        return "unnamed", ""
    if secret is None or not secret.present:
        return _absent(resource.secret_type, wanted_type)
    if secret.over_quota:
        return "over quota", ""
    return ("omitted", secret.omitted) if secret.omitted else _sealed(resource, secret, wanted_type)


def type_of(secret: PlainResource) -> str:
    """Its type as the watcher has sent it; empty if it has not."""
    return text_of(_parsed(secret.spec).get("type"))


def is_taken_back(resource: PlainResource, secret: PlainResource | None) -> bool:
    """Whether the Secret that ``resource`` names does not exist."""
    return (secret is None or not secret.present) and bool(resource.refers_to) and not resource.secret_type


def without_secret(resource: PlainResource) -> PlainResource:
    """``resource`` after its Secret was deleted, so that it does not wait for the Secret."""
    return replace(resource, secret_type="", secret_binding="") if resource.secret_type else resource


def is_resealed(known: PlainResource, seen: PlainResource) -> bool:
    """Whether a list only shows ``known`` again: each seal of the same version makes another text, with the same key.

    A watcher that does not know yet where to seal to, and sends no content, says nothing new, either.
    """
    same_version = known.present and known.resource_version == seen.resource_version
    is_replay = known.seen_at > seen.seen_at
    return same_version and (is_replay or is_awaited(seen.spec) or _key_id(known) == _key_id(seen))


def is_from_row(event: ResourceChanged) -> bool:
    """Whether an operator's command made ``event`` from a stored row, without having seen the resource."""
    text = event.spec if event.kind == SECRET.kind else event.secret_binding
    return RESEALED in text and _parsed(text).get(RESEALED) is True


def is_late_reseal(known: PlainResource | None, event: ResourceChanged) -> bool:
    """Whether ``event`` comes from a stored row, and the resource or its Secret has changed or gone since."""
    if not is_from_row(event):
        return False
    if known is None or not known.present or known.resource_version != event.resource_version:
        return True
    before, resealed = binding_of(known.secret_binding), binding_of(event.secret_binding)
    return (before and before.subject) != (resealed and resealed.subject)


def is_awaited(spec: str) -> bool:
    """Whether the content of a Secret with this spec follows."""
    return AWAITED in spec and _parsed(spec).get(AWAITED) is True


def _key_id(secret: PlainResource) -> str:
    return str(_parsed(secret.spec).get("keyId", ""))


def _sealed(resource: PlainResource, secret: PlainResource, wanted_type: str) -> SealedSecret | tuple[Defect, str]:
    """With the binding for ``resource``. The two arrive by different feeds, so they wait for each other.

    A watcher of before makes no bindings: then an agent decides.
    """
    written = _parsed(secret.spec)
    type_, sealed = written.get("type"), written.get("sealed")
    if type_ != wanted_type:
        return "other type", str(type_ or "")
    if is_awaited(secret.spec):
        return "awaited", ""
    if not isinstance(sealed, str) or not sealed:
        return "omitted", "its content did not arrive"
    binding = binding_of(resource.secret_binding)
    if binding is None:
        return SealedSecret(secret.name, secret.resource_version, sealed) if BOUND not in written else ("awaited", "")
    if (binding.uid, binding.version) != (secret.uid, secret.resource_version):
        return "awaited", ""
    return SealedSecret(secret.name, secret.resource_version, sealed, binding.sealed)


def _absent(found_type: str, wanted_type: str) -> tuple[Defect, str]:
    if found_type == wanted_type:
        return "awaited", ""
    return ("other type", found_type) if found_type else ("missing", "")


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
